"""Accountants that know more of events of their own kinds than any common currency says.

Sums with Gaussian noise compose by their privacy losses: dp-accounting answers for units that are
sampled whole, our own accountant for a user together with an entity. With events of other kinds
they compose by the pairs (`loss_pairs`) or the Renyi divergences (`renyi`) that dominate them.

Rounds whose noise a banded matrix correlates are one Gaussian mechanism, exactly: all rounds of a
training are worth N(r, z^2) against N(0, z^2), where r is the move of the matrix times the sums
between neighbours, whatever the rounds learn from each other (docs/proofs.md, theorem G). So are
several trainings, with the squares of r / z added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from uedp_bench.accounting import sampler_end_delta as beyond
from uedp_bench.accounting.accountants.dp_accounting import Known, library_epsilons, rdp_epsilon
from uedp_bench.accounting.accountants.loss_pairs import NoisySum, happens, representable
from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import (
    AccountantTable,
    Adjacency,
    Event,
    Neighbours,
    Protected,
)
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    GroupRound,
    PoissonSampled,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import (
    Accountant,
    Answer,
    Asked,
    Refusal,
    Rounds,
    Sizes,
    curve_of,
)


def _banded_rounds(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
    """Epsilon of trainings whose noise a banded matrix correlates, all together.

    Raises:
        Refusal: if they disagree on the number of units, where there is a curve.
    """
    banded = [(e, n) for e, n in rounds if isinstance(e, BandedFactorization) and n > 0]
    if not banded:
        return Answer(0.0, "gaussian", {"gaussian": 0.0})
    if any(event.noise_multiplier == 0.0 for event, _ in banded):
        return Answer(math.inf, "none", {}, reason="no noise was added")

    def epsilon_at(point: Protected) -> float:
        return _epsilon(banded, Neighbours(adjacency, point), delta)

    if not query.alone and len({event.population for event, _ in banded}) > 1:
        raise Refusal("rounds with correlated noise disagree on the number of users")
    epsilon, curve = curve_of(Sizes.from_rounds([event for event, _ in banded]), query, epsilon_at)
    if math.isinf(epsilon):
        return Answer(epsilon, "none", {"gaussian": epsilon}, curve, beyond.REASON)
    return Answer(epsilon, "gaussian", {"gaussian": epsilon}, curve)


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


def noisy_sums(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
    """Events with one noise for all data, which compose by their privacy losses.

    Raises:
        Refusal: if no accountant is valid for these events together.
    """
    sums = [(representable(e), n) for e, n in rounds if isinstance(e, NoisySum)]
    return _noisy_sums(sums, adjacency, delta, query)


def quick_bound(rounds: Rounds, adjacency: Adjacency, delta: float) -> float:
    """Upper bound on the epsilon of `noisy_sums`, in a hundredth of its time.

    It is the Renyi accountant's value, which is one of those that the smallest is taken of.

    Args:
        rounds: events, each with the number of times.
        adjacency: how neighbouring data sets differ.
        delta: in (0, 1).

    Returns:
        Infinity where nothing is known quickly.
    """
    sums = [(representable(e), n) for e, n in rounds if isinstance(e, Gaussian | PoissonSampled)]
    active = [(base, count) for base, count in sums if happens(base, count)]
    silent = any(base.noise_multiplier == 0.0 for base, _ in active)
    if len(sums) < len(rounds) or not active or silent or adjacency != "add-or-remove":
        return math.inf
    outside = _beyond(active, adjacency, Protected(spread=0))
    return beyond.within(delta, lambda at: rdp_epsilon(active, adjacency, at), outside)


def _noisy_sums(
    rounds: Sequence[tuple[NoisySum, int]], adjacency: Adjacency, delta: float, query: Asked
) -> Answer:
    """Events with one noise for all data, which compose by their privacy losses."""
    active = [(base, count) for base, count in rounds if happens(base, count)]
    if any(isinstance(base, GroupRound) for base, _ in rounds):
        answer = _user_entity(rounds, adjacency, delta, query)
    else:
        whole = [(base, count) for base, count in rounds if not isinstance(base, GroupRound)]
        _check_adjacency([base for base, _ in whole], adjacency)
        answer = _library_answer([(b, n) for b, n in whole if happens(b, n)], adjacency, delta)
    if any(base.noise_multiplier == 0.0 for base, _ in active):
        return Answer(math.inf, "none", answer.values, answer.curve, "no noise was added")
    if math.isinf(answer.epsilon) and not answer.reason:
        return replace(answer, accountant="none", reason=beyond.REASON)
    return answer


def _beyond(
    rounds: Sequence[tuple[NoisySum, int]], adjacency: Adjacency, point: Protected
) -> Callable[[float], float]:
    """Delta that the end of the sampler adds, by epsilon."""
    moves = [(beyond.moved(b, adjacency, point), n) for b, n in rounds if happens(b, n)]
    return lambda epsilon: beyond.mass(moves, epsilon)


def _user_entity(
    rounds: Sequence[tuple[NoisySum, int]], adjacency: Adjacency, delta: float, query: Asked
) -> Answer:
    from uedp_bench.accounting.accountants.user_entity import user_entity_epsilon

    if len({base.users for base, _ in rounds if isinstance(base, GroupRound)}) > 1:
        raise Refusal("user-entity rounds disagree on the number of users")
    if adjacency != "add-or-remove":
        raise Refusal(f"user-entity rounds are accounted for add-or-remove, not for {adjacency}")
    composable = tuple((b, n) for b, n in rounds if not isinstance(b, FixedSizeSampled))
    if len(composable) < len(rounds):
        raise Refusal("fixed-size rounds do not compose with user-entity rounds")

    silent = any(happens(b, n) and b.noise_multiplier == 0.0 for b, n in composable)

    def epsilon_at(point: Protected) -> float:
        if silent:
            return math.inf
        outside = _beyond(composable, adjacency, point)
        return beyond.within(delta, lambda d: user_entity_epsilon(composable, point, d), outside)

    sizes = Sizes.from_rounds([base for base, _ in composable])
    epsilon, curve = curve_of(sizes, query, epsilon_at)
    return Answer(epsilon, "user-entity-pld", {"user-entity-pld": epsilon}, curve)


def _check_adjacency(bases: Sequence[Known], adjacency: Adjacency) -> None:
    for base in bases:
        if not isinstance(base, FixedSizeSampled):
            continue
        if adjacency == "zero-out":
            raise Refusal(f"fixed-size rounds are not accounted for {adjacency}")
        if base.sample > base.population:
            raise Refusal(f"a round draws {base.sample} units of {base.population}")
    kinds = {base.kind for base in bases}
    if {"fixed-size-sampled", "poisson-sampled"} <= kinds:
        raise Refusal("no accountant composes fixed-size and Poisson rounds")
    if adjacency != "replace-one" and {"fixed-size-sampled", "gaussian"} <= kinds:
        raise Refusal(f"fixed-size rounds compose with no others under {adjacency}")


def _library_answer(
    rounds: Sequence[tuple[Known, int]], adjacency: Adjacency, delta: float
) -> Answer:
    """Answer by every accountant of dp-accounting that is valid; the smallest value counts."""
    if not rounds:
        return Answer(0.0, "pld", {"pld": 0.0, "rdp": 0.0})
    if any(base.noise_multiplier == 0.0 for base, _ in rounds):
        return Answer(math.inf, "none", {})
    outside = _beyond(rounds, adjacency, Protected(spread=0))
    drawn = sum(count for _, count in rounds)
    fixed = any(isinstance(base, FixedSizeSampled) for base, _ in rounds)

    @cache
    def ideal(at: float) -> dict[str, float]:
        return library_epsilons(rounds, adjacency, at)

    def real(name: str) -> float:
        # A bound for fixed-size rounds that does not reveal who else is in says nothing of pairs.
        mass = partial(beyond.whole, drawn) if fixed and name == "rdp" else outside
        return beyond.within(delta, lambda at: ideal(at)[name], mass)

    values = {name: real(name) for name in ideal(beyond.ideal_delta(delta))}
    best = min(values, key=lambda name: values[name])
    return Answer(values[best], best, values)


@AccountantTable
def joint_accountants(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
    """Answer for rounds of events whose types all have the same function here.

    Args:
        rounds: events, each with the number of times it happens.
        adjacency: how neighbouring data sets differ.
        delta: in (0, 1).
        query: points of the curve, where there is one.

    Raises:
        Refusal: if the accountant is not valid for these events together.
    """
    raise Refusal("no joint accountant knows these events")


joint_accountants.register(
    Gaussian,
    PoissonSampled,
    FixedSizeSampled,
    UserEntityGaussian,
    TwoLevelUserEntityGaussian,
    SentenceSampledGaussian,
)(noisy_sums)
joint_accountants.register(BandedFactorization)(_banded_rounds)


def own_accountant(event: Event) -> Accountant | None:
    """The joint accountant of an event; None for one that has none."""
    accountant = joint_accountants[type(event)]
    return None if accountant is joint_accountants.missing else accountant
