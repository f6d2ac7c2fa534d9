"""The accountant for a user together with an entity.

Neighbouring data sets differ in one user and in every sentence, of any user, that mentions one
entity; k other users mention it. Pairs that dominate a round (proofs: `docs/proofs.md`):

* user sampling, one-level clipping (theorem A). Up to k + 1 clipped updates are in one sum only or
  change between two vectors of norm at most 1, and each sampled user has one coin. Both output laws
  are mixtures; collinear, opposed centres are the worst case, so the round is dominated by
  P = N(0, s^2) + Bin(k + 1, q) against Q = N(0, s^2) - Bin(k, q), and by the same with k and k + 1
  exchanged.
* user sampling, two-level clipping (theorem B). Changed updates move by rho = min(m c, 2) at most.
  With the coins of the k users revealed, j ~ Bin(k, q) of them, the protected user's update is in
  one sum only: a mixture of N(rho j, s^2) and N(rho j + 1, s^2) against N(0, s^2), and swapped.
  Theorem A holds for the same run; the smaller value counts.
* sentence sampling. At most n + e sentences are in one sum only and nothing else changes:
  P = N(0, s^2) + Bin(n + e, q) against N(0, s^2), and swapped.
* sampled users as one unit: the first with k = 0.
* a fixed number of units, one of them replaced (corollary A.2): it is in the sample by a coin, in
  the place of another: (1 - q) N(0, s^2) + q N(2, s^2) against N(0, s^2) for losses above 0, and
  swapped for those below.

Removing and adding are composed separately, and the larger value counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from uedp_bench.accounting.accountants.dominating_pairs import Pair, Replaced, binomial_mixture
from uedp_bench.accounting.accountants.privacy_loss_grid import (
    STEPS,
    Round,
    epsilon_of,
    gaussian_epsilon,
)
from uedp_bench.accounting.event_contract import Protected
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    GroupRound,
    PoissonSampled,
    TwoLevelUserEntityGaussian,
)
from uedp_bench.accounting.sampler_end_delta import contributions

AnyRound = GroupRound | Gaussian | PoissonSampled | FixedSizeSampled
"""Events of one round that this accountant understands; those that are no `GroupRound` are of one
unit, which is replaced in rounds of a fixed size, and else added or removed."""

COARSE = 10
"""Grid steps in one deviation that give epsilon within about 1 % in a tenth of the time."""

_BEATEN = 1.1  # a bound that is larger by this on a coarse grid is not computed on a fine one
_COINS = 64
"""Numbers of revealed coins told apart, at most; more share the largest of a run."""


def _sizes(event: AnyRound, point: Protected) -> tuple[int, int]:
    """Contributions above and below that neighbours (one with the group removed) may have."""
    if isinstance(event, GroupRound):
        return contributions(event, point)
    return 1, 0


def _rate(event: AnyRound) -> float:
    if isinstance(event, FixedSizeSampled):
        return event.sample / event.population
    return 1.0 if isinstance(event, Gaussian) else event.rate


def moved(event: TwoLevelUserEntityGaussian, point: Protected) -> float:
    """Largest move of the update of another user who mentions the entity (rho)."""
    return min(point.sentences_per_user * event.sentence_bound, 2.0)


def dominating_pairs(event: AnyRound, point: Protected) -> tuple[Pair, Pair]:
    """The pairs of removing and of adding; of two-level clipping, as if it had one level."""
    scale, rate = event.noise_multiplier, _rate(event)
    above, below = _sizes(event, point)
    if isinstance(event, FixedSizeSampled):
        moved_in = binomial_mixture(1, rate, 1, unit=2.0)
        replaced = Replaced(moved_in, binomial_mixture(0, rate, -1), scale)
        return replaced, replaced
    remove, add = (
        Pair(binomial_mixture(up, rate, 1), binomial_mixture(down, rate, -1), scale)
        for up, down in ((above, below), (below, above))
    )
    return remove, add


def revealed_pairs(
    event: TwoLevelUserEntityGaussian, point: Protected, count: int
) -> tuple[Round, Round]:
    """`count` rounds of two-level clipping, removing and adding (theorem B)."""
    spread, rho = _sizes(event, point)[1], moved(event, point)
    coins = binomial_mixture(spread, event.rate, 1, unit=rho, terms=_COINS)
    own, nothing = binomial_mixture(1, event.rate, 1), binomial_mixture(0, event.rate, 1)
    remove, add = [], []
    for weight, shift in zip(np.exp(coins.log_weights), coins.centres, strict=True):
        up = type(own)(own.log_weights, own.centres + shift)
        down = type(own)(own.log_weights, -up.centres)
        remove.append((float(weight), Pair(up, nothing, event.noise_multiplier)))
        add.append((float(weight), Pair(nothing, down, event.noise_multiplier)))
    return Round(tuple(remove), count, coins.lost), Round(tuple(add), count, coins.lost)


def _sides(
    rounds: Sequence[tuple[AnyRound, int]], point: Protected, revealed: bool
) -> tuple[tuple[Round, ...], ...]:
    """Rounds of either direction; two-level ones by theorem B if `revealed`, else by A."""
    sides: list[tuple[Round, Round]] = []
    for event, count in rounds:
        if revealed and isinstance(event, TwoLevelUserEntityGaussian):
            sides.append(revealed_pairs(event, point, count))
        else:
            remove, add = dominating_pairs(event, point)
            sides.append((Round(((1.0, remove),), count), Round(((1.0, add),), count)))
    return tuple(zip(*sides, strict=True))


def _larger(
    sides: Sequence[Sequence[Round]], coarse: Sequence[float], delta: float, steps: int
) -> float:
    """The larger of both directions, given both on a coarse grid.

    Every grid gives an upper bound: a direction that is smaller on the coarse one than the other
    on the fine one is not the larger.
    """
    largest = 0.0
    for side in sorted(range(len(sides)), key=lambda at: -coarse[at]):
        if coarse[side] > largest:
            largest = max(largest, epsilon_of(sides[side], delta, steps=steps))
    return largest


def _two_level(
    rounds: Sequence[tuple[AnyRound, int]], point: Protected, delta: float, steps: int
) -> float:
    """The smaller of theorems A and B; each alone is valid, so the one that is beaten may be left.

    B can only be smaller where somebody else mentions the entity and moves by less than 2, for A is
    attained by one-level clipping.
    """
    reachable = any(
        _sizes(event, point)[1] > 0 and moved(event, point) < 2.0
        for event, _ in rounds
        if isinstance(event, TwoLevelUserEntityGaussian)
    )
    theorems = [
        _sides(rounds, point, which) for which in ((False, True) if reachable else (False,))
    ]
    coarse = [[epsilon_of(s, delta, steps=min(steps, COARSE)) for s in both] for both in theorems]
    best = min(map(max, coarse))
    if steps <= COARSE:
        return best
    return min(
        _larger(both, about, delta, steps)
        for both, about in zip(theorems, coarse, strict=True)
        if max(about) <= _BEATEN * best
    )


def _reach(event: AnyRound, point: Protected) -> float:
    """Largest move of the sum, if everybody takes part."""
    above, below = _sizes(event, point)
    if isinstance(event, FixedSizeSampled):
        return 2.0
    if isinstance(event, TwoLevelUserEntityGaussian):
        return min(1.0 + moved(event, point) * below, float(above + below))
    return float(above + below)


def _unsampled(rounds: Sequence[tuple[AnyRound, int]], point: Protected, delta: float) -> float:
    """Epsilon as if everybody took part in every round: one Gaussian mechanism."""
    shift = math.sqrt(sum(n * (_reach(e, point) / e.noise_multiplier) ** 2 for e, n in rounds))
    return gaussian_epsilon(shift, delta)


@lru_cache(maxsize=4096)
def user_entity_epsilon(
    rounds: tuple[tuple[AnyRound, int], ...], point: Protected, delta: float, steps: int = STEPS
) -> float:
    """Epsilon of all rounds, for an entity at one point of the curve and noise without an end.

    Args:
        rounds: events of any kinds, each with the number of times it happens; `Gaussian` and
            `PoissonSampled` are those of the whole unit. `FixedSizeSampled`, where a unit is
            replaced, composes with its like alone.
        point: point of the curve.
        delta: delta of the epsilon, in (0, 1).
        steps: steps of the grid; fewer give a larger epsilon, sooner (see `COARSE`).

    Returns:
        The larger of the two directions; 0 where nobody is ever sampled, infinity without noise.
    """
    active = [
        (event, count)
        for event, count in rounds
        if count > 0 and _rate(event) > 0.0 and not math.isinf(event.noise_multiplier)
    ]
    if not active:
        return 0.0
    if any(event.noise_multiplier == 0.0 for event, _ in active):
        return math.inf
    values = [_unsampled(active, point, delta)]
    # At rate 1 the coins say nothing and both theorems are that one Gaussian mechanism.
    if any(_rate(event) < 1.0 for event, _ in active):
        values.append(_two_level(active, point, delta, steps))
    return min(values)
