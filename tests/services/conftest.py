"""Services that tests start. They take a minute, and so run only where their folder is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from services import MlflowServer, Postgres, missing

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The suite has no time for them: a person or a step of its own names the folder."""
    base = config.invocation_params.dir
    named = [base / str(part).partition("::")[0] for part in config.args]
    reason = "they take a minute: name the folder tests/services to run them"
    if any(path.resolve() == HERE or HERE in path.resolve().parents for path in named):
        reason = missing()
    if not reason:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def postgres():
    found = Postgres()
    yield found
    found.close()


@pytest.fixture(scope="session")
def server(postgres, tmp_path_factory):
    found = MlflowServer(postgres.uri, tmp_path_factory.mktemp("mlflow"))
    yield found
    found.kill()
