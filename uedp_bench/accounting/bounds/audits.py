"""From scores of included and excluded canaries to lower bounds on epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from uedp_bench.results import Estimate, LowerBound
from uedp_bench.statistics.resampling import CONFIDENCE
from uedp_bench.statistics.roc import Scores, auc_estimate

if TYPE_CHECKING:
    from uedp_bench.accounting.events import Adjacency, PrivacyUnit
    from uedp_bench.corpus import FloatArray

Method = Literal["one-run", "one-run-f-dp", "clopper-pearson", "gaussian"]
Bound = Callable[[float], float]
"""Confidence -> epsilon."""

STRICT = 1.0 - 1e-6
"""Confidence of the bounds that are checked against guarantees."""

STRICT_DELTA = 1e-10
"""The one-run bound adds a multiple of delta to its chance of error: bounds are taken at this delta
too, where that multiple is far below 1e-6. Guarantees are compared at the bound's delta."""

ASSUMED: dict[Method, str] = {
    "one-run-f-dp": "the mechanism's trade-off function is that of a Gaussian mechanism",
    "clopper-pearson": "scores of canaries in one training are independent of each other",
}
"""What methods assume beside the coins when all scores are of one training."""


class Sides(NamedTuple):
    """Scores of canaries that were in and of those that were not; high for the former."""

    members: FloatArray
    nonmembers: FloatArray

    def estimate_auc(self, rng: np.random.Generator) -> Estimate:
        """AUC with its interval; every canary is a unit of its own."""
        inside, outside = (Scores(side, np.arange(len(side))) for side in self)
        return auc_estimate(inside, outside, rng)

    def bound(self, method: Method, delta: float) -> Bound:
        """The lower bound by one method."""
        from uedp_bench.accounting.bounds.lower_bounds import epsilon_lower_bound

        def at(confidence: float) -> float:
            return float(
                epsilon_lower_bound(
                    self.members, self.nonmembers, delta=delta, confidence=confidence, method=method
                )
            )

        return at


class Target(NamedTuple):
    """A guarantee that the canaries speak of, as in `LowerBound`."""

    unit: PrivacyUnit
    adjacency: Adjacency
    spread: int | None = None
    sentences: int | None = None


def lower_bounds(
    one_run: Sides, trials: Sides | None, targets: Sequence[Target], delta: float
) -> tuple[LowerBound, ...]:
    """All bounds: first those that hold without assumptions, then those that assume something.

    The former are for every target, at `delta` and at `STRICT_DELTA`, the latter for the main one.

    Args:
        one_run: scores of the canaries of one training.
        trials: scores of one canary over independent trainings, or None.
        targets: what the canaries speak of; the first is the main one.
        delta: of the bounds.
    """
    deltas = (delta, STRICT_DELTA) if delta > STRICT_DELTA else (delta,)
    sure = [bound for at in deltas for bound in _sure(one_run, trials, targets, at)]
    assuming = [
        LowerBound(
            **targets[0]._asdict(), epsilon=one_run.bound(way, delta)(CONFIDENCE), delta=delta,
            confidence=CONFIDENCE, method=way, assumptions=(assumed,),
        )
        for way, assumed in ASSUMED.items()
    ]  # fmt: skip
    return (*sure, *assuming)


def _sure(
    one_run: Sides, trials: Sides | None, targets: Sequence[Target], delta: float
) -> list[LowerBound]:
    """Bounds that rest on the coins alone.

    The bound of one training and that of independent ones combine: the larger one counts, at a
    confidence that pays for taking it.
    """
    from uedp_bench.accounting.bounds.lower_bounds import best_of

    valid, method = [one_run.bound("one-run", delta)], "one-run"
    if trials is not None:
        valid.append(trials.bound("clopper-pearson", delta))
        count = len(trials.members) + len(trials.nonmembers)
        method = f"best of one-run and Clopper-Pearson over {count} retrainings"
    epsilon, strict = (best_of(valid, confidence=c) for c in (CONFIDENCE, STRICT))
    return [
        LowerBound(
            **target._asdict(), epsilon=epsilon, strict_epsilon=strict, delta=delta,
            confidence=CONFIDENCE, method=method,
        )
        for target in targets
    ]  # fmt: skip


def headline(
    one_run: Sides,
    trials: Sides | None,
    bounds: Sequence[LowerBound],
    delta: float,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """The metrics of the attack; see `docs/audits.md`."""
    metrics = {
        "epsilon_lower_bound": Estimate(value=bounds[0].epsilon),
        "auc": one_run.estimate_auc(rng),
        "epsilon_gaussian": Estimate(value=one_run.bound("gaussian", delta)(CONFIDENCE)),
    }
    for bound in bounds:
        if bound.assumptions:
            name = bound.method.replace("-", "_")
            metrics[f"epsilon_{name}"] = Estimate(value=bound.epsilon)
    if trials is not None:
        metrics["auc_retrainings"] = trials.estimate_auc(rng)
    return metrics
