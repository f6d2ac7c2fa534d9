"""Rounds of: sample units, train each on its own rows, clip, sum, add noise, step.

One loop serves user-level DP-FedAvg (McMahan et al. 2018), user-entity DP (Lai et al. 2022) and
record-level DP-SGD (Abadi et al. 2016): they differ in their policies, each a small protocol in a
file of its own: who takes part (`sampling`), what a unit computes (`local`), what bounds it
(`bounds`), what hides the sum (`noise`), how the server steps (`server`), and where all of this is
computed (`executors`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from uedp_bench.accounting.events import AnyEvent, NonPrivate
from uedp_bench.corpus import FloatArray, Index, IntArray
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.learner import Learner
from uedp_bench.randomness.streams import Stream
from uedp_bench.run import Run
from uedp_bench.training.bounds import Bound, Limits, NetworkLayer, check_limits
from uedp_bench.training.cohort import RowWeights, draw_cohort
from uedp_bench.training.diagnostics import Diagnostics
from uedp_bench.training.executors import Executor, executor_of
from uedp_bench.training.local import LocalWork
from uedp_bench.training.messages import send_updates, send_weights
from uedp_bench.training.noise import Noise
from uedp_bench.training.round_query import RoundQuery
from uedp_bench.training.sampling import Sampler, TakingPart, Told
from uedp_bench.training.server import ServerStep
from uedp_bench.training.two_level import check_two_level
from uedp_bench.training.unit_sums import RoundWork, Share, round_shares


@dataclass(frozen=True)
class Federation:
    """Everything that defines federated training. A training works on copies of its policies.

    Attributes:
        rounds: how many.
        units: unit -> its rows.
        sampler: who takes part.
        local: how a unit trains.
        bound: what no unit's update exceeds.
        noise: on the weighted sum of updates.
        denominator: public constant that the noisy sum is divided by; None for the weights of
            those who take part, which are private: nothing is promised then, and no noise is added.
        server: the server's step.
        unit_weights: (units,) weights in [0, weight_bound], or None for all 1; each a constant or
            a function of the unit's own data.
        weight_bound: what no unit's weight exceeds.
        row_weights: draws a round's row weights, or None for all 1.
        rows_per_unit: rows of a unit that a round uses at most, drawn afresh; None for all.
        clients: units are users who send their updates to a server: the run writes down what
            passes between them. False where units are rows of one place.
    """

    rounds: int
    units: Index
    sampler: Sampler
    local: LocalWork
    bound: Bound
    noise: Noise
    denominator: float | None
    server: ServerStep
    unit_weights: FloatArray | None = None
    weight_bound: float = 1.0
    row_weights: RowWeights | None = None
    rows_per_unit: int | None = None
    clients: bool = False

    def of_its_own(self) -> Federation:
        """The same with policies that no other training changes."""
        return replace(
            self,
            sampler=copy.deepcopy(self.sampler),
            bound=copy.deepcopy(self.bound),
            noise=copy.deepcopy(self.noise),
            server=copy.deepcopy(self.server),
        )


@dataclass(frozen=True)
class Trained:
    """The trained module and what really happened.

    Attributes:
        rounds: all rounds as events, by what the sampler drew, the noise added and the limits
            bounded; `NonPrivate` alone where a round bounded nothing.
    """

    module: nn.Module
    rounds: tuple[AnyEvent, ...]


def train_federated(how: Federation, learner: Learner, run: Run) -> Trained:
    """Runs the rounds.

    Raises:
        InputError: if the weights of the network stop being finite.
        PrivacyError: if a unit's weight exceeds `weight_bound`, if noise is to hide a sum that is
            divided by private weights, if the network keeps statistics of its inputs, which are
            released without clipping or noise, if limits cannot be proven, or if two-level
            clipping is combined with what its analysis excludes.
    """
    _check_weights(how)
    how = how.of_its_own()
    # These streams are of this call alone: a loop that trains again draws afresh.
    streams = run.fresh("federated")
    with executor_of(how.local, learner, run) as executor:
        now, layers = _Shared(executor), executor.flat.layers()
        diagnostics = Diagnostics(run, len(now.theta))
        rounds = _Rounds(how.sampler, streams)
        for step in run.checkpointed(
            "train", how.rounds, shared=now, executor=executor, diagnostics=diagnostics,
            bound=how.bound, noise=how.noise, server=how.server, corpus=learner.corpus,
        ):  # fmt: skip
            here, theta = streams.child("round", step), now.theta
            limits = _limits(how, step, layers)
            taking_part = rounds.draw(step)
            cohort, weights = draw_cohort(how, taking_part.units, here)
            work = RoundWork(theta, limits, how.clients and run.keeps_payload(step))
            parts = list(round_shares(work, how.local, learner, cohort, weights, run.speed.chunk))
            senders = _clients(how, learner, parts)
            send_weights(run, step, theta, senders)
            found = executor.unit_sum(work, parts)
            send_updates(run, step, theta, senders, found.updates)
            # A round in which nobody takes part still adds noise: leaving it out would tell.
            query = RoundQuery(limits, how.weight_bound, how.noise.multiplier)
            noisy = how.noise.add(query.vector(found), query.sensitivity, step, here.rng("noise"))
            seen = query.seen(noisy, theta)
            estimate = seen.total / _denominator(how, weights)
            now.theta = how.server.step(theta, estimate, step, how.rounds)
            how.bound.learn(step, seen)
            now.bounded = now.bounded and math.isfinite(limits.total)
            diagnostics.round(step, found, limits, how.noise.multiplier * query.sensitivity)
            run.progress("train", step + 1, how.rounds)
        now.check()
    diagnostics.close()
    executor.flat.load(now.theta)
    happened = _events(how, rounds.told(how.rounds), now.bounded)
    return Trained(executor.flat.module.eval(), happened)


class _Shared:
    """The shared weights between two rounds, and the network's buffers: one state of a checkpoint.

    Args:
        executor: of the training.

    Attributes:
        theta: (d,) the weights.
        bounded: every round so far bounded what a unit adds.
    """

    def __init__(self, executor: Executor) -> None:
        self.theta, self.bounded = executor.flat.vector.clone(), True
        self._executor = executor

    def check(self) -> None:
        """Refuses weights and buffers that nobody is to go on from.

        Raises:
            InputError: if the weights are not finite.
            PrivacyError: if buffers hold statistics of private inputs that were to be bounded.
        """
        if not bool(torch.isfinite(self.theta).all()):
            raise InputError(
                "training diverged: weights are not finite; lower the learning rate or the noise"
            )
        if self.bounded and (kept := self._executor.changed_buffers()):
            raise PrivacyError(
                f"the network keeps statistics of private inputs in {kept[0]!r}, and neither "
                "clipping nor noise covers them; take a network without batch normalisation"
            )

    def state_dict(self) -> dict[str, Any]:
        """Weights and buffers, which other processes may have changed: they are looked at here."""
        self.check()
        buffers = dict(self._executor.flat.module.named_buffers())
        return {"theta": self.theta, "bounded": self.bounded, "buffers": buffers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts both back."""
        self.theta, self.bounded = state["theta"], state["bounded"]
        for name, buffer in self._executor.flat.module.named_buffers():
            buffer.copy_(state["buffers"][name])


