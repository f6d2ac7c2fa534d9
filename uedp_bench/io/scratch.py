"""Temporary folders that a killed process does not leave for ever."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

_PREFIX = "uedp-bench-"


def scratch_folder() -> TemporaryDirectory[str]:
    """Make a temporary folder; remove those of this user's processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _is_alive(int(owner)) and _is_mine(folder):
            shutil.rmtree(folder, ignore_errors=True)
    return TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True


def _is_mine(folder: Path) -> bool:
    with suppress(OSError):
        status = folder.lstat()
        return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid()
    return False
