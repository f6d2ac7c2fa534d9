"""Checkpoints of runs in a folder of results."""

from __future__ import annotations

import hashlib
import platform
from functools import cache, partial
from pathlib import Path
from typing import Any

from uedp_bench.components.registry import loaded_plugins
from uedp_bench.contracts.checkpoints import Checkpoints, Pace, remove
from uedp_bench.contracts.run_context import Speed
from uedp_bench.io.folders import CHECKPOINT
from uedp_bench.store.result_files import library_versions

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
