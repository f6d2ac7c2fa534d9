"""Services that tests start. They take a minute, and so run only where their folder is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from only_where_named import skip_elsewhere
from services import MlflowServer, Postgres, missing

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    with_store = [item for item in items if item.path.name == "test_mlflow_server.py"]
    skip_elsewhere(config, with_store, HERE, missing())
    skip_elsewhere(config, [item for item in items if item not in with_store], HERE)


@pytest.fixture(scope="session")
def postgres():
    database = Postgres()
    yield database
    database.close()


@pytest.fixture(scope="session")
def server(postgres, tmp_path_factory):
    mlflow_server = MlflowServer(postgres.uri, tmp_path_factory.mktemp("mlflow"))
    yield mlflow_server
    mlflow_server.kill()
