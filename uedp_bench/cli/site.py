"""`uedp-bench leaderboard build` and `serve`: the leaderboard as pages, and results to read."""

from __future__ import annotations

import os
import signal
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import print_json
from uedp_bench.errors import InputError, plain

if TYPE_CHECKING:
    from uedp_bench.leaderboard.loading import Loaded, Loader, Progress
    from uedp_bench.leaderboard.site import Built
    from uedp_bench.leaderboard.sources import Source

REFERENCE, OWN = Path("leaderboard/results"), Path("runs")

Folders = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Folder with results, searched to any depth, or a bundle of them (repeat for "
        "several). "
        f"[default: ./{REFERENCE} if it is there, else ./{OWN}]",
    ),
]
Experiments = Annotated[
    list[str] | None,
    typer.Option(
        "--experiment",
        metavar="NAME",
        help="MLflow experiment whose runs have a result.json, as 'uedp-bench run' logs them "
        "(repeat for several).",
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        metavar="URI",
        help=f"Where MLflow is. [default: $MLFLOW_TRACKING_URI, else sqlite:///{OWN}/mlflow.db]",
    ),
]
OneTask = Annotated[str | None, typer.Option("--task", help="Rows of one task only.")]
OneSource = Annotated[str | None, typer.Option("--source", help="Rows of one source only.")]


def loader_of(
    folders: list[Path] | None,
    experiments: list[str] | None,
    uri: str | None,
    *,
    may_come: bool = False,
) -> Loader:
    """Build a loader of results of folders and experiments, by default of one folder.

    Args:
        folders, experiments, uri: values of the options above.
        may_come: True if folders need not exist yet.

    Raises:
        InputError: if a tracking URI stands alone.
    """
    from uedp_bench.leaderboard.loading import Loader
    from uedp_bench.leaderboard.sources import Experiment, Folder
    from uedp_bench.tracking.store import default_uri

    if uri and not experiments:
        raise InputError(f"--tracking-uri {uri}: name an --experiment there, such as uedp-bench")
    if not folders and not experiments:
        folders = [REFERENCE if REFERENCE.is_dir() else OWN]
    where = uri or os.environ.get("MLFLOW_TRACKING_URI") or default_uri(OWN)
    sources: list[Source] = [Folder(folder, may_come) for folder in dict.fromkeys(folders or ())]
    sources += [Experiment(name, where) for name in dict.fromkeys(experiments or ())]
    return Loader(sources)


def tell(loaded: Loaded, left_out: Sequence[str] = ()) -> None:
    """Say on standard error what is left out of what is shown, and what readers may want to know.

    Args:
        loaded: results that were read.
        left_out: lines about results that were read, and cannot be shown.
    """
    for line in (*loaded.problems, *left_out):
        typer.echo(f"left out: {plain(line)}", err=True)
    for note in loaded.notes:
        typer.echo(f"note: {plain(note)}", err=True)


def loaded_from(loader: Loader, progress: Progress | None = None) -> Loaded:
    """Results of a loader.

    Raises:
        InputError: if there is none, or an id stands for two results.
    """
    loaded = loader.load(progress).unambiguous()
    if not loaded.copies:
        tell(loaded)
        raise InputError(f"no results in {loader.name}; make some with: uedp-bench quickstart")
    return loaded


def build_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the site; made if needed.")
    ],
    results: Folders = None,
    experiment: Experiments = None,
    tracking_uri: TrackingUri = None,
    task: OneTask = None,
    source: OneSource = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Write into a folder that has other files, too; these are kept."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say as JSON what was written.")] = False,
) -> None:
    """The leaderboard as a static site: open it from disk, or put it on any static host.

    The same results make the same files. Building again into the same folder writes what has
    changed and removes pages of runs that are gone; files of others are never touched.

    \b
    uedp-bench leaderboard build --out site
    uedp-bench leaderboard build --results runs/mine --results leaderboard/results --out site
    uedp-bench leaderboard build --experiment uedp-bench --tracking-uri http://mlflow:5000 --out site
    """  # noqa: D301, E501
    from uedp_bench.leaderboard.rows import select
    from uedp_bench.leaderboard.site import build, without_culprits

    with _bar("reading results") as progress:
        loaded = loaded_from(loader_of(results, experiment, tracking_uri), progress)
    with _bar("writing pages") as progress:
        built, left_out = without_culprits(
            loaded,
            lambda results: build(
                select(results, task, source), out, force=force, progress=progress
            ),
        )
    tell(loaded, left_out)
    _tell(built, out, as_json)


def serve_command(
    results: Folders = None,
    experiment: Experiments = None,
    tracking_uri: TrackingUri = None,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="0 takes any that is free.")
    ] = 8000,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Serve the site on this machine alone; it follows results while benchmarks run.

    Open pages refresh by themselves and keep their view. The folders need not exist yet. Ctrl-C
    ends it.

    \b
    uedp-bench leaderboard serve --results runs/mine --open
    """  # noqa: D301
    from uedp_bench.leaderboard.serve import LiveServer

    # A server is also ended by other signals than Ctrl-C; its folder must go then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    loader = loader_of(results, experiment, tracking_uri, may_come=True)
    with suppress(KeyboardInterrupt), LiveServer(loader, port) as server:
        with _bar("reading results") as progress:
            lines = server.site.refresh(progress)
        for line in lines:
            typer.echo(plain(line))
        typer.echo(f"serving {server.url} (Ctrl-C to stop)")
        if open_browser:
            webbrowser.open(server.url)
        server.follow(lambda line: typer.echo(f"{datetime.now():%H:%M:%S}  {plain(line)}"))
    typer.echo("stopped")


def _tell(built: Built, out: Path, as_json: bool) -> None:
    index = out / "index.html"
    if as_json:
        print_json({
            "out": str(out), "index": str(index), "rows": built.rows, "runs": built.runs,
            "files": built.files, "written": built.written, "removed": built.removed,
        })  # fmt: skip
        return
    typer.echo(
        f"{built.rows} rows of {built.runs} runs: {len(built.files)} files, of which "
        f"{len(built.written)} are new or have changed; {len(built.removed)} removed"
    )
    typer.echo(f"open {index}")


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    """A progress bar on a terminal, and nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, disable=not console.is_terminal, transient=True) as bar:
        line = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(line, completed=done, total=total)
