"""What was made of each file of a folder, so that it is made once: an index of the folder.

It lies in this user's cache, and not beside the files: a folder may come from a stranger, whose
index would be a second way in, without the guards of the reader. It holds nothing that cannot be
made again. One that is missing, damaged, or made by other code is made again.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from uedp_bench.files.cache_folder import cache_folder
from uedp_bench.files.package_digest import package_digest

LEAST = 1000
"""Files from which on a folder has an index; fewer are read in a second or two."""

_PATIENCE_SECONDS = 5.0
_TABLE = """CREATE TABLE IF NOT EXISTS files
(path TEXT PRIMARY KEY, signature TEXT NOT NULL, value TEXT NOT NULL) WITHOUT ROWID"""


def signature(path: Path) -> tuple[int, int, int]:
    """Another one means another content: a file that is written anew is another one.

    Raises:
        OSError: if there is no such file.
    """
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


class FolderIndex:
    """Values by the path of a file; a context, which keeps what was added when it ends.

    Where it cannot be read or written it is empty and keeps nothing.

    Args:
        folder: that the files lie in.
        what: is kept of them; a folder may have several indexes.
    """

    def __init__(self, folder: Path, what: str) -> None:
        name = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
        self.path = cache_folder() / "leaderboard" / f"{what}-{name[:32]}.sqlite"
        self._store: sqlite3.Connection | None = None

    def __enter__(self) -> FolderIndex:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store = self._opened()
        except (OSError, sqlite3.OperationalError):  # another process may be writing
            self._store = None
        except sqlite3.DatabaseError:
            self._store = self._made_again()
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            with suppress(sqlite3.Error):
                self._store.commit()
            self._store.close()
            self._store = None

    def get(self, path: str, signature: Hashable) -> str | None:
        """What is kept of a file with this signature; None where the index does not have it."""
        if self._store is None:
            return None
        try:
            found = self._store.execute(
                "SELECT value FROM files WHERE path = ? AND signature = ?",
                (path, repr(signature)),
            ).fetchone()
        except (sqlite3.Error, UnicodeEncodeError):
            return None
        return None if found is None else str(found[0])

    def all(self) -> dict[str, str]:
        """What is kept of every file, whatever its signature."""
        if self._store is None:
            return {}
        try:
            return dict(self._store.execute("SELECT path, value FROM files"))
        except sqlite3.Error:
            return {}

    def put(self, path: str, signature: Hashable, value: str) -> None:
        """Keeps a value, in place of what was kept of the file before."""
        values = [(path, repr(signature), value)]
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", values)

    def keep(self, paths: Iterable[str]) -> None:
        """Forgets the files that are not among these."""
        if self._store is None:
            return
        try:
            known = {path for (path,) in self._store.execute("SELECT path FROM files")}
        except sqlite3.Error:
            return
        self._write("DELETE FROM files WHERE path = ?", [(p,) for p in known - {*paths}])

    def _write(self, statement: str, values: Sequence[tuple[str, ...]]) -> None:
        if self._store is None or not values:
            return
        try:
            self._store.executemany(statement, values)
        except (sqlite3.Error, UnicodeEncodeError):  # a full disk, a name that is no text
            self._store.close()
            self._store = None

    def _opened(self) -> sqlite3.Connection:
        """The store, empty if other code wrote it."""
        self.path.touch(mode=0o600)
        store = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, check_same_thread=False)
        try:
            store.execute("PRAGMA synchronous = OFF")  # what a power failure damages is made again
            store.execute(_TABLE)
            store.execute("CREATE TABLE IF NOT EXISTS code (digest TEXT)")
            if store.execute("SELECT digest FROM code").fetchall() != [(package_digest(),)]:
                store.execute("DELETE FROM files")
                store.execute("DELETE FROM code")
                store.execute("INSERT INTO code VALUES (?)", (package_digest(),))
            store.commit()
        except sqlite3.Error:
            store.close()
            raise
        return store

    def _made_again(self) -> sqlite3.Connection | None:
        """A new store in place of one that is damaged; None where that cannot be."""
        try:
            self.path.unlink(missing_ok=True)
            return self._opened()
        except (OSError, sqlite3.Error):
            return None
