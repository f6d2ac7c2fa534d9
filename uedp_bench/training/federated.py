"""Rounds of: sample units, train each on its own rows, clip, sum, add noise, step.

One loop serves user-level DP-FedAvg (McMahan et al. 2018), user-entity DP (Lai et al. 2022) and
record-level DP-SGD (Abadi et al. 2016): they differ in their policies, each a small protocol in a
file of its own: who takes part (`sampling`), what a unit computes (`local`), what bounds it
(`bounds`), what hides the sum (`noise`), how the server steps (`server`), and where all of this is
computed (`executors`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from uedp_bench.accounting.event_contract import read_event
from uedp_bench.accounting.events import AnyEvent, NonPrivate
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.contracts.transcript import Sent, Size
from uedp_bench.corpus import Index, IntArray
from uedp_bench.errors import InputError
from uedp_bench.training.bounds import Bound, Limits
from uedp_bench.training.executors import Executor, executor_of
from uedp_bench.training.federation import (
    Federation,
    Rounds,
    Trained,
    begin_round,
    check_buffers,
    check_sum,
    check_weights,
    clients_of,
    end_round,
    events_of,
    lay_out,
    role_of,
    round_limits,
)
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.plain import count_weights
from uedp_bench.training.sampling import Cohort, Place, PoissonSampler, RoundSampling
from uedp_bench.training.server import ServerStep
from uedp_bench.training.unit_sums import RoundWork, ShareWorker, UnitSum, WorkerSetup, joined
from uedp_bench.training.vector import FlatModule

_SIMULATION_ONLY = [
    "signal_to_noise", "sum_norm", "clipped_fraction", "dropped_updates", "empty_rounds",
    "series.train_loss", "series.units", "cost.units_trained", "cost.rows_trained",
    "cost.rows_truncated", "sentences_dropped_by_cap",
]  # fmt: skip


class Diagnostics(AttributeState):
    """Collects them; they look at values before noise.

    Args:
        run: run that notes them.
        parameters: d.
    """

    changing: ClassVar[tuple[str, ...]] = (
        "_units", "_rows", "_clipped", "_dropped", "_empty", "_dropped_rows", "_signal", "_noise",
    )  # fmt: skip

    def __init__(self, run: Run, parameters: int) -> None:
        self._run, self._parameters = run, parameters
        self._units = self._rows = self._clipped = self._dropped = self._empty = 0
        self._dropped_rows = 0
        self._signal: list[float] = []
        self._noise: list[float] = []

    def round(self, step: int, unit_sum: UnitSum, limits: Limits, noise_std: float) -> float:
        """Note one round, with the standard deviation of its noise.

        Returns:
            The norm of the round's sum; the first of them where units have rounds of their own.
        """
        run = self._run
        inner = unit_sum.inner or ((float(torch.linalg.vector_norm(unit_sum.total)), noise_std),)
        self._signal.extend(norm for norm, _ in inner)
        self._noise.extend(std * math.sqrt(self._parameters) for _, std in inner)
        if unit_sum.losses:
            run.log("train_loss", step + 1, float(np.mean(unit_sum.losses)))
        run.log("units", step + 1, unit_sum.units)
        if limits.count is not None:  # what follows noisy counts is public
            run.log("clip_bound", step + 1, limits.total)
        if unit_sum.injected is not None:
            before = run.diagnostics.get("injected_updates", 0)
            run.note(injected_updates=before + unit_sum.injected)
        self._units += unit_sum.units
        self._rows += unit_sum.rows
        self._clipped += unit_sum.clipped
        self._dropped += unit_sum.dropped
        self._dropped_rows += unit_sum.dropped_rows
        self._empty += unit_sum.units == 0
        for way in unit_sum.clipping:
            run.computed("clipping", way)
        return inner[0][0]

    def close(self) -> None:
        """Note the whole training."""
        self._run.count({"units_trained": self._units, "rows_trained": self._rows})
        count_weights(self._run, "weights_trained", self._parameters)
        signal, noise = _mean(self._signal), _mean(self._noise)
        self._run.note(
            signal_to_noise=signal / noise if noise > 0 else "inf",
            sum_norm=signal,
            noise_norm=noise,
            clipped_fraction=self._clipped / max(self._units, 1),
            dropped_updates=self._dropped,
            empty_rounds=self._empty,
            simulation_only=_SIMULATION_ONLY,
        )
        if self._dropped_rows:
            self._run.note(dropped_rows=self._dropped_rows, simulation_only=["dropped_rows"])


def _mean(values: list[float]) -> float:
    """The mean; of equal values exactly the value."""
    if not values or min(values) == max(values):
        return values[0] if values else 0.0
    return float(np.mean(values))


def send_weights(
    run: Run, step: int, theta: Tensor, clients: IntArray, role: str = "client"
) -> None:
    """The server gives the shared weights (d,) to every client of the round.

    Args:
        run: writes it down.
        step: number of the round, from 0.
        theta: weights that are sent.
        clients: (clients,) their numbers.
        role: role of clients: "client 3" is client 3 of the spec, or where it has none user 3 of
            the corpus; "user 3" is user 3 where it has clients, and these do not send.
    """
    sent: Sent = theta if run.keeps_payload(step) else _size(theta)
    for client in clients.tolist():
        run.send("weights", sent, sender="server", receiver=f"{role} {client}", round=step)


class Sending(NamedTuple):
    """Messages that the clients of a round send.

    Attributes:
        theta: (d,) weights, of the shape of an update.
        clients: (clients,) numbers of the clients.
        updates: (clients, d) updates; None where only sizes are kept.
        noisy: True if each client added noise to its update, which proofs then cover.
        role: see `send_weights`.
    """

    theta: Tensor
    clients: IntArray
    updates: Tensor | None
    noisy: bool = False
    role: str = "client"


def send_updates(run: Run, step: int, what: Sending) -> None:
    """Every client of the round gives the server its update: clipped, or noisy by its own noise.

    Args:
        run: writes it down.
        step: number of the round, from 0.
        what: is sent.
    """
    for number, client in enumerate(what.clients.tolist()):
        sent: Sent = _size(what.theta) if what.updates is None else what.updates[number]
        run.send(
            "update", sent, sender=f"{what.role} {client}", receiver="server", round=step,
            noisy=what.noisy,
        )  # fmt: skip


def _size(theta: Tensor) -> Size:
    return Size(tuple(theta.shape), theta.nbytes)


def train_federated(federation: Federation, learner: Learner, run: Run) -> Trained:
    """Run the rounds of a federated training.

    Raises:
        InputError: if the weights of the network stop being finite.
        PrivacyError: if a unit's weight exceeds `weight_bound`, if noise is to hide a sum that is
            divided by private weights, if the network keeps statistics of its inputs, which are
            released without clipping or noise, if limits cannot be proven, or if two-level
            clipping is combined with what its analysis excludes.
    """
    check_weights(federation)
    federation = federation.with_own_policies()
    # Audits replace what a user sends; where clients send, there is no such thing.
    injected = run.injected if federation.group == "user" else ()
    # These streams are of this call alone: a loop that trains again draws afresh.
    streams = run.fresh("federated")
    role = role_of(federation, learner)
    with executor_of(federation.local, learner, run, injected) as executor:
        shared, layers = _Shared(executor), executor.flat.layers()
        lay_out(federation, layers)
        diagnostics = Diagnostics(run, len(shared.theta))
        rounds = Rounds(federation.sampler, streams)
        for step in run.checkpointed(
            "train",
            federation.rounds,
            shared=shared,
            diagnostics=diagnostics,
            bound=federation.bound,
            noise=federation.noise,
            server=federation.server,
            corpus=learner.corpus,
        ):
            limits = round_limits(federation, step, layers)
            taking_part = rounds.draw(step)
            work = RoundWork(shared.theta, limits, federation.clients and run.keeps_payload(step))
            round_stream = streams.child("round", step)
            begun = begin_round(
                federation, learner, work, taking_part.units, (step, round_stream, run.speed.chunk)
            )
            senders = clients_of(federation, learner, begun.shares)
            send_weights(run, step, shared.theta, senders, role)
            unit_sum = executor.unit_sum(work, begun.shares)
            noisy = bool(unit_sum.inner) and all(std > 0.0 for _, std in unit_sum.inner)
            send_updates(run, step, Sending(shared.theta, senders, unit_sum.updates, noisy, role))
            shared.theta, noise = end_round(federation, begun, unit_sum)
            shared.bounded = shared.bounded and math.isfinite(limits.total)
            shared.unit_events.extend(unit_sum.unit_events)
            check_sum(begun, diagnostics.round(step, unit_sum, limits, noise))
            del unit_sum  # its sum is as large as the network: the next round needs the memory
            run.progress("train", step + 1, federation.rounds)
        shared.check()
    diagnostics.close()
    executor.flat.load(shared.theta)
    happened = events_of(federation, rounds.samplings(federation.rounds), shared.bounded)
    return Trained(executor.flat.module.eval(), happened, tuple(shared.unit_events))


class _Shared:
    """The shared weights between two rounds, and the network's buffers: one state of a checkpoint.

    Args:
        executor: executor of the training.

    Attributes:
        theta: (d,) the weights.
        bounded: every round so far bounded what a unit adds.
        told: see `Trained`.
    """

    def __init__(self, executor: Executor) -> None:
        self.theta, self.bounded = executor.flat.vector.clone(), True
        self.unit_events: list[tuple[int, tuple[AnyEvent, ...]]] = []
        self._executor = executor

    def check(self) -> None:
        """Refuse weights and buffers that nobody is to go on from.

        Raises:
            InputError: if the weights are not finite.
            PrivacyError: if buffers hold statistics of private inputs that were to be bounded.
        """
        if not torch.isfinite(self.theta).all():
            raise InputError(
                "training diverged: weights are not finite; lower the learning rate or the noise"
            )
        if self.bounded:
            check_buffers(self._executor.changed_buffers())

    def state_dict(self) -> dict[str, Any]:
        """Weights and buffers, which other ranks may have changed: they are looked at here."""
        self.check()
        buffers = dict(self._executor.flat.module.named_buffers())
        unit_events = [
            [unit, [event.model_dump_json() for event in all_]] for unit, all_ in self.unit_events
        ]
        return {
            "theta": self.theta,
            "bounded": self.bounded,
            "buffers": buffers,
            "told": unit_events,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the saved state."""
        self.theta, self.bounded = state["theta"], state["bounded"]
        self.unit_events = [
            (unit, tuple(read_event(json.loads(event)) for event in all_))
            for unit, all_ in state["told"]
        ]
        for name, buffer in self._executor.flat.module.named_buffers():
            buffer.copy_(state["buffers"][name])


