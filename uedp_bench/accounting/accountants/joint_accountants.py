"""Accountants that know more of events of their own kinds than any common currency says."""

from __future__ import annotations

from uedp_bench.accounting.accountants.answers import Accountant, Answer, Asked, Refusal, Rounds
from uedp_bench.accounting.accountants.banded_rounds import banded_rounds
from uedp_bench.accounting.accountants.noisy_sums import noisy_sums
from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import AccountantTable, Adjacency, Event
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)


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
joint_accountants.register(BandedFactorization)(banded_rounds)


def own_accountant(event: Event) -> Accountant | None:
    """The joint accountant of an event; None for one that has none."""
    accountant = joint_accountants[type(event)]
    return None if accountant is joint_accountants.missing else accountant
