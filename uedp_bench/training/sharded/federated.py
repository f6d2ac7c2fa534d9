"""Federated training with sharded weights, as rank 0 leads it.

It is `training.federated` without a flat vector of all weights: every rank has its parts of the
weights, of the sum, and of the server's state. Rank 0 draws the noise of one weight after the
other, the numbers that one process would draw, and gives every rank its part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError
from uedp_bench.learner import Learner
from uedp_bench.rank_group import count, told
from uedp_bench.run_context import Run
from uedp_bench.training.bounds import Seen
from uedp_bench.training.clipping_rule import settings_refusal
from uedp_bench.training.diagnostics import Diagnostics
from uedp_bench.training.federation import (
    Federation,
    Rounds,
    Trained,
    clients_of,
    events_of,
    role_of,
)
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.messages import Sending, send_updates, send_weights
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.one_round import (
    Begun,
    begin_round,
    check_buffers,
    check_finite,
    check_sum,
    denominator_of,
    query_of,
    round_limits,
)
from uedp_bench.training.ranks import deal
from uedp_bench.training.server import LayeredStep, WeightwiseStep
from uedp_bench.training.sharded.leading import Leading, raise_failed
from uedp_bench.training.sharded.network import placeholder
from uedp_bench.training.sharded.worker import (
    Probe,
    Restore,
    Round,
    RoundAlone,
    State,
    Step,
    padded_passes,
)
from uedp_bench.training.unit_sums import RoundWork, UnitSum, joined

_POSSIBLE = (
    "possible are local steps of sgd and Adam, noise that is independent in each round, and every "
    "server optimiser of this package"
)


def check_shardable(how: Federation, run: Run, injected: tuple[int, ...]) -> None:
    """Refuses what cannot be trained with sharded weights.

    Raises:
        InputError: naming it, and what is possible.
    """
    reasons = {
        "there is only one rank: start the run with torchrun": count() == 1,
        "clients that draw for themselves hold whole updates": how.own_draws,
        f"local work is {type(how.local).__name__}, which makes whole updates": not isinstance(
            how.local, LocalTraining
        ),
        "noise that depends on earlier rounds is kept as a whole": not isinstance(
            how.noise, IndependentGaussian
        ),
        f"{type(how.server).__name__} does not say that parts of the weights may step alone": not (
            isinstance(how.server, LayeredStep)
            or (isinstance(how.server, WeightwiseStep) and how.server.weightwise)
        ),
        "an audit replaces whole updates": bool(injected),
        "an attack keeps the updates of single clients": how.clients and run.keeps_payload(0),
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"--shard-weights: {reason}; {_POSSIBLE}")


def train_sharded(
    how: Federation, learner: Learner, run: Run, injected: tuple[int, ...]
) -> Trained:
    """Runs the rounds; see `training.federated.train_federated`.

    Args:
        how: checked, with policies of its own.
        learner: what is trained; its network stays as it is.
        run: around it.
        injected: users whose updates an audit replaces.

    Raises:
        InputError: if it cannot be trained so, or weights stop being finite.
    """
    check_shardable(how, run, injected)
    streams = run.fresh("federated")
    role = role_of(how, learner)
    run.computed("ranks", f"{count()} ranks, sharded weights, sums in float64")
    with _Training(how, learner, run) as now:
        now.decide()
        layers = now.part.module.layers()
        theta = placeholder((len(now.part.module),), torch.zeros(()))
        diagnostics = Diagnostics(run, len(theta))
        rounds = Rounds(how.sampler, streams)
        for step in run.checkpointed(
            "train", how.rounds, shared=now, diagnostics=diagnostics, bound=how.bound,
            noise=how.noise, corpus=learner.corpus,
        ):  # fmt: skip
            limits = round_limits(how, step, layers)
            taking_part = rounds.draw(step)
            here = streams.child("round", step)
            begun = begin_round(
                how, learner, RoundWork(theta, limits), taking_part.units,
                (step, here, run.speed.chunk),
            )  # fmt: skip
            senders: IntArray = clients_of(how, learner, begun.shares)
            send_weights(run, step, theta, senders, role)
            found = now.unit_sum(begun)
            send_updates(run, step, Sending(theta, senders, None, False, role))
            noise = now.end_round(begun, found)
            now.bounded = now.bounded and math.isfinite(limits.total)
            diagnostics.round(step, found, limits, noise)
            run.progress("train", step + 1, how.rounds)
        now.check()
        module = now.kept()
    diagnostics.close()
    happened = events_of(how, rounds.told(how.rounds), now.bounded)
    return Trained(module, happened)


class _Training(Leading):
    """A training on all ranks, seen from rank 0: one state of a checkpoint.

    Attributes:
        bounded: every round so far bounded what a unit adds.
    """

    def __init__(self, how: Federation, learner: Learner, run: Run) -> None:
        assert isinstance(how.local, LocalTraining)  # noqa: S101 - `check_shardable`
        super().__init__(learner, how.local, how.server, run.device)
        self._how, self._run = how, run
        self.bounded, self._finite = True, True
        self._refusal: str | None = None

    def decide(self) -> None:
        """Settles by which rule units are clipped, before any of their rows is read.

        Either all units are clipped in one pass or none is: what they take part in on all ranks
        must be the same.
        """
        local = self._how.local
        self._refusal = settings_refusal(local, keep_updates=False)
        if self._refusal is None and local.batch_size is not None:
            self._refusal = "units of many rows take several local steps"
        if self._refusal is None:
            told(Probe())
            of_ranks = self.part.refusals()
            raise_failed(of_ranks)
            self._refusal = next((reason for reason in of_ranks if reason is not None), None)

    def unit_sum(self, begun: Begun) -> UnitSum:
        """The counts of a round, whose sum stays in parts. What a rank raises is raised."""
        if self._refusal is None:
            return self._in_one_pass(begun)
        work = RoundAlone(begun.work.limits, begun.shares, self._refusal)
        told(work)
        of_ranks = self.part.round(work)
        raise_failed(of_ranks)
        sums, norm = of_ranks[0]  # all ranks computed the same units
        return self._joined(begun, sums, norm)

    def _in_one_pass(self, begun: Begun) -> UnitSum:
        """The same where all units of a share are clipped in one pass."""
        dealt = deal(begun.shares, count())
        work = Round(begun.work.limits, padded_passes(dealt))
        told(work)
        of_ranks = self.part.round(work)
        raise_failed(of_ranks)
        sums = [  # those after the shares of a rank kept it in step with others
            one
            for shares, (of_rank, _) in zip(dealt, of_ranks, strict=True)
            for one in of_rank[: len(shares)]
        ]
        return self._joined(begun, sums, of_ranks[0][1])

    def _joined(self, begun: Begun, sums: Sequence[UnitSum], norm: float) -> UnitSum:
        check_sum(begun, norm)
        query = query_of(self._how, begun.work.limits)
        std = self._how.noise.multiplier * query.sensitivity
        inner = ((norm, std),) if begun.shares else ()
        return replace(joined(iter(sums), torch.empty(0)), inner=inner)

    def end_round(self, begun: Begun, found: UnitSum) -> float:
        """Adds noise and steps, on all ranks; the standard deviation of the noise on the sum."""
        how = self._how
        assert isinstance(how.noise, IndependentGaussian)  # noqa: S101 - `check_shardable`
        query = query_of(how, begun.work.limits)
        sizes = list(self.part.module.sizes) + [1] * query.counts
        drawn = how.noise.parts(sizes, query.sensitivity, begun.streams.rng("noise"))
        message = Step(begun.step, how.rounds, denominator_of(how, begun.weights))
        told(message)
        trained = (torch.from_numpy(next(drawn)) for _ in self.part.module.sizes)
        of_ranks = self.part.step(message, trained)
        raise_failed(of_ranks)
        self._finite = all(of_ranks)
        of_count = [float(part[0]) for part in drawn]  # what is left: noise is drawn to its end
        seen = query.seen_count(query.count(found) + of_count[0]) if of_count else None
        how.bound.learn(begun.step, Seen(torch.empty(0), seen))
        return how.noise.multiplier * query.sensitivity

    def check(self) -> None:
        """Refuses weights and buffers that nobody is to go on from.

        Raises:
            InputError: if the weights are not finite.
            PrivacyError: if buffers hold statistics of private inputs that were to be bounded.
        """
        check_finite(self._finite)
        told("facts")
        facts = self.part.facts()
        if self.bounded:
            check_buffers([name for changed, _, _ in facts for name in changed])
        held, most = (max(fact[at] for fact in facts) for at in (1, 2))
        self._run.count({
            name: max(0.0, value - self._run.counts.get(name, 0.0))
            for name, value in (("shard_bytes", held), ("gathered_bytes", most))
        })  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """The states of all ranks."""
        self.check()
        told(State())
        ranks = self.part.state()
        return {"bounded": self.bounded, "ranks": ranks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts them back."""
        self.bounded = state["bounded"]
        told(Restore())
        self.part.restore(state["ranks"])
