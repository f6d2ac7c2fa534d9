"""Arrays that are dear to compute, kept in files: damaged ones are computed again."""

from __future__ import annotations

import os
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

_DAMAGED = (
    OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error,
    NotImplementedError, RuntimeError,  # flags of a zip file that nobody set
)  # fmt: skip


def load_arrays(file: Path, read: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Read a file's arrays by name with `read`; None if it is missing or damaged."""
    try:
        with np.load(file, allow_pickle=False) as data:
            return read(data)
    except _DAMAGED:
        return None


def save_arrays(file: Path, what: str, **arrays: Any) -> None:
    """Write arrays to a neighbour and rename it: a reader sees the whole file or none.

    Args:
        file: the file; its folder is made.
        what: name of the arrays in the warning about a failure.
        arrays: arrays by name.
    """
    part: str | None = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=file.parent, suffix=".part")
        with os.fdopen(handle, "wb") as out:
            np.savez_compressed(out, **arrays)
        Path(part).replace(file)
    except OSError as error:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        warnings.warn(f"{what} are not cached: {error}", stacklevel=3)
