"""Writes the static site: a pure function of results, without a server and without a network.

`site_files` says what its files hold; `site.json` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from uedp_bench.leaderboard.former_files import FormerFiles
from uedp_bench.leaderboard.loading import Copy, Progress
from uedp_bench.leaderboard.site_files import Contents, Files, contents_of, key_of_all
from uedp_bench.leaderboard.site_folder import SiteFolder
from uedp_bench.results import Result


@dataclass(frozen=True)
class Built:
    """What a build did; files are named from the site's root.

    Attributes:
        rows, runs: on the site.
        files: all of the site.
        written: those whose content is new.
        removed: those of a former build that have no place any more.
    """

    rows: int
    runs: int
    files: tuple[str, ...]
    written: tuple[str, ...]
    removed: tuple[str, ...]


def build(
    results: Sequence[Result],
    out: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    copies: Mapping[str, Copy] = MappingProxyType({}),
) -> Built:
    """Writes the site of some results.

    Of a large site, what has not changed since the last build is not made again: neither pages of
    runs, nor, where no result has changed, anything at all.

    Args:
        results: of any runs, each id once, in any order.
        out: the site's folder; made where it does not exist.
        force: write into a folder that holds files of others, too; these stay.
        progress: is told how many files are done.
        copies: where results were read, by id: the rest of short ones is read there again.

    Raises:
        ValueError: if a result's id is no safe name of a file.
        InputError: if `out` holds other files than a site of ours.
    """
    versions: dict[str, str] = {}
    with FormerFiles(out, len(results)) as former:
        everything = key_of_all(contents_of(results, copies))
        if there := former.whole(everything):
            rows, runs, names = there
            folder = SiteFolder(out, names, force=force)
            return Built(rows, runs, names, (), tuple(folder.close()))
        site = Contents().files(results, copies, lambda name: versions[name])
        folder = SiteFolder(out, site.files, force=force)
        _write(site, folder, former, versions, progress)
        removed = folder.close()
        former.made_whole(everything, site.rows, site.runs, site.files)
    return Built(site.rows, site.runs, tuple(site.files), tuple(folder.written), tuple(removed))


def _write(
    site: Files,
    folder: SiteFolder,
    former: FormerFiles,
    versions: dict[str, str],
    progress: Progress | None,
) -> None:
    """Writes every file that is not known to be there, and puts the version of each down."""
    for at, (name, file) in enumerate(site.files.items(), start=1):
        digest = former.digest(name, file.key)
        if digest is None:
            digest = folder.write(name, file.make())
            former.made(name, file.key, digest)
        versions[name] = digest[:16]
        if progress is not None:
            progress(at, len(site.files))
