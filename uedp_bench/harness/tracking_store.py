"""The SQLite store of MLflow, set up beside its place and put there when it is whole.

MLflow makes a new store's tables in many steps; one that is interrupted leaves a file that it can
neither use nor mend.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uedp_bench.files.output_folder import PARTIAL, sync_folder

_SCHEME = "sqlite:///"


def database(uri: str) -> Path | None:
    """The file of an SQLite store; None for other stores."""
    if not uri.startswith(_SCHEME):
        return None
    return Path(uri.removeprefix(_SCHEME).partition("?")[0])


def set_up(uri: str, connect: Callable[[str], Any]) -> None:
    """Makes an SQLite store where there is none.

    Args:
        uri: MLflow's; nothing is done for other stores, and for one that is there.
        connect: the client of a URI.
    """
    file = database(uri)
    if file is None or file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}-{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        client = connect(f"{_SCHEME}{partial}")
        client.search_experiments(max_results=1)
        client._tracking_client.store.engine.dispose()
        with partial.open("rb") as whole:
            os.fsync(whole.fileno())
        # If another process was faster, its store stays.
        with contextlib.suppress(FileExistsError):
            _put(partial, file)
        sync_folder(file.parent)
    finally:
        for left in (partial, partial.with_name(f"{partial.name}-journal")):
            left.unlink(missing_ok=True)


def _put(partial: Path, file: Path) -> None:
    try:
        os.link(partial, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if not file.exists():
            partial.replace(file)
