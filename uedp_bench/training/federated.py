"""Rounds of: sample units, train each on its own rows, clip, sum, add noise, step.

One loop serves user-level DP-FedAvg (McMahan et al. 2018), user-entity DP (Lai et al. 2022) and
record-level DP-SGD (Abadi et al. 2016): they differ in their policies, each a small protocol in a
file of its own: who takes part (`sampling`), what a unit computes (`local`), what bounds it
(`bounds`), what hides the sum (`noise`), how the server steps (`server`), and where all of this is
computed (`executors`).
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from uedp_bench.accounting.event_contract import read_event
from uedp_bench.accounting.events import AnyEvent, NonPrivate
from uedp_bench.clients import CLIENT
from uedp_bench.corpus import FloatArray, Index, IntArray
from uedp_bench.errors import InputError
from uedp_bench.learner import Learner
from uedp_bench.randomness.streams import Stream
from uedp_bench.run_context import Run
from uedp_bench.training.bounds import Bound
from uedp_bench.training.cohort import RowWeights
from uedp_bench.training.diagnostics import Diagnostics
from uedp_bench.training.executors import Executor, executor_of
from uedp_bench.training.local import LocalWork
from uedp_bench.training.messages import Sending, send_updates, send_weights
from uedp_bench.training.noise import Noise
from uedp_bench.training.one_round import (
    begin_round,
    check_buffers,
    check_weights,
    end_round,
    lay_out,
    round_limits,
)
from uedp_bench.training.sampling import Sampler, TakingPart, Told
from uedp_bench.training.server import ServerStep
from uedp_bench.training.unit_sums import RoundWork, Share


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
        clients: units send their updates to a server: the run writes down what passes between
            them. False where units are rows of one place.
        group: what a unit is, a group of the corpus ("user", "client"): it names who sends.
        own_draws: units sample their rows and add noise for themselves (`training.clients`). All
            of them take part, also those without rows.
        round_of_row: (rows of the corpus,) the only round that uses a row; None: every round may.
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
    group: str = "user"
    own_draws: bool = False
    round_of_row: IntArray | None = None

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
        told: where units draw for themselves, round after round the number of each unit, and what
            happened to its rows in the round.
    """

    module: nn.Module
    rounds: tuple[AnyEvent, ...]
    told: tuple[tuple[int, tuple[AnyEvent, ...]], ...] = ()


def train_federated(how: Federation, learner: Learner, run: Run) -> Trained:
    """Runs the rounds.

    Raises:
        InputError: if the weights of the network stop being finite.
        PrivacyError: if a unit's weight exceeds `weight_bound`, if noise is to hide a sum that is
            divided by private weights, if the network keeps statistics of its inputs, which are
            released without clipping or noise, if limits cannot be proven, or if two-level
            clipping is combined with what its analysis excludes.
    """
    check_weights(how)
    how = how.of_its_own()
    if run.speed.shard_weights:
        from uedp_bench.training.sharded.federated import train_sharded

        return train_sharded(how, learner, run, run.injected if how.group == "user" else ())
    # These streams are of this call alone: a loop that trains again draws afresh.
    streams = run.fresh("federated")
    role = "user" if how.group == "user" and CLIENT in learner.corpus.groups else "client"
    # Audits replace what a user sends; where clients send, there is no such thing.
    injected = run.injected if how.group == "user" else ()
    with executor_of(how.local, learner, run, injected) as executor:
        now, layers = _Shared(executor), executor.flat.layers()
        lay_out(how, layers)
        diagnostics = Diagnostics(run, len(now.theta))
        rounds = Rounds(how.sampler, streams)
        for step in run.checkpointed(
            "train", how.rounds, shared=now, executor=executor, diagnostics=diagnostics,
            bound=how.bound, noise=how.noise, server=how.server, corpus=learner.corpus,
        ):  # fmt: skip
            limits = round_limits(how, step, layers)
            taking_part = rounds.draw(step)
            work = RoundWork(now.theta, limits, how.clients and run.keeps_payload(step))
            here = streams.child("round", step)
            begun = begin_round(
                how, learner, work, taking_part.units, (step, here, run.speed.chunk)
            )
            senders = clients_of(how, learner, begun.shares)
            send_weights(run, step, now.theta, senders, role)
            found = executor.unit_sum(work, begun.shares)
            noisy = bool(found.inner) and all(std > 0.0 for _, std in found.inner)
            send_updates(run, step, Sending(now.theta, senders, found.updates, noisy, role))
            now.theta, noise = end_round(how, begun, found)
            now.bounded = now.bounded and math.isfinite(limits.total)
            now.told.extend(found.told)
            diagnostics.round(step, found, limits, noise)
            del found  # its sum is as large as the network: the next round needs the memory
            run.progress("train", step + 1, how.rounds)
        now.check()
    diagnostics.close()
    executor.flat.load(now.theta)
    happened = events_of(how, rounds.told(how.rounds), now.bounded)
    return Trained(executor.flat.module.eval(), happened, tuple(now.told))


class _Shared:
    """The shared weights between two rounds, and the network's buffers: one state of a checkpoint.

    Args:
        executor: of the training.

    Attributes:
        theta: (d,) the weights.
        bounded: every round so far bounded what a unit adds.
        told: see `Trained`.
    """

    def __init__(self, executor: Executor) -> None:
        self.theta, self.bounded = executor.flat.vector.clone(), True
        self.told: list[tuple[int, tuple[AnyEvent, ...]]] = []
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
        if self.bounded:
            check_buffers(self._executor.changed_buffers())

    def state_dict(self) -> dict[str, Any]:
        """Weights and buffers, which other processes may have changed: they are looked at here."""
        self.check()
        buffers = dict(self._executor.flat.module.named_buffers())
        told = [[unit, [event.model_dump_json() for event in all_]] for unit, all_ in self.told]
        return {"theta": self.theta, "bounded": self.bounded, "buffers": buffers, "told": told}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts both back."""
        self.theta, self.bounded = state["theta"], state["bounded"]
        self.told = [
            (unit, tuple(read_event(json.loads(event)) for event in all_))
            for unit, all_ in state["told"]
        ]
        for name, buffer in self._executor.flat.module.named_buffers():
            buffer.copy_(state["buffers"][name])


class Rounds:
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


def events_of(how: Federation, told: Sequence[Told], bounded: bool) -> tuple[AnyEvent, ...]:
    """What happened in all rounds."""
    if how.denominator is None:
        return (NonPrivate(reason="sums were divided by private weights"),)
    return how.noise.events(told) if bounded else (NonPrivate(reason="nothing was clipped"),)


def clients_of(how: Federation, learner: Learner, parts: Sequence[Share]) -> IntArray:
    """(clients,) the numbers of a round's units, in the order of their sums; none without clients.

    Client 3 is user 3 of the corpus, or client 3 of its group of that name.
    """
    if not how.clients or not parts:
        return np.empty(0, np.int64)
    if how.own_draws:
        places = [place.number for part in parts for place in part.cohort.places or ()]
        return np.array(places, dtype=np.int64)
    first_rows = np.concatenate([part.cohort.rows[:, 0] for part in parts])
    numbers: IntArray = learner.corpus.groups[how.group][first_rows]
    return numbers
