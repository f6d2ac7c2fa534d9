"""A private folder on each machine of a cluster, for one grid: files that travelled, runs at work.

Processes of one machine share it: what travelled is written once. It is removed when the grid ends.
A folder that a killed grid left is removed by the next one: nobody holds its lock any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from filelock import FileLock

from uedp_bench.cluster.named_paths import NamedFiles
from uedp_bench.files.output_folder import private_folder

_PREFIX = "uedp-bench-grid-"
_ALIVE = ".alive"
_TRIES = 25

Fetch = Callable[[str], Iterable[bytes] | None]
"""The content of named files by digest; None where it was not sent."""


class NodeFolder:
    """The folder of a grid on this machine.

    Args:
        token: that nobody can guess, of the grid.
    """

    def __init__(self, token: str) -> None:
        self.path = folder_of(token)
        private_folder(self.path)
        if self.path.is_symlink() or self.path.stat().st_uid != _me():
            raise OSError(f"{self.path} is somebody else's")
        self.runs = self.path / "runs"
        private_folder(self.runs)
        private_folder(self.path / "files")
        self._held = _hold(self.path / _ALIVE)
        remove_left_behind()

    def place(self, named: NamedFiles, fetch: Fetch) -> Path | None:
        """Where the same content lies on this machine; None if it has to be sent first.

        Raises:
            OSError: if it cannot be written.
        """
        files = self.path / "files"
        there, here = files / named.digest, files / f"{named.digest}.path"
        with FileLock(files / f"{named.digest}.lock"):
            if here.is_file():
                return Path(here.read_text(encoding="utf-8"))
            place = Path(named.where)
            if not named.lies_at(place):  # a folder that machines share needs no copy
                chunks = fetch(named.digest)
                if chunks is None:
                    return None
                shutil.rmtree(there, ignore_errors=True)
                inside = there / named.base if named.base else there
                private_folder(inside)
                named.write(inside, chunks)
                place = named.below(inside)
            here.write_text(str(place), encoding="utf-8")
            return place


def folder_of(token: str) -> Path:
    """The folder of a grid on this machine."""
    return Path(tempfile.gettempdir()) / f"{_PREFIX}{token}"


def remove(token: str) -> None:
    """Removes the folder of a grid here; processes that were just ended may still be in it."""
    folder = folder_of(token)
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.2)


def remove_left_behind() -> None:
    """Removes folders of grids that are gone without a word."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != _me():
                continue
            with (folder / _ALIVE).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _hold(path: Path) -> IO[bytes]:
    """Says that the folder is in use, as long as this process lives."""
    lock = path.open("ab")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _me() -> int:
    return os.getuid()
