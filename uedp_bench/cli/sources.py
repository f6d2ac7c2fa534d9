"""Sources of results of the leaderboard's commands: their options, and the loader."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.errors import InputError
from uedp_bench.io.messages import plain

if TYPE_CHECKING:
    from uedp_bench.leaderboard.loading import Loaded, Loader
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


def no_results(loader: Loader) -> InputError:
    """The sentence to print if there is nothing to show."""
    return InputError(f"no results in {loader.name}; make some with: uedp-bench quickstart")
