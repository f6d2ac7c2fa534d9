"""Pages of runs that a former build made, and what they were made of: they are made once."""

from __future__ import annotations

from collections.abc import Sized
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from uedp_bench import registry
from uedp_bench.leaderboard.folder_index import LEAST, FolderIndex
from uedp_bench.leaderboard.rows import Row


class FormerPages:
    """Which pages in the folder of a site are what they would be if they were made now.

    A page follows from the content of its result, from its row, from the code, and from the
    components that are registered. A file that somebody changed is made again.

    Args:
        out: the folder of the site.
        pages: of the site; where they are few, none is known.
    """

    def __init__(self, out: Path, pages: Sized) -> None:
        self._out = out
        self._index = FolderIndex(out, "pages") if len(pages) >= LEAST else None
        self._rows: dict[int, str] = {}
        there = {kind: known.names() for kind, known in sorted(registry.REGISTRIES.items())}
        self._components = sha256(repr(there).encode()).hexdigest()

    def __enter__(self) -> FormerPages:
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

    def version(self, name: str, row: Row, content: str) -> str | None:
        """The version of a page that need not be made; None where it must be.

        Args:
            name: of the file, from the root of the site.
            row: of the run.
            content: another one means another result; nothing is known of an empty one.
        """
        if self._index is None or not content:
            return None
        digest = self._index.get(name, self._made_of(row, content))
        if digest is None or digest != self._on_disk(name):
            return None
        return digest[:16]

    def made(self, name: str, row: Row, content: str, text: str) -> None:
        """Keeps what a page was made of."""
        if self._index is not None and content:
            digest = sha256(text.encode()).hexdigest()
            self._index.put(name, self._made_of(row, content), digest)

    def _made_of(self, row: Row, content: str) -> str:
        if id(row) not in self._rows:
            self._rows[id(row)] = sha256(row.model_dump_json().encode()).hexdigest()
        return f"{content} {self._rows[id(row)]} {self._components}"

    def _on_disk(self, name: str) -> str | None:
        try:
            return sha256((self._out / name).read_bytes()).hexdigest()
        except OSError:
            return None
