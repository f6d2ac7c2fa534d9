"""Stages on public data: trained once for all runs of a seed, and read from the cache after that.

A public stage depends on public text, the task, the model and the seed, never on the mechanism, so
all mechanisms of a seed start from the same weights, to the bit.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import nn

from uedp_bench.contracts.checkpoints import Checkpoints, PublicStages, remove
from uedp_bench.contracts.learner import Learner, Schedule
from uedp_bench.contracts.run_context import Run
from uedp_bench.io.sealed_files import sealed_file, unsealed
from uedp_bench.training.device import kernels
from uedp_bench.training.plain import train_plain

_PHASE, _SECONDS, _SHARED = "pretrain", "pretraining_seconds", "pretraining_shared_seconds"
_FORMAT = 1  # of the cached files; raised when the same key would mean something else


def train_public(schedule: Schedule, learner: Learner, run: Run, *, keep: bool = True) -> nn.Module:
    """The learner's module after training on public rows, in evaluation mode.

    With `run.public_stages` it is read from there if it was trained before, and kept otherwise; a
    file that is damaged is replaced. `pretraining_seconds` in the cost is what the training took,
    whoever did it, and `pretraining_shared_seconds` what another run did of it.

    Args:
        schedule: how.
        learner: rows and module.
        run: its seed decides the order of rows.
        keep: False where the module has seen private rows before: nobody else may read it.
    """
    if run.public_stages is None or not keep:
        return _trained(schedule, learner, run, run.checkpoints)[0]
    stages = run.public_stages
    key = _key(stages, schedule, learner, run)
    file = stages.folder / f"{key}.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with FileLock(f"{file}.lock"):
        waited, before = time.perf_counter() - start, run.counts.get(_SECONDS, 0.0)
        kept = _read(file, learner, run)
        left = stages.folder / key  # checkpoints, also of a run killed after it wrote the file
        if kept is not None:
            remove(left)
            seconds = run.counts[_SECONDS] - before
            run.count({_SHARED: seconds})
            stages.saved(seconds - waited)
            return kept
        checkpoints = stages.checkpoints(left)
        module, done = _trained(schedule, learner, run, checkpoints)
        stages.saved(checkpoints.earlier_seconds)
        with sealed_file(file) as out:
            torch.save({"weights": module.state_dict(), **done}, out)
        remove(left)
    return module


def _trained(
    schedule: Schedule, learner: Learner, run: Run, checkpoints: Checkpoints
) -> tuple[nn.Module, dict[str, Any]]:
    """The module, and what the diary of every run says of its training."""
    inner = Run(run.seed, run.stats, run.device, run.speed, progress=run.progress,
                checkpoints=checkpoints)  # fmt: skip
    start, before = time.perf_counter(), checkpoints.earlier_seconds
    # Equal for all mechanisms of a seed: nothing in public text is to be hidden.
    module = train_plain(schedule, learner, inner, phase=_PHASE, rng=run.shared(_PHASE, "batches"))
    seconds = time.perf_counter() - start + checkpoints.earlier_seconds - before
    seconds = round(seconds, 3)
    done = {"seconds": seconds, "counts": dict(inner.counts), "series": dict(inner.series)}
    _tell(run, done)
    return module, done


def _tell(run: Run, done: dict[str, Any]) -> None:
    run.count({**done["counts"], _SECONDS: done["seconds"]})
    for name, points in done["series"].items():
        for step, value in points:
            run.log(name, step, value)


def _read(file: Path, learner: Learner, run: Run) -> nn.Module | None:
    """Read the module of a file, and pass its diary to the run; None if it cannot be read."""
    import copy

    module = copy.deepcopy(learner.module)
    try:
        state = torch.load(unsealed(file), map_location="cpu", weights_only=True)
        done = {name: state[name] for name in ("seconds", "counts", "series")}
        module.load_state_dict(state["weights"])
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
        **({} if kernels() == "fast" else {"kernels": kernels()}),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name, value in learner.module.state_dict().items():
        digest.update(name.encode())
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(data.numpy().tobytes())
    return f"public-{digest.hexdigest()[:16]}"