# ----------------------------------------------------- clients that run private training themselves
# They sample their rows and add noise at home. A client's step is a round of the engine
# (`federation`) in which a unit is one of its rows: the same sampler, clipping, noise and step as
# at a server that sees all rows, on rows that no other client has. What a client sends is a
# function of noisy sums alone.


@dataclass(frozen=True)
class PrivateSteps:
    """`LocalWork` of clients: steps of DP-SGD on their own rows, with noise of their own.

    Every number is a public constant, whatever a client holds.

    Attributes:
        rates: (clients,) probability with which a step draws each row of a client.
        steps: (clients,) steps of a client in each round.
        bound: bound on every row's gradient; it must not learn from rounds, for it starts anew
            with every client.
        noise_multiplier: noise of each step, over the bound.
        denominator: divisor of each noisy sum.
        server: makes what steps with the noisy mean, anew for each client and round.
        seed, injected, most: see `WorkerSetup`.
    """

    rates: tuple[float, ...]
    steps: tuple[int, ...]
    bound: Bound
    noise_multiplier: float
    denominator: float
    server: Callable[[], ServerStep]
    seed: int
    injected: tuple[int, ...]
    most: int

    @property
    def epochs(self) -> int:
        """See `LocalWork.epochs`; clients draw their seeds themselves."""
        return 1

    @property
    def batch_size(self) -> int | None:
        """See `LocalWork.batch_size`."""
        return None

    def trainer(self, learner: Learner, device: str) -> PrivateClients:
        """See `LocalWork.trainer`."""
        return PrivateClients(learner, self, device)

    def federation(self, client: int, rows: IntArray) -> Federation:
        """The steps of one client as rounds whose units are its rows."""
        return Federation(
            rounds=self.steps[client],
            units=Index(np.arange(len(rows) + 1), rows),
            sampler=PoissonSampler(len(rows), self.rates[client]),
            local=LocalTraining(),
            bound=self.bound,
            noise=IndependentGaussian(self.noise_multiplier),
            denominator=self.denominator,
            server=self.server(),
        )