class _Rounds:
    """Who takes part in each round. Rounds before a checkpoint are drawn again, all alike."""

    def __init__(self, sampler: Sampler, streams: Stream) -> None:
        self._sampler, self._streams = sampler, streams
        self._told: list[Told] = []

    def draw(self, step: int) -> TakingPart:
        """The units of a round; rounds are asked for in their order, some perhaps left out."""
        while True:
            here = self._streams.child("round", len(self._told))
            taking_part = self._sampler.draw(here.rng("sample"))
            self._told.append(taking_part.told)
            if len(self._told) > step:
                return taking_part

    def told(self, rounds: int) -> list[Told]:
        """How the units of each round were drawn."""
        if len(self._told) < rounds:
            self.draw(rounds - 1)
        return self._told


def _check_weights(how: Federation) -> None:
    weights, bound = how.unit_weights, how.weight_bound
    if weights is not None and not ((weights >= 0.0) & (weights <= bound)).all():
        raise PrivacyError(f"a unit weighs less than 0 or more than the bound {bound}")
    if how.denominator is None and how.noise.multiplier > 0.0:
        raise PrivacyError(
            "denominator is None: the sum is divided by the weights of those who take part, which "
            "noise does not hide; give a public constant, or noise of multiplier 0"
        )


def _denominator(how: Federation, weights: FloatArray) -> float:
    """What the sum of a round is divided by; `weights` are those of the units that take part."""
    if how.denominator is not None:
        return how.denominator
    return float(weights.sum()) or 1.0  # nobody, or nobody that counts: the sum is 0


def _events(how: Federation, told: Sequence[Told], bounded: bool) -> tuple[AnyEvent, ...]:
    if how.denominator is None:
        return (NonPrivate(reason="sums were divided by private weights"),)
    return how.noise.events(told) if bounded else (NonPrivate(reason="nothing was clipped"),)


def _clients(how: Federation, learner: Learner, parts: Sequence[Share]) -> IntArray:
    """(clients,) the users of a round's units, in the order of their sums; none without clients."""
    if not how.clients or not parts:
        return np.empty(0, np.int64)
    first_rows = np.concatenate([part.cohort.rows[:, 0] for part in parts])
    users: IntArray = learner.corpus.users[first_rows]
    return users


def _limits(how: Federation, step: int, layers: tuple[NetworkLayer, ...]) -> Limits:
    """The limits of a round, checked: something can be proven of them."""
    limits = how.bound.limits(step, layers)
    check_limits(limits, layers, how.noise.multiplier)
    check_two_level(how, limits)
    return limits
