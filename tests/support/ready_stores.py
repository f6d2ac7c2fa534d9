"""Empty stores of MLflow: one is set up in a process, and the next ones are copies of it.

To set one up takes a second of computing. Tests of that (tests/tracking) do without this.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from uedp_bench.tracking import store
from uedp_bench.tracking.store import make_store


def copied(ready: Path, file: Path) -> None:
    """Puts a copy of a store that was made before where it would be made."""
    if not ready.exists():
        make_store(ready)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(ready.read_bytes())


@pytest.fixture(scope="session")
def ready_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the store that others are copies of."""
    return tmp_path_factory.mktemp("ready") / "mlflow.db"


@pytest.fixture(autouse=True)
def ready_stores(monkeypatch: pytest.MonkeyPatch, ready_store: Path) -> None:
    """Stores that tests ask for are copies."""
    monkeypatch.setattr(store, "make_store", partial(copied, ready_store))
