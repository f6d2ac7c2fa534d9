"""Clients of MLflow: experiments found or made, limits of time, and errors in one line."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from uedp_bench.errors import InputError, TrackingError
from uedp_bench.harness.tracking_store import database, set_up

PROBE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
"""Limits of the first request: a server that is gone is known in seconds."""

WORK = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
"""Limits of a server that has answered."""

RETRY_SECONDS = 60.0
"""A server that failed is asked again no earlier."""

_KIND = "mlflow.experimentKind"
_CLASSIC = "custom_model_development"
"""Without a kind MLflow 3 guesses one, and may open an experiment as one of prompts and traces.
This one has the table of runs with metrics, parameters, data sets and models as columns."""


_UNFIT = re.compile(r"[?#%]")
"""Characters that end or escape the path in an address: MLflow would open another file, or none."""

_CONNECT_SECONDS = 5
_MODULES = ("tracking", "entities", "exceptions", "data", "system_metrics")
_importing = threading.Lock()


def import_mlflow() -> None:
    """Imports what is used of MLflow: two threads that import parts of it at once can both fail."""
    with _importing:
        # Before the import: nothing about a privacy benchmark is reported to anyone.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        for module in _MODULES:
            importlib.import_module(f"mlflow.{module}")


def default_uri(results: Path) -> str:
    """The SQLite store beside a folder of results.

    Raises:
        InputError: if the folder's path has a character that such an address cannot hold.
    """
    if unfit := _UNFIT.search(str(results)):
        raise InputError(
            f"--out {results}: the address of MLflow's store cannot hold {unfit[0]!r}; take a "
            "folder without ?, # and %, or --no-tracking, or --tracking-uri URI"
        )
    return f"sqlite:///{results}/mlflow.db"


@lru_cache(maxsize=8)
def client_of(uri: str) -> Any:
    """The client of a tracking URI, made once."""
    return _new_client(uri)


def _new_client(uri: str) -> Any:
    import_mlflow()
    from mlflow.tracking import MlflowClient

    for chatter in ("mlflow", "alembic"):
        logging.getLogger(chatter).setLevel(logging.ERROR)
    return MlflowClient(tracking_uri=uri)


@lru_cache(maxsize=8)
def experiment_of(uri: str, name: str) -> tuple[Any, str]:
    """The client and the experiment's id; a new SQLite store is set up here, once.

    An experiment that nobody gave a kind becomes one of trained models.
    """
    import_mlflow()
    set_up(uri, _new_client)
    _reach(uri)
    client = client_of(uri)
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            where = _artifacts(uri)
            return client, client.create_experiment(name, where, tags={_KIND: _CLASSIC})
        except MlflowException:  # another process was faster
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if _KIND not in found.tags:
        client.set_experiment_tag(found.experiment_id, _KIND, _CLASSIC)
    return client, found.experiment_id


def _reach(uri: str) -> None:
    """Connects to a database once: MLflow itself tries for minutes, and limits HTTP alone."""
    if database(uri) is not None or "://" not in uri or uri.startswith(("http", "file")):
        return
    from sqlalchemy import create_engine
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.pool import NullPool

    try:
        backend = make_url(uri).get_backend_name()
    except ArgumentError:
        return  # a store of a plug-in of MLflow
    limits = {"connect_timeout": _CONNECT_SECONDS} if backend in _WITH_TIMEOUT else {}
    engine = create_engine(uri, poolclass=NullPool, connect_args=limits)
    with engine.connect():
        pass


_WITH_TIMEOUT = ("postgresql", "mysql")
"""Backends whose drivers take `connect_timeout`, in seconds."""


def _artifacts(uri: str) -> str | None:
    """Beside the database for SQLite; elsewhere the server decides."""
    file = database(uri)
    return None if file is None else (file.resolve().parent / "mlartifacts").as_uri()


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets MLflow's limits where the user has not, and takes them back."""
    # MLflow prints addresses of runs to standard output, which belongs to tables and --json.
    quiet = {
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }
    added = {k: v for k, v in {**values, **quiet}.items() if k not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def as_tracking_error(what: str) -> Iterator[None]:
    """Whatever goes wrong inside is a `TrackingError`, but for a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise TrackingError(_explain(what, error)) from error
    except Exception as error:  # drivers and servers raise what they like
        raise TrackingError(_explain(what, error)) from error


def _explain(what: str, error: Exception) -> str:
    reason = (without_credentials(str(error)).strip().splitlines() or [type(error).__name__])[0]
    return f"cannot {what}: {reason[:300]}"


def without_credentials(text: str) -> str:
    """A URI as it may be printed: without a name, a password, or what a query holds."""
    text = re.sub(r"//[^@/\s]+@", "//***@", text)
    return re.sub(r"(://[^\s?]*)\?[^\s'\"]+", r"\1?***", text)
