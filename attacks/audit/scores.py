"""Scores of canaries: of one release, of retrainings with one more canary, and of a stored audit.

Scores are high for canaries that a release was trained on.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from uedp_bench.accounting.event_contract import ALONE
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.api import Estimate, LowerBound, Run, StoredLeakage
from uedp_bench.attacks._planting import replace_rows
from uedp_bench.attacks.audit.canaries import name_mentions
from uedp_bench.attacks.audit.trials import STRICT_ERROR, Sides, Trials
from uedp_bench.attacks.secret_sharer.canary import random_suffixes, split_canary
from uedp_bench.bounds.trade_off import (
    TradeOffCurve,
    e_value_bound,
    e_values,
    place_bets,
    right_at_most,
)
from uedp_bench.errors import shown
from uedp_bench.statistics.intervals import CONFIDENCE, checked

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Release
    from uedp_bench.api.capabilities import Completer, RowScorer, Updates
    from uedp_bench.api.events import PrivacyEvent
    from uedp_bench.attacks.audit.canaries import AuditCanary
    from uedp_bench.attacks.audit.trials import Target

LARGEST_LOSS = 1e6
"""Infinite losses count as this many nats, so that they still compare."""

CANARY_ROWS = 4
"""Rows of a canary that its loss is the mean of, at most: they may differ in their labels."""


MOST_DEVIATIONS = 3.0
"""Cap of a weight's change: at 3 deviations normal noise loses 0.5 % of what it tells."""


class TextProbe(NamedTuple):
    """The way in which texts are asked for.

    Attributes:
        words: words that references are made of.
        prefix_words: words of a canary that are given.
        references: random suffixes that its own is compared with; 0 for none.
        named_after: words before those that are annotated as a name; None where none are.
    """

    words: tuple[str, ...]
    prefix_words: int
    references: int
    named_after: int | None = None


def text_scores(
    release: Completer, canaries: Sequence[AuditCanary], probe: TextProbe, run: Run
) -> FloatArray:
    """(canaries,) how far the suffix's loss is below that of random ones, in their deviations.

    A canary's references do not depend on the release, so that trainings compare.
    """

    def score(canary: AuditCanary, rng: np.random.Generator) -> float:
        before, suffixes = _suffixes(canary, probe, rng)
        return _gap(release.filler_losses(f"{before} ", "", suffixes))

    return _scores(score, canaries, run)


def row_scores(
    release: RowScorer, canaries: Sequence[AuditCanary], probe: TextProbe, corpus: Corpus, run: Run
) -> FloatArray:
    """(canaries,) how far the loss of a canary's rows is below that of random texts in their place.

    The texts differ in the words after the prefix alone, and stand in the same rows, beside the
    same label; what is annotated of the canary is annotated of each. `text_scores` asks language
    models, and sees more.

    Args:
        release: release that is audited.
        canaries: to score.
        probe: questions about texts.
        corpus: the planted corpus.
        run: run of the audit.
    """

    def score(canary: AuditCanary, rng: np.random.Generator) -> float:
        before, suffixes = _suffixes(canary, probe, rng)
        texts = [f"{before} {suffix}" for suffix in suffixes]
        rows = canary_rows(corpus, canary)
        every = with_texts_in(corpus, rows, texts, probe.named_after)
        losses = np.asarray(release.row_losses(every)).reshape(len(texts), len(rows))
        return _gap(losses.mean(axis=1))

    return _scores(score, canaries, run)


def _suffixes(
    canary: AuditCanary, probe: TextProbe, rng: np.random.Generator
) -> tuple[str, list[str]]:
    """The words that are given, and the canary's suffix followed by random ones."""
    before, suffix = split_canary(canary.text, probe.prefix_words)
    return before, [suffix, *random_suffixes(probe.words, suffix, probe.references, rng)]


def _scores(
    score: Callable[[AuditCanary, np.random.Generator], float],
    canaries: Sequence[AuditCanary],
    run: Run,
) -> FloatArray:
    """(canaries,) the score of each, whose references are drawn from the generator."""
    scores = np.empty(len(canaries))
    for index, canary in enumerate(canaries):
        run.progress("audit: scores", index, len(canaries))
        scores[index] = score(canary, run.shared("audit", "references", canary.user))
    return scores


def canary_rows(corpus: Corpus, canary: AuditCanary) -> IntArray:
    """Rows of a canary's user that stand for it: those that hold its text where some do."""
    mine = corpus.rows_of_user[canary.user]
    holds = np.array([corpus.texts[row] == canary.text for row in mine.tolist()], dtype=bool)
    # An excluded user of the adjacency replace-one keeps its own text.
    rows = mine[holds] if holds.any() else mine[corpus.where("train")[mine]]
    return rows[:CANARY_ROWS]


def with_texts_in(
    corpus: Corpus, rows: IntArray, texts: Sequence[str], named_after: int | None = None
) -> Corpus:
    """Every text in every one of these rows, text by text.

    Args:
        corpus: corpus of the rows.
        rows: rows that hold each text.
        texts: to hold.
        named_after: words of each text before those that are annotated as a name; None annotates
            nothing.
    """
    every = replace(corpus.take(np.tile(rows, len(texts))), detector=None)
    held = [text for text in texts for _ in range(len(rows))]
    mentions = name_mentions(every, range(len(every)), held, named_after)
    return replace_rows(every, np.arange(len(every)), held, mentions)


