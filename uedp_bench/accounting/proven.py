"""Accountants: frozen events in, epsilon out, or a refusal with its reason.

Renyi accountant (Mironov 2017, arXiv:1702.07476; sampled: arXiv:1908.10530) and privacy loss
distributions (Koskela et al. 2020; Doroshenko et al. 2022, arXiv:2207.04380) are dp-accounting's;
the user-entity accountant is ours. Everything heavy is imported inside functions.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.accounting.events import (
    Adjacency,
    AnyEvent,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Protected,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import CurvePoint
from uedp_bench.accounting.invert import epsilon_at

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = {
    "none": "",
    "pld": "privacy loss distribution, connect-the-dots (dp-accounting; arXiv:2207.04380)",
    "rdp": "Renyi accountant (dp-accounting; arXiv:1702.07476, arXiv:1908.10530)",
    "user-entity-pld": "opposed binomial mixtures, connect-the-dots (docs/accounting.md)",
}

_Base = Gaussian | PoissonSampled | FixedSizeSampled | UserEntityGaussian


class Refusal(Exception):  # noqa: N818 - an answer of an accountant, caught by the ledger
    """The accountant does not understand the events; the message is the reason."""


@dataclass(frozen=True)
class Answer:
    """What an accountant says.

    Attributes:
        epsilon: the smallest valid value.
        accountant: the accountant that gave it.
        values: epsilon by every accountant that is valid for these events.
        curve: for user-entity events.
        reason: why epsilon is infinite, where it is.
    """

    epsilon: float
    accountant: str
    values: dict[str, float]
    curve: tuple[CurvePoint, ...] = ()
    reason: str = ""


def rounds_of(event: AnyEvent) -> tuple[_Base, int]:
    """The event of one round, and how often it happens."""
    if isinstance(event, Repeated):
        return event.event, event.count
    if isinstance(event, NonPrivate):
        raise Refusal(event.reason)
    return event, 1


def noise_multiplier(event: _Base) -> float:
    """Noise over sensitivity, wherever the event keeps it."""
    if isinstance(event, PoissonSampled | FixedSizeSampled):
        return event.event.noise_multiplier
    return event.noise_multiplier


def happens(event: _Base, count: int) -> bool:
    """Whether anything about any unit is released."""
    rate = event.rate if isinstance(event, PoissonSampled | UserEntityGaussian) else 1.0
    return count > 0 and rate > 0.0 and not math.isinf(noise_multiplier(event))


def account(events: Sequence[AnyEvent], adjacency: Adjacency, delta: float) -> Answer:
    """The epsilon of all events in sequence, about one unit and one adjacency.

    Args:
        events: none of them `NonPrivate`.
        adjacency: how neighbouring data sets differ.
        delta: in (0, 1).

    Raises:
        Refusal: if no accountant is valid for these events together.
    """
    rounds = [rounds_of(event) for event in events]
    groups = [base for base, _ in rounds if isinstance(base, UserEntityGaussian)]
    if groups and len(groups) < len(rounds):
        raise Refusal("user-entity rounds do not compose with other events")
    if groups and len({base.users for base in groups}) > 1:
        raise Refusal("user-entity rounds disagree on the number of users")
    active = [(base, count) for base, count in rounds if happens(base, count)]
    if groups:
        answer = _user_entity(
            [(b, n) for b, n in rounds if isinstance(b, UserEntityGaussian)], delta
        )
    else:
        _check_adjacency([base for base, _ in rounds], adjacency)
        answer = _known(active, adjacency, delta)
    if any(noise_multiplier(base) == 0.0 for base, _ in active):
        return Answer(math.inf, "none", answer.values, answer.curve, "no noise was added")
    return answer


def _user_entity(rounds: Sequence[tuple[UserEntityGaussian, int]], delta: float) -> Answer:
    from uedp_bench.accounting.user_entity import curve_spreads, user_entity_epsilon

    curve = tuple(
        CurvePoint(spread=k, epsilon=user_entity_epsilon(tuple(rounds), Protected(spread=k), delta))
        for k in curve_spreads(rounds[0][0].users)
    )
    epsilon = curve[-1].epsilon
    return Answer(epsilon, "user-entity-pld", {"user-entity-pld": epsilon}, curve)


def _check_adjacency(bases: Sequence[_Base], adjacency: Adjacency) -> None:
    for base in bases:
        if not isinstance(base, FixedSizeSampled):
            continue
        if adjacency != "replace-one":
            raise Refusal(f"fixed-size rounds are accounted for replace-one, not for {adjacency}")
        if base.sample > base.population:
            raise Refusal(f"a round draws {base.sample} units of {base.population}")
    kinds = {base.kind for base in bases}
    if {"fixed-size-sampled", "poisson-sampled"} <= kinds:
        raise Refusal("no accountant composes fixed-size and Poisson rounds")


def _known(rounds: Sequence[tuple[_Base, int]], adjacency: Adjacency, delta: float) -> Answer:
    """By every accountant of dp-accounting that is valid; the smallest value counts."""
    if not rounds:
        return Answer(0.0, "pld", {"pld": 0.0, "rdp": 0.0})
    if any(noise_multiplier(base) == 0.0 for base, _ in rounds):
        return Answer(math.inf, "none", {})
    kinds = {base.kind for base, _ in rounds}
    values = {}
    if "fixed-size-sampled" not in kinds:
        values["pld"] = pld_epsilon(rounds, adjacency, delta)
    if "poisson-sampled" not in kinds or adjacency != "replace-one":
        values["rdp"] = rdp_epsilon(rounds, adjacency, delta)
    best = min(values, key=lambda name: values[name])
    return Answer(values[best], best, values)


def rdp_epsilon(rounds: Sequence[tuple[_Base, int]], adjacency: Adjacency, delta: float) -> float:
    """Epsilon by Renyi orders.

    Replacing a unit moves the clipped sum by up to twice the bound, which dp-accounting's Renyi
    accountant leaves to its caller: half the noise multiplier is passed.
    """
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    from uedp_bench.accounting.convert import to_dp_event

    replace = adjacency == "replace-one"
    relation = (
        dp.NeighboringRelation.REPLACE_ONE
        if replace
        else (dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    )
    accountant = RdpAccountant(neighboring_relation=relation)
    with _without_warnings():
        for base, count in rounds:
            accountant.compose(to_dp_event(base, sensitivity=2.0 if replace else 1.0), count)
        return float(accountant.get_epsilon(delta))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Orders whose series does not converge are left out: epsilon stays valid, so no warning."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def pld_epsilon(rounds: Sequence[tuple[_Base, int]], adjacency: Adjacency, delta: float) -> float:
    """Epsilon by privacy loss distributions; they double the sensitivity of replacing one."""
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    from uedp_bench.accounting.convert import to_dp_event

    relation = (
        dp.NeighboringRelation.REPLACE_ONE
        if adjacency == "replace-one"
        else dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant = PLDAccountant(relation, value_discretization_interval=_interval(rounds))
    for base, count in rounds:
        accountant.compose(to_dp_event(base), count)
    return epsilon_at(accountant.get_delta, delta)


def _interval(rounds: Sequence[tuple[_Base, int]]) -> float:
    """Grid step of the privacy loss, fine against its standard deviation in one round.

    dp-accounting's 1e-4 errs visibly upward where much noise makes losses as small as the step, and
    is needlessly fine where losses are large. The variance of the loss is near the chi^2
    divergence, or, with little noise, that of a Gaussian's loss that occurs at the sampling rate.
    """
    variance, steps = 0.0, 0
    for base, count in rounds:
        signal = 1.0 / noise_multiplier(base) ** 2
        rate = base.rate if isinstance(base, PoissonSampled) else 1.0
        bernoulli = rate * (1.0 - rate) * (signal / 2.0) ** 2
        spread = min(rate**2 * math.expm1(min(signal, 700.0)), signal + bernoulli)
        once = isinstance(base, Gaussian)  # composed in closed form
        variance += spread * count
        steps += 1 if once else count
    deviation = math.sqrt(variance / steps)
    return float(np.clip(1e-4, deviation / 500.0, deviation / 20.0))
