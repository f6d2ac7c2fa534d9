"""Releases on disk: what the harness adds to a task's own files, and the check of what was saved.

A saved release is loaded and asked once: what cannot be asked again was not saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.contracts.capabilities import RowScorer, declared_capabilities
from uedp_bench.contracts.mechanism import served_again
from uedp_bench.contracts.release import PublishedOnly, Release, Updates, protected_rows
from uedp_bench.errors import PluginError, described
from uedp_bench.io.sealed_files import check_folder, seal_folder

if TYPE_CHECKING:
    from pathlib import Path

    from uedp_bench.contracts.task import Task
    from uedp_bench.corpus import Corpus, FloatArray

ROWS = 3
"""Rows that both are asked about."""

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""Tolerances: what was trained on a GPU is loaded on the CPU."""

UPDATE = "update.npy"
"""File beside a task's own that holds the change of the weights."""


def save_release(release: Release, folder: Path) -> None:
    """Write a release, and by how much training moved its weights where that was asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    release.save(folder)
    if isinstance(release, Updates):
        np.save(folder / UPDATE, release.update)
    seal_folder(folder)


def load_release(task: Task[Any], folder: Path) -> Release:
    """The release that `save_release` wrote.

    Raises:
        DamagedFileError: if a file is not what was written.
    """
    check_folder(folder)
    release = served_again(task.load(folder), folder)
    if (folder / UPDATE).is_file():
        return release.showing(update=np.load(folder / UPDATE, allow_pickle=False))
    return release


def check_saved(task: Task[Any], folder: Path, release: Release, corpus: Corpus) -> None:
    """Load what was saved, and compare its answers with those of the release.

    Every capability brings its own question (`uedp_bench.contracts.capabilities.capability`).

    Args:
        task: task whose `load` reads the folder.
        folder: folder that `save_release` wrote into.
        release: release that was saved.
        corpus: the original corpus, of which a few rows are asked about.

    Raises:
        PluginError: if it does not load, offers less, or answers something else.
    """
    if isinstance(release, PublishedOnly):
        return
    saved = [one for one in declared_capabilities() if one.question is not None]
    offered = [one for one in saved if isinstance(release, one.kind)]
    try:
        again = load_release(task, folder)
        lost = [one.kind.__name__ for one in offered if not isinstance(again, one.kind)]
        if lost:
            raise _OtherReleaseError(f"it is no {' and no '.join(sorted(lost))} any more")
        rows = _rows(release, corpus)
        for name, ask in ((one.kind.__name__, one.question) for one in offered):
            if ask is not None:
                _compare(name, ask(release, rows), ask(again, rows))
        if isinstance(again, RowScorer):
            _check_alone(again, rows)
    except Exception as error:
        reason = str(error) if isinstance(error, _OtherReleaseError) else described(error)
        raise PluginError(
            f"the release was saved, and what the task {task.name} loads is not that release: "
            f"{reason}"
        ) from error


class _OtherReleaseError(Exception):
    """A loaded release that is not the one that was saved; the message says how."""


def _rows(release: Release, corpus: Corpus) -> Corpus:
    """A few rows as the release takes them."""
    if release.takes_vectors:
        shown = protected_rows(release)
        corpus = corpus if shown is None else shown
    elif corpus.where("test").any():
        corpus = corpus.only("test")
    return corpus.take(np.arange(min(ROWS, len(corpus))))


def _check_alone(release: RowScorer, rows: Corpus) -> None:
    """Refuse losses of a row that depend on the rows beside it: attacks compare single rows."""
    some = rows.take(np.flatnonzero(release.scorable(rows)))
    together = release.row_losses(some)
    for row, loss in enumerate(together.tolist()):
        alone = float(release.row_losses(some.take(np.array([row])))[0])
        if not np.isclose(loss, alone, rtol=RELATIVE, atol=ABSOLUTE):
            raise _OtherReleaseError(
                f"the loss of row {row} is {loss:.6g} beside other rows and {alone:.6g} alone: it "
                "must depend on that row alone"
            )


def _compare(capability: str, before: FloatArray, after: FloatArray) -> None:
    if before.shape != after.shape:
        raise _OtherReleaseError(
            f"asked as {capability}, it answers with shape {after.shape}, and did with "
            f"{before.shape}"
        )
    if not np.allclose(before, after, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True):
        gap = float(np.abs(before - after).max())
        raise _OtherReleaseError(f"asked as {capability}, its answers differ by up to {gap:.3g}")
