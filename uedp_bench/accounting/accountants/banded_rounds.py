"""The accountant of noise that a banded matrix correlates: one Gaussian mechanism, exactly.

All rounds of a training are worth N(r, z^2) against N(0, z^2), where r is the move of the
matrix times the sums between neighbours, whatever the rounds learn from each other (docs/proofs.md,
theorem G). So are several trainings, with the squares of r / z added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from uedp_bench.accounting import sampler_end_delta as beyond
from uedp_bench.accounting.accountants.answers import Answer, Asked, Refusal, Rounds
from uedp_bench.accounting.accountants.epsilon_at_delta import gaussian_epsilon
from uedp_bench.accounting.accountants.user_entity_curve import Sizes, curve_of
from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import Adjacency, Neighbours, Protected

NAME = "gaussian"


def banded_rounds(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
    """Epsilon of all trainings together.

    Raises:
        Refusal: if they disagree on the number of units, where there is a curve.
    """
    banded = [(e, n) for e, n in rounds if isinstance(e, BandedFactorization) and n > 0]
    if not banded:
        return Answer(0.0, NAME, {NAME: 0.0})
    if any(event.noise_multiplier == 0.0 for event, _ in banded):
        return Answer(math.inf, "none", {}, reason="no noise was added")

    def epsilon_at(point: Protected) -> float:
        return _epsilon(banded, Neighbours(adjacency, point), delta)

    if not query.alone and len({event.population for event, _ in banded}) > 1:
        raise Refusal("rounds with correlated noise disagree on the number of users")
    epsilon, curve = curve_of(Sizes.from_rounds([event for event, _ in banded]), query, epsilon_at)
    if math.isinf(epsilon):
        return Answer(epsilon, "none", {NAME: epsilon}, curve, beyond.REASON)
    return Answer(epsilon, NAME, {NAME: epsilon}, curve)


def _epsilon(
    banded: Sequence[tuple[BandedFactorization, int]], neighbours: Neighbours, delta: float
) -> float:
    shift = math.sqrt(
        math.fsum(n * (e.reach(neighbours) / e.noise_multiplier) ** 2 for e, n in banded)
    )
    drawn = sum(count * event.rounds for event, count in banded)
    return beyond.within(
        delta,
        lambda ideal: gaussian_epsilon(shift, ideal),
        lambda epsilon: beyond.whole(drawn, epsilon),
    )
