"""Federated training with sharded weights, as rank 0 leads it.

It is `training.federated` without a flat vector of all weights: every rank has its parts of the
weights, of the sum, and of the server's state. Rank 0 draws the noise of one weight after the
other, the numbers that one process would draw, and gives every rank its part.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError
from uedp_bench.learner import Learner
from uedp_bench.rank_group import Failed, count, gathered, told
from uedp_bench.registry import loaded_plugins
from uedp_bench.run_context import Run
from uedp_bench.training.bounds import Seen
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.diagnostics import Diagnostics
from uedp_bench.training.federation import (
    Federation,
    Rounds,
    Trained,
    clients_of,
    events_of,
    role_of,
)
from uedp_bench.training.ghost.gradients import UnknownUse
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.messages import Sending, send_updates, send_weights
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.one_round import (
    Begun,
    begin_round,
    check_buffers,
    check_finite,
    denominator_of,
    query_of,
    round_limits,
)
from uedp_bench.training.ranks import deal
from uedp_bench.training.server import LayeredStep
from uedp_bench.training.sharded.network import placeholder, weights_of
from uedp_bench.training.sharded.skeleton import without_weights
from uedp_bench.training.sharded.worker import (
    Begin,
    Collect,
    Part,
    Rest,
    Restore,
    Round,
    State,
    Step,
    padded_passes,
)
from uedp_bench.training.unit_sums import RoundWork, UnitSum, joined

if TYPE_CHECKING:
    from torch import nn


_POSSIBLE = (
    "possible are one local step of sgd over all rows of a unit (local_epochs=1, "
    "local_optimizer=sgd, no local_batch_size), noise that is independent in each round, and "
    "every server optimiser but lamb"
)

_LOOKED_AT = 64
"""Training rows on which gradients by row are compared with those of single rows, at most."""


def check_shardable(how: Federation, run: Run, injected: tuple[int, ...]) -> None:
    """Refuses what cannot be trained with sharded weights.

    Raises:
        InputError: naming it, and what is possible.
    """
    local = how.local
    reasons = {
        "there is only one rank: start the run with torchrun": count() == 1,
        "clients that draw for themselves hold whole updates": how.own_draws,
        "units take several local steps": not (
            isinstance(local, LocalTraining) and local.one_sgd_step(_most_rows(how))
        ),
        "noise that depends on earlier rounds is kept as a whole": not isinstance(
            how.noise, IndependentGaussian
        ),
        "steps of lamb need the lengths of whole layers": isinstance(how.server, LayeredStep),
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
        module = now.collected(learner)
    diagnostics.close()
    happened = events_of(how, rounds.told(how.rounds), now.bounded)
    return Trained(module.eval(), happened)


class _Training:
    """A training on all ranks, seen from rank 0: one state of a checkpoint.

    Attributes:
        part: of rank 0.
        bounded: every round so far bounded what a unit adds.
    """

    def __init__(self, how: Federation, learner: Learner, run: Run) -> None:
        self._how, self._learner, self._run = how, learner, run
        weights = weights_of(learner.module)
        assert isinstance(how.local, LocalTraining)  # noqa: S101 - `check_shardable`
        self._begin = Begin(
            without_weights(learner), weights, how.local, pickle.dumps(how.server),
            torch.device(run.device).type, torch.get_num_threads(), loaded_plugins(),
        )  # fmt: skip
        self.bounded, self._finite = True, True

    def __enter__(self) -> _Training:
        told(self._begin)
        try:
            self.part = Part(self._begin)
            self._raise(gathered(None))
            told("weights")
            named = dict(self._learner.module.named_parameters())
            self.part.receive(named[weight.name].detach().cpu() for weight in self._begin.weights)
        except Exception:
            told(Rest())
            raise
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, Exception):  # ranks are where they were
            told(Rest())

    def unit_sum(self, begun: Begun) -> UnitSum:
        """The counts of a round, whose sum stays in parts.

        Raises:
            InputError: if the network uses weights in a way that is not known. What a rank raises
                is raised.
        """
        looked_at = [] if self.part.compared else [_some_rows(self._how)]
        dealt = deal(begun.shares, count())
        work = Round(begun.work.limits, padded_passes(dealt), looked_at)
        told(work)
        of_ranks = self.part.round(work)
        self._raise(of_ranks)
        parts, norm = [], 0.0
        for shares, of_rank in zip(dealt, of_ranks, strict=True):
            for one, length in of_rank[: len(shares)]:  # the rest kept in step with other ranks
                parts.append(one)
                norm = length
        query = query_of(self._how, begun.work.limits)
        std = self._how.noise.multiplier * query.sensitivity
        return replace(joined(iter(parts), torch.empty(0)), inner=((norm, std),))

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
        self._finite = all(self.part.step(message, trained))
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

    def collected(self, learner: Learner) -> nn.Module:
        """The trained network, on the CPU of this rank."""
        module = copy.deepcopy(learner.module).cpu()
        places = dict(module.named_parameters())
        told(Collect())
        with torch.no_grad():
            for name, whole in self.part.collected():
                places[name].copy_(whole)
        return module

    def state_dict(self) -> dict[str, Any]:
        """The states of all ranks."""
        self.check()
        told(State())
        return {"bounded": self.bounded, "ranks": self.part.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts them back."""
        self.bounded = state["bounded"]
        told(Restore())
        self.part.restore(state["ranks"])

    @staticmethod
    def _raise(of_ranks: list[Any]) -> None:
        for one in of_ranks:
            if isinstance(one, Failed):
                error = one.again()
                if isinstance(error, UnknownUse):
                    raise InputError(
                        f"--shard-weights: the network uses {error}, and norms of single units "
                        "are not known then; train without --shard-weights"
                    ) from error
                raise error


def _some_rows(how: Federation) -> Cohort:
    """A few training rows, each a unit of its own, that gradients are compared on."""
    rows = how.units.rows[np.linspace(0, len(how.units.rows) - 1, _LOOKED_AT).astype(np.int64)]
    rows = np.unique(rows)
    units = np.arange(len(rows))
    rng = np.random.default_rng(0)  # of dropout: nothing that is compared hides anything
    cohort = Cohort.build(units, rows, np.ones(len(rows)), len(rows))
    return cohort.drawn(1, None, rng, rng)


def _most_rows(how: Federation) -> int:
    """Rows that a unit uses at most in a round, as far as the spec says."""
    if how.rows_per_unit is not None:
        return how.rows_per_unit
    counts = how.units.counts
    return 1 if len(counts) and int(counts.max()) == 1 else 2**62
