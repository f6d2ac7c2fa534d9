"""`uedp-bench leaderboard pack`: results as they are published, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uedp_bench.cli.console import PluginFiles, echo
from uedp_bench.cli.validate import validated
from uedp_bench.errors import InputError

Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUNS", help="Folders of runs, or bundles, searched to any depth."),
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The bundle, NAME.jsonl.gz.")]


def pack_command(runs: Runs, out: Out, plugin: PluginFiles = None) -> None:
    """Validate results and write them into a bundle: a line a result, the same bytes every time.

    Nothing is written if a result has an error (exit code 1). Failed runs are left out, and so is
    the place of a run in MLflow; everything else of it stays as it is.

    \b
    uedp-bench leaderboard pack runs/mine --out leaderboard/results/mine.jsonl.gz
    """  # noqa: D301
    from uedp_bench.leaderboard.bundles import SUFFIX, write_bundle
    from uedp_bench.leaderboard.loading import load_results

    if not out.name.removesuffix(SUFFIX) or not out.name.endswith(SUFFIX):
        raise InputError(f"--out {out}: the name of a bundle ends with {SUFFIX}")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: no such folder: {out.parent}")
    results = load_results(runs)
    finished = [result for result in results if result.status == "finished"]
    if not finished:
        raise InputError(f"RUNS: no finished run in {', '.join(map(str, runs))}")
    validated(runs, plugin or ())
    for result in results:
        if result.status != "finished":
            echo(f"left out: {result.id}, which failed", err=True)
    write_bundle([one.model_copy(update={"tracking": {}}) for one in finished], out)
    echo(f"written: {out}, {len(finished)} results")
