"""The site as a server gives it: each file is made when somebody asks for it, and then kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uedp_bench.leaderboard.site_files import Contents, Files
from uedp_bench.leaderboard.site_folder import SiteFolder
from uedp_bench.results import Result

_VERSION = '<meta name="version" content="">'


class SiteOnDemand:
    """A site whose results come and go, and whose files are made when they are asked for.

    Args:
        folder: an empty one; what was made lies there.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._contents = folder, Contents(live=True)
        self._site = Files(0, 0, {})
        self._folder = SiteFolder(folder, ())
        self._made: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All files of the site."""
        return tuple(self._site.files)

    def version(self, name: str) -> str | None:
        """A version that changes when the file does; None if the site has no such file."""
        file = self._site.files.get(name)
        return None if file is None else file.key[:16]

    def update(self, results: Sequence[Result]) -> Files:
        """Shows these results from now on, and makes no file of them; see `Contents.files`."""
        self._site = self._contents.files(results, lambda name: self.version(name) or "")
        for name in self._made.keys() - self._site.files.keys():
            del self._made[name]
            (self._path / name).unlink(missing_ok=True)
        return self._site

    def is_made(self, name: str) -> bool:
        """True if a file need not be made to be read."""
        return name in self._made and self._made[name][:16] == self.version(name)

    def make(self, name: str) -> None:
        """Makes a file of the site, unless it is made already."""
        file = self._site.files.get(name)
        if file is None or self.is_made(name):
            return
        text = file.make()
        if isinstance(text, str) and name.endswith(".html"):
            # The first is ours: in values of results, "<" is escaped.
            text = text.replace(_VERSION, _VERSION.replace('""', f'"{file.key[:16]}"'), 1)
        self._folder.write(name, text)
        self._made[name] = file.key