class PrivateClients:
    """Computes what clients send, one client after the other.

    Args:
        learner: learner to train.
        private_steps: steps, noise and bounds of each client.
        device: torch device.

    Attributes:
        worker: computes the steps.
        flat: the network.
        losses: losses of rows, before the steps that drew them.
    """

    def __init__(self, learner: Learner, private_steps: PrivateSteps, device: str) -> None:
        setup = WorkerSetup(
            learner,
            LocalTraining(),
            device,
            private_steps.seed,
            private_steps.injected,
            private_steps.most,
        )
        self.worker = ShareWorker(setup)
        self.flat: FlatModule = self.worker.trainer.flat
        self.losses: list[float] = []
        self._learner, self._private_steps = learner, private_steps
        self._inside: list[UnitSum] = []

    def updates(self, theta: Tensor, cohort: Cohort) -> Tensor:
        """See `UnitTrainer.updates`.

        Raises:
            PrivacyError: if the network keeps statistics of its inputs, or limits cannot be proven.
        """
        updates = torch.empty(
            (len(cohort.rows), len(theta)), dtype=theta.dtype, device=theta.device
        )
        for unit, place in enumerate(cohort.places or ()):
            rows = cohort.rows[unit, cohort.weights[unit] > 0]
            torch.sub(self._trained(theta, rows, place), theta, out=updates[unit])
        check_buffers(self.flat.changed_buffers())
        return updates

    def counted(self, unit_sum: UnitSum) -> UnitSum:
        """See `DrawingTrainer.counted`: rows take the place of clients in all counts."""
        nothing = unit_sum.total.new_zeros(0)
        inside, self._inside = joined(iter(self._inside), nothing), []
        return replace(
            unit_sum,
            units=inside.units,
            rows=inside.rows,
            clipped=inside.clipped,
            dropped=unit_sum.dropped + inside.dropped,
            injected=inside.injected,
            losses=inside.losses,
            clipping=inside.clipping,
            unit_events=inside.unit_events,
            inner=inside.inner,
        )

    def _trained(self, theta: Tensor, rows: IntArray, place: Place) -> Tensor:
        """The weights (d,) of one client after its steps from `theta`."""
        federation = self._private_steps.federation(place.number, rows).with_own_policies()
        layers, samplings, nothing = self.flat.layers(), list[RoundSampling](), theta.new_zeros(0)
        bounded = True
        lay_out(federation, layers)
        for step in range(federation.rounds):
            step_stream = place.streams.child("step", step)
            work = RoundWork(theta, round_limits(federation, step, layers))
            taking_part = federation.sampler.draw(step_stream.rng("sample"))
            samplings.append(taking_part.sampling)
            at = (step, step_stream, self._private_steps.most)
            begun = begin_round(federation, self._learner, work, taking_part.units, at)
            unit_sum = joined((self.worker.unit_sum(work, part) for part in begun.shares), theta)
            theta, noise = end_round(federation, begun, unit_sum)
            bounded = bounded and math.isfinite(work.limits.total)
            norm = float(torch.linalg.vector_norm(unit_sum.total))
            check_sum(begun, norm)
            self._inside.append(replace(unit_sum, total=nothing, inner=((norm, noise),)))
        events: tuple[AnyEvent, ...] = (NonPrivate(reason="nothing was clipped"),)
        if bounded:
            events = federation.noise.events(samplings)
        self._inside.append(UnitSum(nothing, unit_events=((place.number, events),)))
        return theta