def _gap(losses_read: FloatArray) -> float:
    """Distance of the first loss below the mean of the others, in their standard deviations.

    Without others it is the loss itself, below zero.
    """
    losses = np.minimum(checked(losses_read, "losses of canaries"), LARGEST_LOSS)
    if len(losses) == 1:
        return -float(losses[0])
    gap, deviation = losses[1:].mean() - losses[0], losses[1:].std()
    return float(gap / deviation if deviation > 0.0 else gap)


def update_scores(
    release: Updates, canaries: Sequence[AuditCanary], run: Run
) -> tuple[FloatArray, float]:
    """(canaries,) the part of the weights' change along each canary's direction, and its norm.

    Score over norm is the cosine of Andrew et al. 2024, which is N(0, 1/d) for a direction that
    was not injected. A canary moves all weights alike and other users move few, so each weight's
    change is capped first: what others did to their few would drown the canaries.

    Args:
        release: release of the training that `run` describes.
        canaries: their users' directions are drawn again.
        run: with the seed of that training.
    """
    import torch

    from uedp_bench.training.vector import direction

    update = torch.from_numpy(_capped(np.asarray(release.update, dtype=np.float64)))
    scores = [
        float(update @ direction(run, canary.user, len(update)).double()) for canary in canaries
    ]
    return checked(scores, "scores of canaries"), float(torch.linalg.vector_norm(update))


def _capped(update: FloatArray) -> FloatArray:
    """The update with no weight further than `MOST_DEVIATIONS` of the bulk of weights."""
    # The median of a normal variable's distance to 0 is 0.6745 deviations.
    most = MOST_DEVIATIONS * float(np.median(np.abs(update))) / 0.6745
    return np.clip(update, -most, most) if most > 0.0 else np.ascontiguousarray(update)


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


MOST_SCORES = 10_000
"""Scores of a side from which bounds are computed again."""

_SOLVED = ("epsilon", "strict_epsilon")
_NAMES = ("method", "attack")
"""Fields of bounds that are numbers solved for, and fields that name their origin."""


class _Scores(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    members: tuple[float, ...] = Field(min_length=1, max_length=MOST_SCORES)
    nonmembers: tuple[float, ...] = Field(min_length=1, max_length=MOST_SCORES)

    def sides(self) -> Sides:
        return Sides(np.array(self.members), np.array(self.nonmembers))


class _Retrainings(_Scores):
    included: tuple[bool, ...] | None = None

    @model_validator(mode="after")
    def _coin_for_each(self) -> _Retrainings:
        sides = (len(self.members), len(self.nonmembers))
        coins = self.included
        if coins is not None and (sum(coins), len(coins) - sum(coins)) != sides:
            raise ValueError("included has not one coin for each score of members and nonmembers")
        return self

    def trials(self) -> Trials:
        if self.included is None:
            return Trials(self.sides())
        included = np.array(self.included)
        scores = np.empty(len(included))
        scores[included], scores[~included] = self.members, self.nonmembers
        return Trials.in_order(scores, included, early=True)


class StoredAudit(BaseModel):
    """Scores and counts in the details of a stored audit."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    canaries: int
    included: int
    delta: float = Field(gt=0.0, lt=1.0)
    scores: _Scores
    retrainings: _Retrainings | None = None

    def faults(self, *, delta: float, early: bool) -> Iterator[tuple[str, str]]:
        """Yield places and errors where counts, coins or delta are not those of the run.

        Args:
            delta: delta that the spec asks for.
            early: True if retrainings may stop early.
        """
        members, others = len(self.scores.members), len(self.scores.nonmembers)
        for name, value in (("canaries", members + others), ("included", members)):
            if getattr(self, name) != value:
                what = f"{getattr(self, name)} is not the number of its scores, {value}"
                yield f"details.{name}", what
        if self.retrainings is not None and early != (self.retrainings.included is not None):
            what = "must have the coins of retrainings that stop early, and of no others"
            yield "details.retrainings.included", what
        if self.delta != delta:
            what = f"{shown(self.delta)} is not the delta that the spec asks for"
            yield "details.delta", what


def compare(
    stored: StoredLeakage, metrics: Mapping[str, Estimate], bounds: tuple[LowerBound, ...]
) -> Iterator[tuple[str, str]]:
    """Yield places and errors where a stored audit differs from what its scores give.

    Args:
        stored: metrics and bounds of the result.
        metrics: metrics computed again.
        bounds: bounds computed again, in the order in which the audit gives them.
    """
    if len(stored.lower_bounds) != len(bounds):
        what = f"has {len(stored.lower_bounds)} bounds of the audit, and its scores give "
        yield "lower_bounds", f"{what}{len(bounds)}"
        return
    for (number, bound), again in zip(stored.lower_bounds.items(), bounds, strict=True):
        for name, value in again:
            stored_value = getattr(bound, name)
            same = _near if name in _SOLVED else operator.eq
            if name not in _NAMES and not same(stored_value, value):
                what = f"{shown(stored_value)} is not the {shown(value)} that its scores give"
                yield f"lower_bounds.{number}.{name}", what
    for name, estimate in metrics.items():
        where = f"leakage.{name}"
        if name not in stored.metrics:
            yield where, "is missing: the audit measures it"
        elif not _near(value := stored.metrics[name].value, estimate.value):
            what = f"{shown(value)} is not the {shown(estimate.value)} of its scores"
            yield f"{where}.value", what


def _near(a: float | None, b: float | None) -> bool:
    """True if two numbers are equal up to the tolerance of what solves for them, near zero too."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3)
