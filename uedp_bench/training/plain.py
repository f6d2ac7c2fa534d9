"""Ordinary minibatch training, for the noiseless mechanism and for stages on public data."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from filelock import FileLock
from torch import nn

from uedp_bench.contracts.checkpoints import Checkpoints, PublicStages, remove
from uedp_bench.contracts.learner import Learner, Losses, Schedule, on_device, row_seeds
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError
from uedp_bench.io.sealed_files import sealed_file, unsealed
from uedp_bench.training.device import batches_of_like_length, denormals_as_zeros, kernels


@dataclass(frozen=True)
class BestOnValid:
    """Keep the network of the epoch, and of the learning rate, that does best on valid rows.

    Best is the least `ValidLosses.badness`.

    Attributes:
        factors: factors of the schedule's learning rate; each is tried from the same initial
            weights.
    """

    factors: tuple[float, ...] = (1.0,)


def train_plain(
    schedule: Schedule,
    learner: Learner,
    run: Run,
    phase: str = "train",
    rng: np.random.Generator | None = None,
    keep: BestOnValid | None = None,
) -> nn.Module:
    """Train a copy of the learner's module, and return it in evaluation mode.

    Args:
        schedule: schedule of the training.
        learner: rows and module.
        run: run that logs the series `PHASE_loss`; with `keep` also those of `ValidLosses.log` and
            the diagnostics `best_epoch` and `best_learning_rate`. Where several learning rates are
            tried, the series of each end in `_at_RATE`.
        phase: name of series and progress.
        rng: generator of the order of rows and of dropout; that of training without noise by
            default.
        keep: rule that chooses among the epochs; None, or a corpus without rows in the split
            `valid`, keeps the last.

    Raises:
        InputError: if several learning rates are to be tried without rows in the split `valid`, or
            the loss stops being finite under each of them.
    """
    module = copy.deepcopy(learner.module).to(run.device).train()
    optimizer = optimizer_for(schedule, module)
    rng = order_without_noise(run) if rng is None else rng
    rows = np.flatnonzero(learner.corpus.where("train"))
    valid = None if keep is None else _Valid.from_learner(learner, run, phase)
    factors = (1.0,) if keep is None else keep.factors
    if len(factors) > 1 and valid is None:
        raise InputError(
            f"{len(factors)} learning rates cannot be compared: the corpus has no row in the split "
            "'valid'; give the source one, or one factor of the learning rate"
        )
    start = _trained_state(module) if len(factors) > 1 else {}
    steps = max(-(-len(rows) // schedule.batch_size), 1)
    trial_steps = schedule.epochs * steps
    epoch_state = _Epoch(rows)
    for at in run.checkpointed(
        phase,
        len(factors) * trial_steps,
        module=module,
        optimizer=optimizer,
        rng=rng,
        epoch=epoch_state,
        corpus=learner.corpus,
    ):
        trial, place = divmod(at, trial_steps)
        epoch, step = divmod(place, steps)
        rate = schedule.learning_rate * factors[trial]
        if place == 0 and len(factors) > 1:
            module.load_state_dict(start, strict=False)
            optimizer.state.clear()
            for group in optimizer.param_groups:
                group["lr"] = rate
            epoch_state.diverged = False
        if epoch_state.diverged:
            continue
        if step == 0:
            epoch_state.order, epoch_state.nats, epoch_state.targets = rng.permutation(rows), 0.0, 0
            if schedule.order == "by-user":
                epoch_state.order = one_user_after_another(
                    epoch_state.order, learner.corpus.users, rng
                )
            elif learner.row_lengths is not None:
                epoch_state.order = batches_of_like_length(
                    epoch_state.order, learner.row_lengths, schedule.batch_size, rng
                )
        chosen = epoch_state.order[step * schedule.batch_size : (step + 1) * schedule.batch_size]
        if len(chosen):
            seeds = row_seeds(rng, chosen.shape)
            nats, targets = plain_step(learner, module, optimizer, (chosen, seeds), run.device)
            epoch_state.nats += nats
            epoch_state.targets += targets
            run.progress(phase, at + 1, len(factors) * trial_steps)
        if step + 1 < steps:
            continue
        name = f"_at_{rate:g}" if len(factors) > 1 else ""
        held = None if valid is None else valid.losses(learner, module, run.device)
        if not (np.isfinite(epoch_state.nats) and (held is None or np.isfinite(held.nats))):
            epoch_state.diverged = True
            if trial + 1 == len(factors) and not epoch_state.best:
                raise InputError("training diverged: the loss is not finite; lower learning_rate")
            continue
        run.log(f"{phase}_loss{name}", epoch + 1, epoch_state.nats / max(epoch_state.targets, 1))
        if held is None:
            continue
        held.log(run, epoch + 1, name)
        if held.badness < epoch_state.least:
            epoch_state.best, epoch_state.least = _trained_state(module), held.badness
            run.note(best_epoch=epoch + 1, best_learning_rate=rate,
                     simulation_only=["best_epoch", "best_learning_rate"])  # fmt: skip
    module.load_state_dict(epoch_state.best, strict=False)
    run.count({f"rows_{phase}": len(factors) * schedule.epochs * len(rows)})
    weights = sum(one.numel() for one in module.parameters() if one.requires_grad)
    count_weights(run, f"weights_{phase}", weights)
    return module.eval()


def _trained_state(module: nn.Module) -> dict[str, Any]:
    """Copy of the weights and buffers that training may change."""
    frozen = {name for name, weight in module.named_parameters() if not weight.requires_grad}
    return {
        name: value.detach().clone()
        for name, value in module.state_dict().items()
        if name not in frozen
    }


@dataclass(frozen=True)
class ValidLosses:
    """Losses of one network on the rows of the split `valid`.

    Attributes:
        nats: mean loss of a target.
        expected_error: mean of 1 - p over the rows, p the probability of the row's class: the error
            rate of answers drawn from the network. None where a row has several targets.
    """

    nats: float
    expected_error: float | None = None

    @classmethod
    def in_evaluation(cls, module: nn.Module, losses: Iterable[Losses]) -> ValidLosses:
        """Losses of all rows in evaluation mode.

        Args:
            module: network, in training mode before and after.
            losses: losses of batches, computed while they are iterated over.
        """
        module.eval()
        with torch.no_grad():
            every = list(losses)
        module.train()
        return cls.of_batches(every)

    @classmethod
    def of_batches(cls, losses: Sequence[Losses]) -> ValidLosses:
        """Losses of all rows, from those of batches."""
        nats = sum(float(batch.nats.sum()) for batch in losses)
        targets = sum(float(batch.targets.sum()) for batch in losses)
        mean = nats / max(targets, 1.0)
        if not all(bool((batch.targets == 1).all()) for batch in losses):
            return cls(mean)
        wrong = torch.cat([-torch.expm1(-batch.nats.double()) for batch in losses])
        return cls(mean, float(wrong.mean()))

    @property
    def badness(self) -> float:
        """Measure by which networks are compared; the least is best.

        It is the expected error where rows have classes: a few rows of which an overconfident
        network is wrong decide about its mean loss, although it is right more often. Perplexity is
        a function of the mean loss, which decides elsewhere.
        """
        return self.nats if self.expected_error is None else self.expected_error

    def log(self, run: Run, epoch: int, suffix: str = "") -> None:
        """Add the losses to the series of a run."""
        run.log(f"valid_loss{suffix}", epoch, self.nats)
        if self.expected_error is not None:
            run.log(f"valid_expected_error{suffix}", epoch, self.expected_error)


@dataclass(frozen=True)
class _Valid:
    """Rows of the split `valid` with the seeds of their masks, in batches of one size."""

    batches: tuple[tuple[IntArray, IntArray], ...]

    @classmethod
    def from_learner(cls, learner: Learner, run: Run, phase: str) -> _Valid | None:
        """Validation rows of a learner; None where it has none."""
        rows = np.flatnonzero(learner.corpus.where("valid"))
        if not len(rows):
            return None
        if learner.row_lengths is not None:
            rows = rows[np.argsort(learner.row_lengths[rows], kind="stable")]
        seeds = row_seeds(run.shared("training without noise", "valid"), rows.shape)
        ends = range(0, len(rows), _VALID_BATCH)
        return cls(tuple((rows[at:][:_VALID_BATCH], seeds[at:][:_VALID_BATCH]) for at in ends))

    @denormals_as_zeros()
    def losses(self, learner: Learner, module: nn.Module, device: str) -> ValidLosses:
        """Losses in evaluation mode."""
        batches = (on_device(learner.batch(*batch), device) for batch in self.batches)
        return ValidLosses.in_evaluation(
            module, (learner.losses(module, batch) for batch in batches)
        )


_VALID_BATCH = 64
"""Rows whose loss is computed at once: as many as a step of training has by default."""


def order_without_noise(run: Run, part: int = 0) -> np.random.Generator:
    """Generator of the order of rows, and of dropout, in a training that protects nobody.

    It hides nothing, and is the same for all mechanisms of a seed: what trains alike on the same
    rows, by whatever name, gives the same model.

    Args:
        run: run of the training.
        part: part of the rows, where parts have orders of their own.
    """
    private = () if run.private_seed is None else (run.private_seed,)
    return run.shared("training without noise", run.number, part, *private)


@denormals_as_zeros()
def plain_step(
    learner: Learner,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[IntArray, IntArray],
    device: str,
) -> tuple[float, int]:
    """One step on the mean loss of a batch.

    Args:
        learner: gives rows and losses.
        module: trained in place.
        optimizer: optimizer of its weights.
        batch: rows, and the seeds of their dropout.
        device: torch device of the module.

    Returns:
        The sum of losses in nats, before the step, and how many targets they are of.
    """
    losses = learner.losses(module, on_device(learner.batch(*batch), device))
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(losses.nats.sum() / losses.targets.sum())
    optimizer.step()
    return float(losses.nats.detach().sum()), int(losses.targets.sum())


def one_user_after_another(order: IntArray, users: IntArray, rng: np.random.Generator) -> IntArray:
    """Order rows so that those of each user stand together, users in random order.

    A user's rows keep their order.

    Args:
        order: rows in their order.
        users: (rows of the corpus,) user of each row.
        rng: generator of the order of users.
    """
    _, user = np.unique(users[order], return_inverse=True)
    places = rng.permutation(int(user.max(initial=-1)) + 1)
    rows: IntArray = order[np.argsort(places[user], kind="stable")]
    return rows


@dataclass
class _Epoch(AttributeState):
    """A pass over the rows: its order and the sums of its losses, and the best pass before."""

    changing: ClassVar[tuple[str, ...]] = ("order", "nats", "targets", "diverged", "best", "least")
    order: IntArray
    nats: float = 0.0
    targets: int = 0
    diverged: bool = False
    best: dict[str, Any] = field(default_factory=dict)
    least: float = float("inf")


def optimizer_for(schedule: Schedule, module: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of a schedule, on the trainable weights of a module."""
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    rate, decay = schedule.learning_rate, schedule.weight_decay
    if schedule.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=rate, momentum=schedule.momentum, weight_decay=decay)
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def count_weights(run: Run, name: str, weights: int) -> None:
    """Count in the cost how many weights a training could change: the most of one name."""
    run.count({name: max(0.0, weights - run.counts.get(name, 0.0))})


# ---------------------------------------------------------------------------- stages on public data
# Trained once for all runs of a seed, and read from the cache after that. A public stage depends on
# public text, the task, the model and the seed, never on the mechanism, so all mechanisms of a seed
# start from the same weights, to the bit.

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
