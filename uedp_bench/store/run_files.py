"""Files of a run beside its result: checkpoints, and the release that it keeps.

A saved release is loaded and asked once: what cannot be asked again was not saved.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.components.registry import loaded_plugins
from uedp_bench.contracts.capabilities import RowScorer, declared_capabilities
from uedp_bench.contracts.checkpoints import Checkpoints, Pace, remove
from uedp_bench.contracts.mechanism import served_again
from uedp_bench.contracts.release import PublishedOnly, Release, Updates, protected_rows
from uedp_bench.contracts.run_context import Speed
from uedp_bench.errors import PluginError, described
from uedp_bench.io.folders import CHECKPOINT
from uedp_bench.io.sealed_files import check_folder, seal_folder
from uedp_bench.store.result_files import library_versions

if TYPE_CHECKING:
    from uedp_bench.contracts.task import Task
    from uedp_bench.corpus import Corpus, FloatArray

LEFT = (
    "weights in training and the state of their noise, from which the same command goes on; "
    "nothing is proven about them, and only the owner can read them"
)
"""Description of the files of a run that did not finish."""


def checkpoints_in(folder: Path, name: str, device: str, speed: Speed, pace: Pace) -> Checkpoints:
    """The checkpoints of a run, or of a model that runs share.

    Args:
        folder: folder of the run, or of the model.
        name: id of the run, or key of the model.
        device: torch device.
        speed: speed settings of the run.
        pace: interval between two writes.
    """
    return Checkpoints(folder / CHECKPOINT, partial(made_by, name, device, speed), pace)


def checkpoints_beside(around: Checkpoints, folder: Path, device: str, speed: Speed) -> Checkpoints:
    """Checkpoints of a model in a folder of its own, that a run trains for others too.

    Args:
        around: checkpoints of the run.
        folder: folder of the model, named by its key.
        device: torch device.
        speed: speed settings of the run.
    """
    if around.folder is None:
        return Checkpoints()
    identity = partial(made_by, folder.name, device, speed)
    return Checkpoints(folder / CHECKPOINT, identity, around.pace, around)


def made_by(name: str, device: str, speed: Speed) -> dict[str, str]:
    """Everything that decides the bits of a training, by name.

    The number of ranks does: each has a sum.
    """
    from uedp_bench.training.device import kernels
    from uedp_bench.training.rank_group import world_size

    several = {"ranks": str(world_size())} if world_size() > 1 else {}
    return several | {
        "run": name,
        "code": code_digest(),
        "plug-ins": _digest(sorted(loaded_plugins())),
        "python": platform.python_version(),
        **library_versions(),
        "device": _device(device),
        "kernels": kernels(),
        "speed": speed.model_dump_json(),
    }


def after_failure(folder: Path, *, goes_on: bool) -> dict[str, str]:
    """List the files of a failed run (`Result.stored`).

    Args:
        folder: folder of the run.
        goes_on: True to keep checkpoints, from which the same command may go on.
    """
    if not goes_on:
        forget(folder)
    return {"checkpoint": LEFT} if (folder / CHECKPOINT).is_dir() else {}


def forget(folder: Path) -> None:
    """Remove the checkpoints in a run's folder."""
    remove(folder / CHECKPOINT)


@cache
def code_digest() -> str:
    """Digest of this package's own modules: a commit does not know what was edited since."""
    root = Path(__file__).parents[1]
    # Folders of components are links in a checkout.
    folders = [root, *(path.resolve() for path in sorted(root.iterdir()) if path.is_symlink())]
    return _digest(sorted(file for folder in folders for file in folder.rglob("*.py")))


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _device(device: str) -> str:
    """The device, and what decides which kernels it takes."""
    import torch

    kind: Any = torch.backends.cpu.get_cpu_capability()
    if device.startswith("cuda"):
        kind = torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device} ({platform.machine()}, {kind}, {threads} threads)"


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
