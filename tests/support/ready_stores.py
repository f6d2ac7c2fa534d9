"""Empty stores of MLflow: one is set up in a process, and the next ones are copies of it.

To set one up takes a second of computing. Tests of that (tests/harness) do without this.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.harness import tracking_client
from uedp_bench.harness.tracking_store import database, set_up


def copied(ready: Path, uri: str, connect: Callable[[str], Any]) -> None:
    """Puts a copy of a store that `set_up` made before where it would make one."""
    file = database(uri)
    if file is None or file.exists():
        return
    if not ready.exists():
        set_up(f"sqlite:///{ready}", connect)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(ready.read_bytes())


@pytest.fixture(scope="session")
def ready_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the store that others are copies of."""
    return tmp_path_factory.mktemp("ready") / "mlflow.db"


@pytest.fixture(autouse=True)
def ready_stores(monkeypatch: pytest.MonkeyPatch, ready_store: Path) -> None:
    """Stores that tests ask for are copies."""
    monkeypatch.setattr(tracking_client, "set_up", partial(copied, ready_store))
