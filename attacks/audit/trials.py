"""Lower bounds on epsilon from scores of included and excluded canaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.api import Estimate, LowerBound
from uedp_bench.api.statistics import Scores, auc_estimate
from uedp_bench.bounds.trade_off import Bets, e_value_bound, place_bets
from uedp_bench.contracts.results import CurveEvidence
from uedp_bench.statistics.intervals import CONFIDENCE

if TYPE_CHECKING:
    from uedp_bench.accounting.events import Adjacency, PrivacyUnit
    from uedp_bench.bounds.lower_bounds import Method
    from uedp_bench.corpus import BoolArray, FloatArray

Bound = Callable[[float], float]
"""Function from a confidence to an epsilon."""

STRICT_ERROR = 1e-6
STRICT = 1.0 - STRICT_ERROR
"""Confidence of the bounds that are checked against guarantees."""

STRICT_DELTA = 1e-10
"""The one-run bound adds a multiple of delta to its chance of error: bounds are taken at this delta
too, where that multiple is far below 1e-6. Guarantees are compared at the bound's delta."""

GAUSSIAN_CURVE = "the mechanism's trade-off function is that of a Gaussian mechanism"
INDEPENDENT = "scores of canaries in one training are independent of each other"
NORMAL = "they are normal with one variance on both sides"


class Sides(NamedTuple):
    """Scores of canaries that were in, and of canaries that were not; high for the former."""

    members: FloatArray
    nonmembers: FloatArray

    def estimate_auc(self, rng: np.random.Generator) -> Estimate:
        """AUC with its interval; every canary is a unit of its own."""
        inside, outside = (Scores(side, np.arange(len(side))) for side in self)
        return auc_estimate(inside, outside, rng)

    def bound(self, method: Method, delta: float) -> Bound:
        """The lower bound by one method."""
        from uedp_bench.bounds.lower_bounds import epsilon_lower_bound

        def epsilon(confidence: float) -> float:
            return float(
                epsilon_lower_bound(
                    self.members, self.nonmembers, delta=delta, confidence=confidence, method=method
                )
            )

        return epsilon


class Trials(NamedTuple):
    """Scores of one canary over independent trainings.

    Attributes:
        sides: scores of trainings with it, and of trainings without it.
        bets: bets in order, where trainings stopped early: only such bounds hold for any number of
            trainings. None for a number that was fixed in advance.
    """

    sides: Sides
    bets: Bets | None = None

    @classmethod
    def in_order(cls, scores: FloatArray, included: BoolArray, *, early: bool) -> Trials:
        """Sort trainings by their coins.

        Args:
            scores: (n,) scores in the order of the trainings.
            included: (n,) coins of the trainings.
            early: True if the number of trainings depends on the scores.
        """
        bets = place_bets(scores, included) if early else None
        return cls(Sides(scores[included], scores[~included]), bets)

    def bound(self, delta: float) -> tuple[Bound, str]:
        """The bound that rests on the trainings' randomness alone, and its name."""
        count, bets = sum(map(len, self.sides)), self.bets
        if bets is None:
            fixed = self.sides.bound("clopper-pearson", delta)
            return fixed, f"Clopper-Pearson over {count} retrainings"
        return partial(e_value_bound, bets, delta), f"e-values over {count} retrainings"


class Target(NamedTuple):
    """A guarantee that the canaries speak of, as in `LowerBound`."""

    unit: PrivacyUnit
    adjacency: Adjacency
    spread: int | None = None
    sentences: int | None = None


def lower_bounds(
    one_run: Sides,
    trials: Trials | None,
    targets: Sequence[Target],
    delta: float,
    *,
    normal: bool,
) -> tuple[LowerBound, ...]:
    """Compute all bounds: first bounds without assumptions, then bounds that assume something.

    The former are for every target, at `delta` and at `STRICT_DELTA`, the latter for the main one.

    Args:
        one_run: scores of the canaries of one training.
        trials: scores of one canary over independent trainings, or None.
        targets: guarantees that the canaries speak of; the first is the main one.
        delta: delta of the bounds.
        normal: True if Gaussian noise makes the scores normal, as those of update canaries.
    """
    deltas = (delta, STRICT_DELTA) if delta > STRICT_DELTA else (delta,)
    sure = [bound for at in deltas for bound in _sure(one_run, trials, targets, at)]
    evidence = curve_evidence(one_run, trials)
    sure[: len(targets)] = [
        bound.model_copy(update={"evidence": evidence}) for bound in sure[: len(targets)]
    ]
    assuming = [
        LowerBound(
            **targets[0]._asdict(), epsilon=side.bound(method, delta)(CONFIDENCE), delta=delta,
            confidence=CONFIDENCE, method=method, assumptions=assumptions,
        )
        for side, method, assumptions in _assuming(one_run, trials, normal=normal)
    ]  # fmt: skip
    return (*sure, *assuming)


