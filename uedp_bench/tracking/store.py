"""MLflow's stores and servers: opened for logging, and read back."""

from __future__ import annotations

import logging
import os
import random
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from uedp_bench.errors import InputError, TrackingError
from uedp_bench.io.folders import PARTIAL
from uedp_bench.tracking.content import CONTENT, GRID

PROBE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
         "PGCONNECT_TIMEOUT": "5"}  # fmt: skip
"""Limits of the first request: a server that is gone is noticed in seconds."""

WORK = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
"""Limits of requests to a server that has answered."""

_QUIET = {"MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
          "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}  # fmt: skip
"""MLflow prints to standard output, which belongs to tables and `--json`."""

_TABLE_OF_RUNS = {"mlflow.experimentKind": "custom_model_development"}
"""Without a kind MLflow 3 may open an experiment as one of prompts and traces."""

_SQLITE = "sqlite:///"
_ARTIFACTS = "mlartifacts"
"""Folder of logged files beside an SQLite store; MLflow records its absolute path."""
_UNFIT = re.compile(r"[?#%]")
"""Characters that end or escape the path in an address: MLflow would open another file."""

_TRIES = 5
_PAUSE_SECONDS = 0.5
_IN_THE_WAY = ("BAD_REQUEST", "INVALID_PARAMETER_VALUE", "RESOURCE_ALREADY_EXISTS",
               "RESOURCE_DOES_NOT_EXIST")  # fmt: skip
"""Answers of a server where another client wrote the same row first, or deleted the run."""

_READERS = 8

T = TypeVar("T")


class Place(NamedTuple):
    """An experiment: MLflow's client and the experiment's id."""

    client: Any
    experiment: str


def default_uri(results: Path) -> str:
    """Address of the SQLite store beside a folder of results.

    Raises:
        InputError: if the folder's path has a character that such an address cannot hold.
    """
    if unfit := _UNFIT.search(str(results)):
        raise InputError(
            f"--out {results}: the address of MLflow's store cannot hold {unfit[0]!r}; take a "
            "folder without ?, # and %, or --no-tracking, or --tracking-uri URI"
        )
    return f"{_SQLITE}{results}/mlflow.db"


def sqlite_file(uri: str) -> Path | None:
    """File of an SQLite store; None for other stores."""
    return Path(uri[len(_SQLITE) :].partition("?")[0]) if uri.startswith(_SQLITE) else None


def use_experiment(uri: str, name: str, work: Callable[[Place], T]) -> T:
    """Do work in an experiment, which is made where there is none, within limits of time.

    Args:
        uri: any MLflow tracking URI.
        name: name of the experiment.
        work: function that adds what is missing; it is called again where another client was in
            its way.

    Raises:
        TrackingError: for whatever fails.
    """
    with tracking_errors(f"log to MLflow at {without_credentials(uri)}"):
        with _environment(PROBE):
            place = _despite_others(partial(_experiment, uri, name))
        with _environment(WORK):
            return _despite_others(partial(work, place))


def _despite_others(work: Callable[[], T]) -> T:
    from mlflow.exceptions import MlflowException

    for _ in range(_TRIES - 1):
        try:
            return work()
        except MlflowException as error:
            if error.error_code not in _IN_THE_WAY:
                raise
        time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311
    return work()


@contextmanager
def tracking_errors(what: str) -> Iterator[None]:
    """Raise whatever goes wrong inside as a `TrackingError` in one line."""
    try:
        yield
    except Exception as error:  # drivers and servers raise what they like
        reason = without_credentials(str(error)).strip() or type(error).__name__
        raise TrackingError(f"cannot {what}: {reason.splitlines()[0][:300]}") from error


def without_credentials(text: str) -> str:
    """Text with addresses that show no name, no password and no query."""
    text = re.sub(r"//[^@/\s]+@", "//***@", text)
    return re.sub(r"(://[^\s?]*)\?[^\s'\"]+", r"\1?***", text)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set MLflow's limits where the user has not, and take them back."""
    added = {k: v for k, v in {**values, **_QUIET}.items() if k not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@lru_cache(maxsize=8)
def client_of(uri: str) -> Any:
    """MLflow's client of an address, made once; a new SQLite store is set up here."""
    # Before the import: nothing about a privacy benchmark is reported to anyone.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.store.db.db_types import DATABASE_ENGINES
    from mlflow.tracking import MlflowClient
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    for chatter in ("mlflow", "alembic"):
        logging.getLogger(chatter).setLevel(logging.ERROR)
    file = sqlite_file(uri)
    if file is not None and not file.exists():
        make_store(file)
    if re.split("[:+]", uri)[0] in DATABASE_ENGINES:
        # MLflow itself tries for minutes to connect to a database that is gone.
        create_engine(uri, poolclass=NullPool).connect().close()
    return MlflowClient(tracking_uri=uri)


def make_store(file: Path) -> None:
    """Set an SQLite store up beside its place, and put it there whole.

    MLflow makes the tables in many steps, and can neither use nor mend what an interrupt leaves.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    file.parent.mkdir(parents=True, exist_ok=True)
    partial_file = file.with_name(f".{file.name}-{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        SqlAlchemyStore(f"{_SQLITE}{partial_file}", _artifacts(file)).engine.dispose()
        try:
            os.link(partial_file, file)
        except OSError:  # another process was faster, or the file system has no links
            if not file.exists():
                partial_file.replace(file)
    finally:
        for left in (partial_file, partial_file.with_name(f"{partial_file.name}-journal")):
            left.unlink(missing_ok=True)


def _artifacts(file: Path) -> str:
    return (file.resolve().parent / _ARTIFACTS).as_uri()


def _experiment(uri: str, name: str) -> Place:
    client, file = client_of(uri), sqlite_file(uri)
    where = _artifacts(file) if file else None  # elsewhere the server decides
    if existing := client.get_experiment_by_name(name):
        former = existing.artifact_location
        if where and former != where and former.endswith(f"/{_ARTIFACTS}"):
            raise InputError(
                f"its folder was moved or copied; move it back, or remove {file} and {_ARTIFACTS} "
                f"to log all results anew (it would write files into {former})"
            )
        return Place(client, existing.experiment_id)
    return Place(client, client.create_experiment(name, where, tags=_TABLE_OF_RUNS))


def search_runs(place: Place, query: str = "") -> list[Any]:
    """All runs of an experiment that a query of MLflow fits, by id."""
    runs: list[Any] = []
    page = None
    while page is None or page.token:
        page = place.client.search_runs(
            [place.experiment], query, max_results=1000, page_token=page and page.token
        )
        runs += page
    return sorted(runs, key=lambda run: str(run.info.run_id))


def logged_runs(uri: str, experiment: str) -> list[tuple[str, tuple[str, ...]]]:
    """The runs of an experiment, by id, each with a state that changes when it is logged again.

    Parents of grids are left out: they have no result.

    Raises:
        InputError: if there is no such store or no such experiment.
        TrackingError: if the server cannot be reached or refuses.
    """
    public = without_credentials(uri)
    _check_store(uri, public)
    with tracking_errors(f"read MLflow at {public}"), _environment(PROBE):
        client = client_of(uri)
        existing = client.get_experiment_by_name(experiment)
        names = [] if existing else [one.name for one in client.search_experiments()]
    if not existing:
        raise InputError(
            f"no experiment {experiment!r} in MLflow at {public}; there are: "
            f"{', '.join(sorted(names)) or 'none'}"
        )
    with tracking_errors(f"read MLflow at {public}"), _environment(WORK):
        runs = search_runs(Place(client, existing.experiment_id))
    return [
        (run.info.run_id,
         (run.info.status, str(run.info.end_time), run.data.tags.get(CONTENT, "")))
        for run in runs if GRID not in run.data.tags
    ]  # fmt: skip


def logged_results(uri: str, runs: Sequence[str]) -> Iterator[str | None]:
    """The text of each run's `result.json`, in the order of the ids; None where it has none.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """
    if not runs:
        return
    with (
        tracking_errors(f"read MLflow at {without_credentials(uri)}"),
        _environment(WORK),
        ThreadPoolExecutor(_READERS) as pool,
    ):
        yield from pool.map(partial(_result_text, client_of(uri)), runs)


def _result_text(client: Any, run: str) -> str | None:
    if "result.json" not in {entry.path for entry in client.list_artifacts(run)}:
        return None
    with TemporaryDirectory() as folder:
        path = Path(client.download_artifacts(run, "result.json", folder))
        return path.read_text(encoding="utf-8", errors="replace")


def _check_store(uri: str, public: str) -> None:
    """Refuse a store that is not there: reading must not make one, as MLflow does."""
    file = sqlite_file(uri)
    if file is not None:
        if not file.is_file():
            raise InputError(f"MLflow's store {public}: no such file")
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            try:
                database.execute("select 1 from experiments limit 1")
            except sqlite3.DatabaseError as error:
                raise InputError(f"MLflow's store {public}: {error}") from None
    elif "://" not in uri and not Path(uri.removeprefix("file:")).is_dir():
        raise InputError(f"MLflow's store {public}: no such folder")
