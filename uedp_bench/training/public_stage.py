"""Stages on public data: trained once for all runs of a seed, and read from the cache after that.

A public stage depends on public text, the task, the model and the seed, never on the mechanism, so
all mechanisms of a seed start from the same weights, to the bit.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import nn

from uedp_bench.learner import Learner, Schedule
from uedp_bench.run import Run
from uedp_bench.training.plain import train_plain

_PHASE, _SECONDS = "pretrain", "pretraining_seconds"
_FORMAT = 1  # of the cached files; raised when the same key would mean something else


@dataclass
class PublicStages:
    """Where one run finds models after a public stage, or leaves them.

    Attributes:
        folder: shared by all runs of an output folder, across processes.
        identity: of the task and the model, as JSON.
        saved_seconds: what the training took that this run did not repeat.
    """

    folder: Path
    identity: str
    saved_seconds: float = 0.0

    def saved(self, seconds: float) -> None:
        """Notes that a run did not repeat a training that took so long."""
        self.saved_seconds += seconds


def train_public(schedule: Schedule, learner: Learner, run: Run, *, keep: bool = True) -> nn.Module:
    """The learner's module after training on public rows, in evaluation mode.

    With `run.public_stages` it is read from there if it was trained before, and kept otherwise; a
    file that is damaged is replaced. `pretraining_seconds` in the cost is what the training took,
    whoever did it.

    Args:
        schedule: how.
        learner: rows and module.
        run: its seed decides the order of rows.
        keep: False where the module has seen private rows before: nobody else may read it.
    """
    if run.public_stages is None or not keep:
        return _trained(schedule, learner, run)[0]
    file = run.public_stages.folder / f"{_key(run.public_stages, schedule, learner, run)}.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        before = run.counts.get(_SECONDS, 0.0)
        kept = _read(file, learner, run)
        if kept is not None:
            run.public_stages.saved(run.counts[_SECONDS] - before)
            return kept
        module, done = _trained(schedule, learner, run)
        part = file.with_suffix(".part")
        torch.save({"weights": module.state_dict(), **done}, part)
        part.replace(file)
    return module


def _trained(schedule: Schedule, learner: Learner, run: Run) -> tuple[nn.Module, dict[str, Any]]:
    """The module, and what the diary of every run says of its training."""
    inner = Run(run.seed, run.stats, run.device, run.speed, progress=run.progress)
    start = time.perf_counter()
    # Equal for all mechanisms of a seed: nothing in public text is to be hidden.
    module = train_plain(schedule, learner, inner, phase=_PHASE, rng=run.shared(_PHASE, "batches"))
    seconds = round(time.perf_counter() - start, 3)
    done = {"seconds": seconds, "counts": dict(inner.counts), "series": dict(inner.series)}
    _tell(run, done)
    return module, done


def _tell(run: Run, done: dict[str, Any]) -> None:
    run.count({**done["counts"], _SECONDS: done["seconds"]})
    for name, points in done["series"].items():
        for step, value in points:
            run.log(name, step, value)


def _read(file: Path, learner: Learner, run: Run) -> nn.Module | None:
    """The module of a file, with its diary told to the run; None where there is none to read."""
    import copy

    module = copy.deepcopy(learner.module)
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
        done = {name: found[name] for name in ("seconds", "counts", "series")}
        module.load_state_dict(found["weights"])
        _tell(run, done)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError,
            pickle.UnpicklingError):  # fmt: skip
        return None
    return module.to(run.device).eval()


def _key(stages: PublicStages, schedule: Schedule, learner: Learner, run: Run) -> str:
    """Hash of everything that decides the weights after the stage."""
    vocabulary = learner.vocabulary
    parts = {
        "format": _FORMAT,
        "identity": stages.identity,
        "corpus": learner.corpus.fingerprint,
        "vocabulary": None if vocabulary is None else vocabulary.fingerprint,
        "schedule": asdict(schedule),
        "seed": run.seed,
        "device": run.device,
        "threads": run.speed.threads,
        "torch": str(torch.__version__),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name, value in learner.module.state_dict().items():
        digest.update(name.encode())
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(data.numpy().tobytes())
    return f"public-{digest.hexdigest()[:16]}"
