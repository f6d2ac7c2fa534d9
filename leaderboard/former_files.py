"""Files of a site that a former build made, and what they were made of: they are made once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from uedp_bench.leaderboard.folder_index import LEAST, FolderIndex, signature

_WHOLE = "site.json"
"""Stands for the site as a whole; its list of files is written every time, and never looked up."""


class FormerFiles:
    """Which files in the folder of a site are what they would be if they were made now.

    A file follows from what its key says (`site_files.SiteFile`). One that somebody changed is
    made again; one that was copied with its folder is read once, and then known.

    Args:
        out: the folder of the site.
        runs: of the site; where they are few, nothing is known.
    """

    def __init__(self, out: Path, runs: int) -> None:
        self._out = out
        self._index = FolderIndex(out, "pages") if runs >= LEAST else None

    def __enter__(self) -> FormerFiles:
        if self._index is not None:
            self._index.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._index is not None:
            self._index.__exit__(kind, error, trace)

    def digest(self, name: str, key: str) -> str | None:
        """The SHA-256 of a file that need not be made; None where it must be.

        Args:
            name: of the file, from the root of the site.
            key: of what it would be made of.
        """
        told = None if self._index is None else self._index.get(name, key)
        if told is None:
            return None
        digest, _, written = told.partition(" ")
        if written == self._signature(name):
            return digest
        if digest != self._on_disk(name):
            return None
        self.made(name, key, digest)
        return digest

    def made(self, name: str, key: str, digest: str) -> None:
        """Keeps what a file was made of, and its SHA-256."""
        if self._index is not None:
            self._index.put(name, key, f"{digest} {self._signature(name)}")

    def whole(self, key: str) -> tuple[int, int, tuple[str, ...]] | None:
        """Rows, runs and files of a site that need not be made; None where a part of it must be.

        Args:
            key: of what all of it would be made of.
        """
        if self._index is None:
            return None
        if told := self._index.get(_WHOLE, key):
            rows, runs, files = json.loads(told)
            known = self._index.all()
            if all(known.get(name, "").partition(" ")[2] == self._signature(name)
                   for name in files):  # fmt: skip
                return rows, runs, tuple(files)
        # What is going to be made may be cut short, and is of other results then.
        self._index.put(_WHOLE, "", "")
        return None

    def made_whole(self, key: str, rows: int, runs: int, files: Mapping[str, object]) -> None:
        """Keeps that all files of a site are made, and forgets others."""
        if self._index is not None:
            self._index.put(_WHOLE, key, json.dumps([rows, runs, [*files]]))
            self._index.keep([_WHOLE, *files])

    def _signature(self, name: str) -> str:
        try:
            return repr(signature(self._out / name))
        except OSError:
            return "not there"

    def _on_disk(self, name: str) -> str | None:
        try:
            return sha256((self._out / name).read_bytes()).hexdigest()
        except OSError:
            return None
