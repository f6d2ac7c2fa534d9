"""What every rank does in a training with sharded weights: its part of them, and its units."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from uedp_bench.errors import PrivacyError
from uedp_bench.rank_group import (
    Call,
    Failed,
    Fetch,
    OthersFailedError,
    all_there,
    answer,
    by_itself,
    gathered,
    told,
)
from uedp_bench.registry import load_plugins
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.ghost.gradients import UnknownUse
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.precision import pin_float32
from uedp_bench.training.server import LayeredStep, ServerStep
from uedp_bench.training.sharded.alone import UnitByUnit
from uedp_bench.training.sharded.gradients import ShardedPass
from uedp_bench.training.sharded.lockstep import Lockstep
from uedp_bench.training.sharded.network import ShardedModule, Sums, Weight
from uedp_bench.training.sharded.skeleton import read_learner
from uedp_bench.training.sharded.spread import Keep, kept
from uedp_bench.training.unit_sums import Marks, Share, UnitSum


class Begin(NamedTuple):
    """Begins a training on all ranks.

    Attributes:
        learner: without weights (`skeleton`).
        weights: of the network.
        local: how a unit trains.
        server: its step, of each part of the weights.
        device: kind of device of all ranks.
        threads, plugins: of rank 0.
    """

    learner: bytes
    weights: tuple[Weight, ...]
    local: LocalTraining
    server: bytes
    device: str
    threads: int
    plugins: tuple[Path, ...]


class Round(NamedTuple):
    """Asks for the sum of a round.

    Attributes:
        limits: of each unit.
        passes: of each rank, as many for all; what only keeps in step with others has weights 0.
    """

    limits: Limits
    passes: Sequence[Sequence[Share]]


class RoundAlone(NamedTuple):
    """Asks for the sum of a round whose units are computed one by one, each by all ranks.

    Attributes:
        limits: of each unit.
        shares: of all ranks.
        reason: why.
    """

    limits: Limits
    shares: Sequence[Share]
    reason: str


class Probe:
    """Asks why the network is not clipped in one pass."""


class Step(NamedTuple):
    """Adds noise, which rank 0 draws, to the sum of the round, and steps."""

    step: int
    rounds: int
    denominator: float


class State:
    """Asks for the state of each rank."""


class Restore:
    """Gives each rank its state."""


class Rest:
    """Ends the training."""


Source = Callable[[], Iterable[Tensor]]
"""Whole vectors, on rank 0 alone: each is cut into parts, and every rank gets its own."""


class Part:
    """The part of one rank in a training.

    Args:
        begin: of the training.
    """

    def __init__(self, begin: Begin) -> None:
        pin_float32()
        learner = read_learner(begin.learner, begin.weights)
        device = begin.device
        self.module = ShardedModule(learner.module, begin.weights, Lockstep(), device)
        self.module.module.train()
        self._pass = ShardedPass(learner, begin.local, self.module, device)
        self._alone = UnitByUnit(learner, begin.local, self.module, device)
        self._server: ServerStep = pickle.loads(begin.server)  # noqa: S301 - of the rank that leads
        if isinstance(self._server, LayeredStep):
            layers = self.module.by_layer()
            sizes = [sum(len(self.module.parts[name]) for name in names) for names in layers]
            self._server.lay_out(sizes, partial(self.module.summed, Sums.LAYERS))

    def receive(self, wholes: Iterable[Tensor] | None) -> None:
        """Takes this rank's parts of all weights; rank 0 has the whole ones."""
        with torch.no_grad():
            for weight, part in zip(
                self.module.weights_of_all, self._scattered(self.module.weights_of_all, wholes),
                strict=True,
            ):  # fmt: skip
                self.module.parts[weight.name].copy_(part)

    def refusals(self) -> list[Any]:
        """Answers of all ranks to `Probe`, on rank 0: all are equal."""
        return self._together(self._pass.refusal)

    def round(self, work: Round | RoundAlone) -> list[Any]:
        """What all ranks found, and the norm of the whole sum, which stays in parts.

        Nothing on others than rank 0.
        """

        def found() -> tuple[list[UnitSum], float]:
            self._pass.begin()
            total = self._pass.total
            if isinstance(work, RoundAlone):
                sums = [self._alone.add_to(total, work.shares, work.limits, work.reason)]
            else:
                sums = self._in_one_pass(work)
            return sums, float(self.module.summed(Sums.TOTAL, total.square().sum()).sqrt())

        return self._together(found)

    def step(self, how: Step, noise: Iterable[Tensor] | None) -> list[Any]:
        """Steps; True of every rank whose weights are finite, on rank 0.

        Args:
            how: of the round.
            noise: of the weights that are trained, whole, in float64; on rank 0 alone.
        """
        vector = self.module.vector
        estimate = torch.empty_like(vector)
        trained = self.module.trained
        places, sums = self.module.split(estimate), self.module.split(self._pass.total)
        drawn = self._scattered(trained, noise, torch.float64)
        for weight, part in zip(trained, drawn, strict=True):
            # As in one process: the sum is rounded, and noise is added in float64.
            exact = sums[weight.name].to(vector.dtype).double()
            places[weight.name].copy_(exact + part.to(exact.device))
        estimate /= how.denominator

        def moved() -> bool:
            vector.copy_(self._server.step(vector, estimate, how.step, how.rounds))
            return bool(torch.isfinite(vector).all())

        return self._together(moved)

    def state(self) -> list[Any]:
        """States of all ranks, on rank 0: plain values and tensors on the CPU."""
        server = {
            name: value.cpu() if isinstance(value, Tensor) else value
            for name, value in vars(self._server).items()
            if not callable(value)
        }
        return gathered({"weights": self.module.vector.cpu(), "server": server})

    def restore(self, states: Sequence[Any] | None) -> None:
        """Goes on from a state; rank 0 has those of all."""
        box: list[Any] = [None]
        with all_there():
            dist.scatter_object_list(box, None if states is None else list(states), 0)
        vector = self.module.vector
        vector.copy_(box[0]["weights"])
        for name, value in box[0]["server"].items():
            there = value.to(vector.device) if isinstance(value, Tensor) else value
            setattr(self._server, name, there)

    def facts(self) -> list[Any]:
        """Changed buffers, bytes held, and bytes of gathered weights, of all ranks, on rank 0."""
        return gathered((self.module.changed_buffers(), self.module.bytes, self.module.most))

    def _together(self, what: Callable[[], Any]) -> list[Any]:
        """What all ranks computed together, or what went wrong on them; for rank 0."""
        found: Any = None
        try:
            with by_itself(), self.module.lockstep.together():
                found = what()
        except OthersFailedError:
            found = None
        except Exception as error:
            found = Failed.of(error)
        return gathered(found)

    def _in_one_pass(self, work: Round) -> list[UnitSum]:
        """Clipping rule of each share of this rank, in words.

        Raises:
            PrivacyError: if the network uses a weight in a way that it did not use it in for the
                example rows: to go on update by update would let one unit choose the rule of all.
        """
        mine = work.passes[self.module.lockstep.rank]
        try:
            return [self._sum(work.limits, share) for share in mine]
        except UnknownUse as unknown:
            raise PrivacyError(
                f"--shard-weights: the network uses {unknown} for some rows, and not for the "
                "example rows of its learner; train without --shard-weights"
            ) from None

    def _sum(self, limits: Limits, share: Share) -> UnitSum:
        """Adds a share to the parts of the sum; what is said of it."""
        cohort, device = share.cohort, self.module.vector.device
        weights = torch.as_tensor(share.weights).to(device)
        found = self._pass.clipped(self.module.vector, cohort, limits, weights)
        marks = Marks(limits)
        marks.add(found.norms, found.over, found.dropped_rows)
        units = len(cohort.rows)
        return replace(
            marks.read(torch.empty(0), found.losses),
            units=units,
            rows=int((cohort.weights > 0).sum()),
            clipping=Counter({ONE_PASS: units}),
        )

    def _scattered(
        self, weights: Sequence[Weight], wholes: Iterable[Tensor] | None,
        dtype: torch.dtype = torch.float32,
    ) -> Iterable[Tensor]:  # fmt: skip
        """This rank's part of each vector of rank 0, one vector at a time, on the CPU."""
        ranks, of_first = self.module.lockstep.ranks, iter(wholes or ())
        for weight in weights:
            share = self.module.share(weight.size)
            part, box = torch.empty(share, dtype=dtype), None
            if wholes is not None:
                filled = torch.zeros(share * ranks, dtype=dtype)
                filled[: weight.size] = next(of_first).reshape(-1)
                box = list(torch.split(filled, share)) if share else [part] * ranks
            with all_there():
                dist.scatter(part, box, 0)
            yield part[: len(self.module.parts[weight.name])]


