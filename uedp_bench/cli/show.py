"""`uedp-bench show`: a result in plain words, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import AsJson, echo, print_json
from uedp_bench.errors import InputError, nearest, shown

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result
    from uedp_bench.leaderboard.bundles import Line

What = Annotated[
    str, typer.Argument(metavar="RUN", help="An id, its beginning, a folder or a result.json.")
]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of results, or a bundle of them.")
]


def show_command(run: What, out: Out = Path("runs"), as_json: AsJson = False) -> None:
    """Show a result in plain words: what it promises, what it is worth, what attacks found.

    \b
    uedp-bench show 3f2a --out runs/quickstart
    uedp-bench show runs/quickstart/3f2a17c09be1/result.json
    uedp-bench show 3f2a --out leaderboard/results
    """  # noqa: D301
    result = _result(run, out)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    from uedp_bench.leaderboard.run_pages.in_lines import result_lines

    for line in result_lines(result):
        echo(line)


def _result(run: str, out: Path) -> Result:
    """The result that is called so.

    Raises:
        InputError: if none, or several, are called so.
    """
    from uedp_bench.contracts.results import read_result
    from uedp_bench.store.result_files import result_of_text

    named = Path(run)
    for file in (named, named / "result.json"):
        if file.is_file():
            return read_result(file)
    runs: dict[str, Path | Line] = {file.parent.name: file for file in out.glob("*/result.json")}
    if not any(name.startswith(run) for name in runs):
        runs |= {line.id: line for line in _lines(out, run)}
    fits = [name for name in sorted(runs) if name.startswith(run)]
    if len(fits) == 1:
        place = runs[fits[0]]
        if isinstance(place, Path):
            return read_result(place)
        return result_of_text(place.text, place.place)
    if fits:
        raise InputError(f"{shown(run)} begins several runs of {out}: {', '.join(fits[:8])}")
    near = nearest(run, runs)
    hint = f"did you mean {near}?" if near else f"it has {len(runs)} runs; --out names a folder"
    raise InputError(f"no run {shown(run)} in {out}; {hint}")


def _lines(out: Path, run: str) -> Iterator[Line]:
    """Lines of all bundles of a folder; the text of those alone whose id begins so."""
    from uedp_bench.leaderboard.bundles import SUFFIX, read_lines
    from uedp_bench.leaderboard.sources import Folder

    for file in Folder(out, may_come=True).find():
        for line in read_lines(Path(file.name)) if file.name.endswith(SUFFIX) else ():
            yield line if line.id.startswith(run) else replace(line, text="")
