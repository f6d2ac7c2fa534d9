"""A store of MLflow that tests of a process share."""

from __future__ import annotations

import pytest

from uedp_bench.tracking.runs import log_result
from uedp_bench.tracking.store import default_uri


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    """One folder of results: setting up its SQLite store takes seconds."""
    return tmp_path_factory.mktemp("runs with a space")


@pytest.fixture
def log(out):
    def log(result, **more):
        folder = out / result.id
        (folder / "release").mkdir(parents=True, exist_ok=True)
        (folder / "planted.json").write_text("{}")
        (folder / "release" / "weights").write_bytes(b"w" * 100)
        return log_result(result, folder, uri=default_uri(out), experiment="tests", **more)

    return log


@pytest.fixture
def client(out):
    from mlflow.tracking import MlflowClient

    return MlflowClient(f"sqlite:///{out}/mlflow.db")
