"""Parts of a federated training, and its outcome."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from uedp_bench.accounting.events import AnyEvent, NonPrivate
from uedp_bench.contracts.clients import CLIENT
from uedp_bench.contracts.learner import Learner
from uedp_bench.corpus import FloatArray, Index, IntArray
from uedp_bench.randomness.streams import Stream
from uedp_bench.training.bounds import Bound
from uedp_bench.training.cohort import RowWeights
from uedp_bench.training.local import LocalWork
from uedp_bench.training.noise import Noise
from uedp_bench.training.sampling import RoundSampling, Sampler, TakingPart
from uedp_bench.training.server import ServerStep
from uedp_bench.training.unit_sums import Share


@dataclass(frozen=True)
class Federation:
    """Everything that defines federated training. A training works on copies of its policies.

    Attributes:
        rounds: number of rounds.
        units: unit -> its rows.
        sampler: sampler of the units that take part.
        local: settings of a unit's training.
        bound: bound on every unit's update.
        noise: noise on the weighted sum of updates.
        denominator: public constant that the noisy sum is divided by; None for the weights of
            those who take part, which are private: nothing is promised then, and no noise is added.
        server: the server's step.
        unit_weights: (units,) weights in [0, weight_bound], or None for all 1; each a constant or
            a function of the unit's own data.
        weight_bound: bound on every unit's weight.
        row_weights: draws a round's row weights, or None for all 1.
        rows_per_unit: rows of a unit that a round uses at most, drawn afresh; None for all.
        clients: units send their updates to a server: the run writes down what passes between
            them. False where units are rows of one place.
        group: group of the corpus that units are ("user", "client"): it names the senders.
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

    def with_own_policies(self) -> Federation:
        """Copy with fresh policy objects."""
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
        unit_events: where units draw for themselves, round after round the number of each unit, and
            what happened to its rows in the round.
    """

    module: nn.Module
    rounds: tuple[AnyEvent, ...]
    unit_events: tuple[tuple[int, tuple[AnyEvent, ...]], ...] = ()


class Rounds:
    """Units of each round. Rounds before a checkpoint are drawn again, all alike."""

    def __init__(self, sampler: Sampler, streams: Stream) -> None:
        self._sampler, self._streams = sampler, streams
        self._samplings: list[RoundSampling] = []

    def draw(self, step: int) -> TakingPart:
        """Draw the units of a round; calls follow the order of rounds, and may skip some."""
        while True:
            round_stream = self._streams.child("round", len(self._samplings))
            taking_part = self._sampler.draw(round_stream.rng("sample"))
            self._samplings.append(taking_part.sampling)
            if len(self._samplings) > step:
                return taking_part

    def samplings(self, rounds: int) -> list[RoundSampling]:
        """Sampling of each of the first rounds."""
        if len(self._samplings) < rounds:
            self.draw(rounds - 1)
        return self._samplings


def events_of(
    federation: Federation, samplings: Sequence[RoundSampling], bounded: bool
) -> tuple[AnyEvent, ...]:
    """Privacy events of all rounds."""
    if federation.denominator is None:
        return (NonPrivate(reason="sums were divided by private weights"),)
    return (
        federation.noise.events(samplings)
        if bounded
        else (NonPrivate(reason="nothing was clipped"),)
    )


def role_of(federation: Federation, learner: Learner) -> str:
    """Name of a sending unit: user where each user has a client, else client."""
    return "user" if federation.group == "user" and CLIENT in learner.corpus.groups else "client"


def clients_of(federation: Federation, learner: Learner, parts: Sequence[Share]) -> IntArray:
    """(clients,) the numbers of a round's units, in the order of their sums; none without clients.

    Client 3 is user 3 of the corpus, or client 3 of its group of that name.
    """
    if not federation.clients or not parts:
        return np.empty(0, np.int64)
    if federation.own_draws:
        places = [place.number for part in parts for place in part.cohort.places or ()]
        return np.array(places, dtype=np.int64)
    first_rows = np.concatenate([part.cohort.rows[:, 0] for part in parts])
    numbers: IntArray = learner.corpus.groups[federation.group][first_rows]
    return numbers
