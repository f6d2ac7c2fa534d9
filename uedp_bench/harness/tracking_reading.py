"""Results are read back from MLflow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from uedp_bench.errors import InputError
from uedp_bench.harness.tracking_client import (
    PROBE,
    WORK,
    as_tracking_error,
    client_of,
    environment,
    without_credentials,
)
from uedp_bench.harness.tracking_grid import GRID
from uedp_bench.harness.tracking_values import CONTENT

_READERS = 8


def logged_runs(uri: str, experiment: str) -> list[tuple[str, tuple[str, ...]]]:
    """The runs of an experiment, by id, each with a state that changes when it is logged again.

    Runs that only hold a grid together are left out: they have no result.

    Raises:
        InputError: if there is no such store or no such experiment.
        TrackingError: if the server cannot be reached or refuses.
    """
    public = without_credentials(uri)
    _check_store(uri, public)
    with as_tracking_error(f"read MLflow at {public}"), environment(PROBE):
        client = client_of(uri)
        found = client.get_experiment_by_name(experiment)
        known = [] if found else [one.name for one in client.search_experiments()]
    if not found:
        raise InputError(
            f"no experiment {experiment!r} in MLflow at {public}; there are: "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    runs, page = [], None
    with as_tracking_error(f"read MLflow at {public}"), environment(WORK):
        while page is None or page.token:
            page = client.search_runs(
                [found.experiment_id], max_results=1000, page_token=page and page.token
            )
            runs += page
    states = {run.info.run_id: (run.info.status, str(run.info.end_time),
                                run.data.tags.get(CONTENT, ""))
              for run in runs if GRID not in run.data.tags}  # fmt: skip
    return sorted(states.items())


def logged_results(uri: str, runs: Sequence[str]) -> Iterator[str | None]:
    """The text of each run's `result.json`, in the order of the ids; None where it has none.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """
    if not runs:
        return
    with (
        as_tracking_error(f"read MLflow at {without_credentials(uri)}"),
        environment(WORK),
        TemporaryDirectory() as folder,
    ):
        pool = ThreadPoolExecutor(_READERS)
        try:
            yield from pool.map(partial(_result_text, client_of(uri), Path(folder)), runs)
        finally:
            pool.shutdown(cancel_futures=True)


def _result_text(client: Any, folder: Path, run: str) -> str | None:
    if "result.json" not in {entry.path for entry in client.list_artifacts(run)}:
        return None
    (folder / run).mkdir()
    path = Path(client.download_artifacts(run, "result.json", str(folder / run)))
    text = path.read_text(encoding="utf-8", errors="replace")
    path.unlink()
    return text


def _check_store(uri: str, public: str) -> None:
    """Reading must not make a store where there is none, as MLflow does."""
    kind, _, where = uri.partition(":")
    if kind == "sqlite":
        path = Path(where.removeprefix("///").partition("?")[0])
        if not path.is_file():
            raise InputError(f"MLflow's store {public}: no such file")
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            try:
                database.execute("select 1 from experiments limit 1")
            except sqlite3.DatabaseError as error:
                raise InputError(f"MLflow's store {public}: {error}") from None
    elif "://" not in uri and not Path(where if kind == "file" else uri).is_dir():
        raise InputError(f"MLflow's store {public}: no such folder")
