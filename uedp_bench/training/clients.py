"""Clients that run private training themselves: they sample their rows and add noise at home.

A client's step is a round of the engine (`federation`) in which a unit is one of its rows: the same
sampler, clipping, noise and step as at a server that sees all rows, on rows that no other client
has. What a client sends is a function of noisy sums alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from uedp_bench.accounting.events import AnyEvent, NonPrivate
from uedp_bench.contracts.learner import Learner
from uedp_bench.corpus import Index, IntArray
from uedp_bench.training.bounds import Bound
from uedp_bench.training.federation import (
    Federation,
    begin_round,
    check_buffers,
    check_sum,
    end_round,
    lay_out,
    round_limits,
)
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import Cohort, Place, PoissonSampler, RoundSampling
from uedp_bench.training.server import ServerStep
from uedp_bench.training.unit_sums import RoundWork, ShareWorker, UnitSum, WorkerSetup, joined
from uedp_bench.training.vector import FlatModule


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
