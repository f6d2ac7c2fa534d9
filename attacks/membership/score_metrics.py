"""From membership scores to metrics and details, for all kinds of releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uedp_bench.attacks.membership.bag_of_words import auc_of_words, out_of_fold_scores
from uedp_bench.statistics.intervals import fraction_estimate
from uedp_bench.statistics.roc import Scores, auc, auc_estimate, roc_points, tpr_at_fpr

if TYPE_CHECKING:
    import numpy as np

    from uedp_bench.attacks.membership.records import Records
    from uedp_bench.corpus import FloatArray
    from uedp_bench.results import Estimate
    from uedp_bench.run_context import Run

LIMITS = {"tpr_at_1pct_fpr": 0.01, "tpr_at_0.1pct_fpr": 0.001}


def report(
    records: Records, high: dict[str, FloatArray], main: str, rated: str | None, run: Run
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Metrics and details; `details["notes"]` says how to read them.

    Args:
        records: that were scored.
        high: (records,) scores by name, high for members.
        main: the score of the AUCs, fixed in advance.
        rated: the score of the rates at a limited FPR; None for the one with the largest AUC here.
        run: whose random numbers are used.
    """
    rng = run.shared("membership", "bootstrap")
    words = out_of_fold_scores(
        records.texts, records.member, records.users, run.shared("membership", "folds")
    )
    best = max(high, key=lambda name: auc(*_values(records.sides(high[name]))))
    metrics = {
        "auc": auc_estimate(*records.sides(high[main]), rng),
        "auc_user": auc_estimate(*records.by_user(high[main]), rng),
        "auc_bag_of_words": auc_of_words(*records.sides(words), rng),
    }
    notes: list[str] = []
    inside, outside = _values(records.sides(high[rated or best]))
    for name, limit in LIMITS.items():
        rate = tpr_at_fpr(inside, outside, limit)
        metrics[name] = fraction_estimate(rate.hits, rate.positives)
        if rate.zero_false_positives:
            notes.append(
                f"{name}: {len(outside)} non-member records cannot resolve this limit; it is "
                "the rate at zero false positives"
            )
    if rated is None:
        notes.append(
            "the strongest score is chosen on the records that it is reported on; auc is not"
        )
    return metrics, {
        "notes": notes,
        "main_score": main,
        "strongest_score": best,
        "scores": {name: _table(records, values, rng) for name, values in high.items()},
        "roc_user": roc_points(*_values(records.by_user(high[main]))),
        "records": {"members": len(inside), "non_members": len(outside)},
    }


def _values(sides: tuple[Scores, Scores]) -> tuple[FloatArray, FloatArray]:
    return sides[0].values, sides[1].values


def _table(records: Records, values: FloatArray, rng: np.random.Generator) -> dict[str, Any]:
    """All numbers of one score, as JSON values."""
    inside, outside = _values(records.sides(values))
    return {
        "auc": auc_estimate(*records.sides(values), rng).model_dump(mode="json"),
        "auc_user": auc_estimate(*records.by_user(values), rng).model_dump(mode="json"),
        **{name: tpr_at_fpr(inside, outside, limit).value for name, limit in LIMITS.items()},
        "roc": roc_points(inside, outside),
    }
