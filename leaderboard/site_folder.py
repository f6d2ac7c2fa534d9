"""The folder of a site. It lists the files that we wrote, and only those are ever removed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from filecmp import cmp
from hashlib import sha256
from pathlib import Path

from uedp_bench.errors import InputError

MANIFEST = "site.json"
"""Lists the files of the site; a folder that has it is one that we made."""

_MADE_BY = "uedp-bench leaderboard build"


class SiteFolder:
    """Writes files of a site, one after the other, each of them whole or not at all.

    Args:
        path: the folder; made where it does not exist.
        names: names of all files that the site is going to have.
        force: write into a folder of others, too. Its files stay, but for those of our names.

    Raises:
        InputError: if the folder holds other files than a site of ours, or is no folder.
    """

    def __init__(self, path: Path, names: Iterable[str], *, force: bool = False) -> None:
        self._path, self._names = path, sorted({*names, MANIFEST})
        self.written: list[str] = []
        former = self._former()
        if former is None and not force:
            self._refuse_others()
        self._former_names = set(former or ())
        try:
            path.mkdir(parents=True, exist_ok=True)
            # The list comes first: files that are written before an interruption are ours, too.
            self._list({*self._former_names, *self._names})
        except OSError as error:
            raise InputError(f"--out {path}: {error.strerror}") from None

    def _former(self) -> list[str] | None:
        """The files of our site in the folder; None if it holds no site of ours."""
        try:
            manifest = json.loads((self._path / MANIFEST).read_text(encoding="utf-8"))
            return list(manifest["files"]) if manifest["made_by"] == _MADE_BY else None
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def _refuse_others(self) -> None:
        if self._path.is_file():
            raise InputError(f"--out {self._path}: is a file, and a site is a folder")
        # A checkout for a static host starts with .git, .nojekyll and the like.
        entries = self._path.iterdir() if self._path.is_dir() else ()
        first = min((one.name for one in entries if not one.name.startswith(".")), default=None)
        if first is not None:
            raise InputError(
                f"--out {self._path}: has other files ({first}) and is no site of uedp-bench: "
                "choose another folder, or --force to write into it (other files stay)"
            )

    def _list(self, names: Iterable[str]) -> None:
        manifest = {"made_by": _MADE_BY, "files": sorted(names)}
        _replace(self._path / MANIFEST, json.dumps(manifest, indent=0).encode() + b"\n")

    def write(self, name: str, text: str | Iterable[str]) -> str:
        """Writes a file, if its content is new: browsers and servers keep the rest.

        Args:
            name: name of the file, from the root of the site.
            text: text of it, or its parts, which are not held in memory together.

        Returns:
            Its SHA-256.
        """
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str):
            content = text.encode()
            if not path.is_file() or path.read_bytes() != content:
                _replace(path, content)
                self.written.append(name)
            return sha256(content).hexdigest()
        return self._write_parts(name, path, text)

    def _write_parts(self, name: str, path: Path, parts: Iterable[str]) -> str:
        partial, digest = path.with_name(f"{path.name}.partial"), sha256()
        try:
            with partial.open("wb") as out:
                for part in parts:
                    content = part.encode()
                    digest.update(content)
                    out.write(content)
            if not path.is_file() or not cmp(partial, path, shallow=False):
                partial.replace(path)
                self.written.append(name)
        finally:
            partial.unlink(missing_ok=True)
        return digest.hexdigest()

    def close(self) -> list[str]:
        """Removes the files of a former site that this one does not have, and names them."""
        removed = [name for name in sorted(self._former_names - {*self._names}) if self._ours(name)]
        for name in removed:
            (self._path / name).unlink()
        self._list(self._names)
        return removed

    def _ours(self, name: str) -> bool:
        """True if a listed file lies in the folder: a list may have been tampered with."""
        path = self._path / name
        inside = path.parent.resolve().is_relative_to(self._path.resolve())
        return inside and path.is_file() and not path.is_symlink()


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