def _assuming(
    one_run: Sides, trials: Trials | None, *, normal: bool
) -> Iterator[tuple[Sides, Method, tuple[str, ...]]]:
    """Scores, methods, and assumptions beside the coins or the trainings' randomness."""
    from uedp_bench.bounds.lower_bounds import normality_p_value

    yield one_run, "one-run-f-dp", (GAUSSIAN_CURVE,)
    yield one_run, "clopper-pearson", (INDEPENDENT,)
    if normal:
        p = normality_p_value(*one_run)
        measured = "too few vary to tell" if p is None else f"p {p:.2g} of skewness and kurtosis"
        yield one_run, "nct", (GAUSSIAN_CURVE, INDEPENDENT, f"{NORMAL} ({measured})")
    if trials is not None and trials.bets is None:
        yield trials.sides, "clopper-pearson-f-dp", (GAUSSIAN_CURVE,)


def _sure(
    one_run: Sides, trials: Trials | None, targets: Sequence[Target], delta: float
) -> list[LowerBound]:
    """Bounds that rest on the coins alone.

    The bound of one training and that of independent ones combine: the larger one counts, at a
    confidence that pays for taking it.
    """
    from uedp_bench.bounds.lower_bounds import best_of

    valid, method = [one_run.bound("one-run", delta)], "one-run"
    if trials is not None:
        bound, name = trials.bound(delta)
        valid.append(bound)
        method = f"best of one-run and {name}"
    epsilon, strict = (best_of(valid, confidence=c) for c in (CONFIDENCE, STRICT))
    return [
        LowerBound(
            **target._asdict(), epsilon=epsilon, strict_epsilon=strict, delta=delta,
            confidence=CONFIDENCE, method=method,
        )
        for target in targets
    ]  # fmt: skip


def curve_evidence(
    one_run: Sides, trials: Trials | None, error: float = STRICT_ERROR
) -> CurveEvidence:
    """Counts that whole curves are tested against.

    Args:
        one_run: scores of the canaries of one training.
        trials: scores of one canary over independent trainings, or None.
        error: probability that all tests together refute a curve which holds, at most.
    """
    from uedp_bench.bounds.lower_bounds import rate_limits
    from uedp_bench.bounds.one_run import score_guesses

    ways, bets = score_guesses(*one_run), None if trials is None else trials.bets
    fixed = trials is not None and bets is None
    limits = zip(*rate_limits(*trials.sides, error / 2.0), strict=True) if trials and fixed else ()
    placed = () if bets is None else zip(bets.chances.tolist(), bets.right.tolist(), strict=True)
    return CurveEvidence(
        canaries=sum(map(len, one_run)),
        guesses=tuple(zip(ways.counts.tolist(), ways.right.tolist(), strict=True)),
        rates=tuple((float(likely), float(rare)) for likely, rare in limits),
        bets=tuple(placed),
        error=error,
    )


def headline(
    one_run: Sides,
    trials: Trials | None,
    bounds: Sequence[LowerBound],
    delta: float,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """The metrics of the attack; see `docs/audits.md`."""
    areas = {"auc": one_run.estimate_auc(rng)}
    if trials is not None:
        areas["auc_retrainings"] = trials.sides.estimate_auc(rng)
    metrics = {"epsilon_lower_bound": Estimate(value=bounds[0].epsilon), **areas}
    for bound in bounds:
        if bound.assumptions:
            name = bound.method.replace("-", "_")
            metrics[f"epsilon_{name}"] = Estimate(value=bound.epsilon)
    for name, area in areas.items():
        metrics[f"epsilon_of_{name}"] = _epsilon_of(area, delta)
    return metrics


def _epsilon_of(area: Estimate, delta: float) -> Estimate:
    from uedp_bench.bounds.lower_bounds import epsilon_of_auc

    ends = (area.value, area.low, area.high)
    value, low, high = (None if end is None else epsilon_of_auc(end, delta) for end in ends)
    return Estimate(value=value or 0.0, low=low, high=high)
