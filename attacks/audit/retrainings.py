"""Trainings with one more canary and without it, and when there have been enough of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.accounting.event_contract import ALONE
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.api import Run
from uedp_bench.bounds.audits import STRICT_ERROR
from uedp_bench.bounds.trade_off import (
    TradeOffCurve,
    e_value_bound,
    e_values,
    place_bets,
    right_at_most,
)
from uedp_bench.statistics.intervals import CONFIDENCE, checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uedp_bench.api import Release
    from uedp_bench.api.events import PrivacyEvent
    from uedp_bench.attacks.audit.canaries import AuditCanary
    from uedp_bench.bounds.audits import Target
    from uedp_bench.corpus import BoolArray, Corpus, FloatArray

Decided = Callable[["FloatArray", "BoolArray"], bool]
"""Scores and coins so far -> True if no more trainings are needed."""

STRICT_EVIDENCE = 2.0 / STRICT_ERROR
"""E-value of a refutation that checks rely on: one training has the other half of the error."""


class RetrainedScores(NamedTuple):
    """Scores of a canary, in the order of its trainings.

    Attributes:
        scores: (n,) high where it was included.
        included: (n,) the coins.
    """

    scores: FloatArray
    included: BoolArray


def retrained_scores(
    subject: AuditCanary,
    corpus: Corpus,
    run: Run,
    count: int,
    score: Callable[[Release, Run], float],
    decided: Decided | None,
) -> RetrainedScores:
    """Scores of the subject over trainings with and without it, seeds all different.

    Which have it is fixed in advance: every second one, or, where they may stop early, one of the
    first two and then as coins say.

    Args:
        subject: put in and left out.
        corpus: the planted corpus.
        run: run of the attack.
        count: largest number of trainings.
        score: score of a release by the run of its training.
        decided: ends them early; None where their number is fixed.
    """
    mask = np.zeros(corpus.user_count, dtype=bool)
    users = corpus.users[corpus.where("train")]
    mask[users[users >= 0]] = True
    seeds = run.shared("audit", "retrainings").choice(2**31, size=count, replace=False)
    included = np.arange(count) % 2 == 0
    if decided is not None:
        included[2:] = run.shared("audit", "coins of retrainings").random(count)[2:] < 0.5
    scores = np.empty(count)
    for i, seed in enumerate(seeds.tolist()):
        mask[subject.user] = included[i]
        release = run.retrain(mask, mechanism="same", seed=seed)
        scores[i] = checked([score(release, Run(seed, run.stats))], "scores of retrainings")[0]
        if decided is None:
            run.progress("audit: retrainings", i + 1, count)
        elif decided(scores[: i + 1], included[: i + 1]):
            return RetrainedScores(scores[: i + 1], included[: i + 1])
    return RetrainedScores(scores, included)


def early_decision(run: Run, count: int, delta: float, fair_coin: float) -> Decided:
    """Ends retrainings once the target is refuted for certain; progress says the state of things.

    Args:
        run: run of the attack.
        count: largest number of trainings.
        delta: delta of the bound that progress says.
        fair_coin: largest probability of a right guess under the target.
    """

    def decided(scores: FloatArray, included: BoolArray) -> bool:
        bets = place_bets(scores, included)
        evidence = float(e_values(bets, fair_coin).max())
        refuted = evidence >= STRICT_EVIDENCE
        verdict = "refuted" if refuted else f"open (evidence {evidence:.3g} of {STRICT_EVIDENCE:g})"
        bound = e_value_bound(bets, delta, CONFIDENCE)
        message = f"audit: retrainings: epsilon above {bound:.2f} at 95 %; the target is {verdict}"
        run.progress(message, len(scores), count)
        return refuted

    return decided


def target_of(
    events: Sequence[PrivacyEvent], target: Target, epsilon: float | None, delta: float
) -> float:
    """Largest probability of a right guess under what retrainings are to refute.

    Args:
        events: events of the release, whose worth is the target by default.
        target: unit and adjacency that the canary speaks of.
        epsilon: to refute in its place, at `delta`; None for the events.
        delta: in (0, 1).

    Returns:
        In [1/2, 1]; 1, which nothing refutes, where nothing is promised.
    """
    if epsilon is not None:
        return right_at_most(epsilon, delta)

    def worth(at: float) -> float:
        unit, adjacency = target.unit, target.adjacency
        return proven_at(events, unit=unit, adjacency=adjacency, delta=at, point=ALONE)

    return TradeOffCurve.sampled(worth).fair_coin