def follow(begin: Begin) -> None:
    """Takes part in one training, on a rank other than 0."""
    torch.set_num_threads(begin.threads)
    part: Part | None = None
    try:
        load_plugins(begin.plugins)
        part = Part(begin)
        gathered(None)
    except Exception as error:
        gathered(Failed.of(error))
    while not isinstance(message := told(), Rest):
        if part is None:
            continue
        match message:
            case Round() | RoundAlone():
                part.round(message)
            case Probe():
                part.refusals()
            case Step():
                part.step(message, None)
            case Keep():
                kept(message, part.module)
            case Call() | Fetch():
                answer(message)
            case State():
                part.state()
            case Restore():
                part.restore(None)
            case "weights":
                part.receive(None)
            case "facts":
                part.facts()


def padded_passes(shares: Sequence[Sequence[tuple[int, Share]]]) -> list[list[Share]]:
    """The passes of each rank, as many for all.

    Who has fewer computes a unit that another rank has as well, with the weight 0.
    """
    most = max(map(len, shares), default=0)
    passes = [[share for _, share in of_rank] for of_rank in shares]
    if most:
        cohort, weights = passes[0][0]
        idle = Share(cohort.take(np.zeros(1, dtype=np.int64)), np.zeros_like(weights[:1]))
        for of_rank in passes:
            of_rank += [idle] * (most - len(of_rank))
    return passes
