"""Building of the static site into a folder, and results that cannot be shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from filecmp import cmp
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError, UedpBenchError, plain
from uedp_bench.io.folders import PARTIAL
from uedp_bench.leaderboard.loading import Loaded, Progress
from uedp_bench.leaderboard.site_files import Contents
from uedp_bench.leaderboard.sources import Copy

MANIFEST = "site.json"
"""Lists the files of the site; a folder that has it is one that we made."""

_MADE_BY = "uedp-bench leaderboard build"


class SiteFolder:
    """Writes files of a site, one after the other, each of them whole or not at all.

    Args:
        path: folder of the site; made where it does not exist.
        names: names of all files that the site is going to have.
        force: True to write into a folder of others, too. Its files stay, but for those of our
            names.

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
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
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
        _write(self._path / MANIFEST, [json.dumps(manifest, indent=0), "\n"])

    def write(self, name: str, text: str | Iterable[str]) -> str:
        """Writes a file, if its content is new: browsers and servers keep the rest.

        Args:
            name: name of the file, from the root of the site.
            text: text of the file, or its parts, which are not held in memory together.

        Returns:
            SHA-256 of the text.
        """
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, is_new = _write(path, [text] if isinstance(text, str) else text)
        if is_new:
            self.written.append(name)
        return digest

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


def _write(path: Path, parts: Iterable[str]) -> tuple[str, bool]:
    """Write a file whole or not at all; return its SHA-256, and True if its content is new."""
    # Another build may write the same file, and a link of a stranger may stand at a name one knows.
    partial = path.with_name(f".{path.name}-{token_hex(8)}{PARTIAL}")
    digest = sha256()
    try:
        with partial.open("xb") as out:
            for part in parts:
                content = part.encode()
                digest.update(content)
                out.write(content)
        is_new = not path.is_file() or not cmp(partial, path, shallow=False)
        if is_new:
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return digest.hexdigest(), is_new


@dataclass(frozen=True)
class Built:
    """Changes of a build; files are named from the site's root.

    Attributes:
        rows, runs: numbers of rows and of runs on the site.
        files: all files of the site.
        written: files with new content.
        removed: files of an earlier build that are no longer on the site.
    """

    rows: int
    runs: int
    files: tuple[str, ...]
    written: tuple[str, ...]
    removed: tuple[str, ...]


def build(
    results: Sequence[Result], out: Path, *, force: bool = False, progress: Progress | None = None
) -> Built:
    """Writes the site of some results; a file whose content is not new stays as it is.

    Args:
        results: results of any runs, each id once, in any order.
        out: folder of the site; made where it does not exist.
        force: True to write into a folder that holds files of others, too; these stay.
        progress: receiver of the number of files that are done.

    Raises:
        ValueError: if a result's id is no safe name of a file.
        InputError: if `out` holds other files than a site of ours.
    """
    versions: dict[str, str] = {}
    site = Contents().files(results, lambda name: versions[name])
    folder = SiteFolder(out, site.files, force=force)
    for at, (name, file) in enumerate(site.files.items(), start=1):
        versions[name] = folder.write(name, file.make())[:16]
        if progress is not None:
            progress(at, len(site.files))
    removed = folder.close()
    return Built(site.rows, site.runs, tuple(site.files), tuple(folder.written), tuple(removed))


_Shown = TypeVar("_Shown")


def without_culprits(
    loaded: Loaded, show: Callable[[Sequence[Result]], _Shown]
) -> tuple[_Shown, list[str]]:
    """Show all results that can be shown, with a line for each of the others.

    A file may have the form of a result and hold, where anything may stand, what no table expects.
    Each result is tried alone only where all of them together have failed.

    Args:
        loaded: results that were read.
        show: function that makes a table or pages of results, and may be called again with fewer.

    Raises:
        InputError: if each of them can be shown alone, and all of them together cannot.
    """
    try:
        return show(loaded.results), []
    except UedpBenchError:
        raise
    except Exception as reason:
        trouble_of = {copy.result.id: trouble(copy) for copy in loaded.copies.values()}
        kept = [result for result in loaded.results if not trouble_of[result.id]]
        if len(kept) == len(trouble_of):
            if isinstance(reason, OSError):  # of the place that is written, a full disk perhaps
                raise
            raise InputError(
                f"these results cannot be shown together: {reason_line(reason)}"
            ) from None
    try:
        return show(kept), [line for line in trouble_of.values() if line]
    except (UedpBenchError, OSError):
        raise
    except Exception as reason:
        raise InputError(f"these results cannot be shown together: {reason_line(reason)}") from None


def trouble(copy: Copy) -> str:
    """Why a result cannot be shown; empty where it can."""
    from uedp_bench.leaderboard.rows import aggregate
    from uedp_bench.leaderboard.site_files import render_alone
    from uedp_bench.leaderboard.table import to_text

    try:
        render_alone(copy.result)
        to_text(aggregate([copy.result]))
    except Exception as reason:
        return f"{plain(copy.place)}: cannot be shown: {reason_line(reason)}"
    return ""


def reason_line(reason: Exception) -> str:
    """The reason in one line."""
    return plain(f"{type(reason).__name__}: {' '.join(str(reason).split())}", 200)
