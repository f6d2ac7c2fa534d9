"""Finding the files of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uedp_bench.errors import InputError


def find_file(folder: Path, names: Sequence[str], owner: str) -> Path:
    """The first of `names` in a folder that exists, as it is or with `.gz` behind it.

    Args:
        folder: folder to search.
        names: file names or patterns (`train*.jsonl`), the preferred first.
        owner: the source that asks, for the message.

    Raises:
        InputError: if the folder or every one of the names is missing.
    """
    file = find_optional(folder, names, owner)
    if file is None:
        raise InputError(f"{owner}.path: {folder} has no {' or '.join(names)} (plain or .gz)")
    return file


def find_optional(folder: Path, names: Sequence[str], owner: str) -> Path | None:
    """As `find_file`, but None where no such file exists.

    Raises:
        InputError: if the folder is missing.
    """
    if not folder.is_dir():
        raise InputError(f"{owner}.path: {folder} is not a folder")
    patterns = (f"{name}{ending}" for name in names for ending in ("", ".gz"))
    hits = (file for pattern in patterns for file in sorted(folder.glob(pattern)))
    return next((file for file in hits if file.is_file()), None)


def require_path(path: Path, owner: str) -> Path:
    """The path, if something is there.

    Raises:
        InputError: otherwise.
    """
    if not path.exists():
        raise InputError(f"{owner}.path: {path} does not exist")
    return path
