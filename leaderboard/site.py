"""Writes the static site: a pure function of results, without a server and without a network.

`site_files` says what its files hold; `site.json` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.loading import Progress
from uedp_bench.leaderboard.site_files import Contents
from uedp_bench.leaderboard.site_folder import SiteFolder


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
        out: the site's folder; made where it does not exist.
        force: write into a folder that holds files of others, too; these stay.
        progress: is told how many files are done.

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
