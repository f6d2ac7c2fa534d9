"""From membership scores to metrics and details, for all kinds of releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.api import Metric
from uedp_bench.api.statistics import (
    Scores,
    auc,
    auc_estimate,
    fraction_estimate,
    sum_of_ratios_estimate,
    tpr_at_fpr,
)
from uedp_bench.attacks.membership.bag_of_words import auc_of_words, out_of_fold_scores
from uedp_bench.statistics.roc import roc_points

if TYPE_CHECKING:
    from uedp_bench.api import Estimate, Run
    from uedp_bench.attacks.membership.records import Records, Score
    from uedp_bench.corpus import FloatArray

LIMITS = {"1pct": 0.01, "0.1pct": 0.001}

METRICS = (
    Metric.rate("tpr_user_at_1pct_fpr", "user TPR at 1 % FPR", "share of member users found at one "
                "false alarm in a hundred users", "lower", no_leak=0.01, main=True),
    Metric.share("auc_user", "user AUC", "of telling users of the training data from others; 0.5 "
                 "where nothing leaks", "lower", no_leak=0.5, floor_metric="auc_bag_of_words",
                 main=True),
    Metric.share("auc_bag_of_words", "bag of words AUC", "of a classifier that sees no model: what "
                 "membership must exceed to mean anything", main=True),
    Metric.share("auc", "member AUC", "of telling training records from others; 0.5 where nothing "
                 "leaks", "lower", no_leak=0.5, floor_metric="auc_bag_of_words", main=True),
    Metric("loss_gap", "loss gap", "loss of held-out records less that of training records, a "
           "token of text; 0 where nothing is memorised", "lower", "nats", no_leak=0.0),
    Metric.rate("tpr_at_1pct_fpr", "TPR at 1 % FPR", "share of members found at one false alarm in "
                "a hundred", "lower", no_leak=0.01, main=True),
    Metric.rate("tpr_at_0.1pct_fpr", "TPR at 0.1 % FPR", "share of members found at one false "
                "alarm in a thousand", "lower", no_leak=0.001),
    Metric.rate("tpr_user_at_0.1pct_fpr", "user TPR at 0.1 % FPR", "share of member users found at "
                "one false alarm in a thousand users", "lower", no_leak=0.001),
)  # fmt: skip
"""Metrics, all of the main score."""


def report(
    records: Records, scores: dict[str, Score], main: str, run: Run
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Metrics and details; `details["notes"]` says how to read them.

    Args:
        records: records that were scored.
        scores: scores by name.
        main: the score of the metrics, fixed in advance.
        run: run whose random numbers are used.
    """
    rng = run.shared("membership", "bootstrap")
    words = out_of_fold_scores(
        records.texts, records.member, records.users, run.shared("membership", "folds")
    )
    sides = records.sides(scores[main].records)
    users = records.user_sides(scores[main].users)
    metrics = {
        "auc": auc_estimate(*sides, rng),
        "auc_user": auc_estimate(*users, rng),
        "auc_bag_of_words": auc_of_words(*records.sides(words), rng),
    }
    notes: list[str] = []
    for unit, judged in (("", sides), ("user_", users)):
        for percent, limit in LIMITS.items():
            name, rate = f"tpr_{unit}at_{percent}_fpr", tpr_at_fpr(*_values(judged), limit)
            metrics[name] = fraction_estimate(rate.hits, rate.positives)
            if rate.zero_false_positives:
                kind = "users" if unit else "records"
                notes.append(
                    f"{name}: {len(judged[1].values)} {kind} held out cannot resolve this limit; "
                    "it is the rate at zero false positives"
                )
    return metrics, {
        "notes": notes,
        "main_score": main,
        "strongest_score": max(
            scores, key=lambda name: auc(*_values(records.sides(scores[name].records)))
        ),
        "scores": {name: _table(records, score, rng) for name, score in scores.items()},
        "roc_user": roc_points(*_values(users)),
        "records": {"members": len(sides[0].values), "non_members": len(sides[1].values)},
    }


def loss_gap(logp: FloatArray, sizes: FloatArray, records: Records, run: Run) -> Estimate:
    """Loss of held-out records less that of members, with a bootstrap over users, in nats.

    Args:
        logp: (records,) log-probability of the truth, a mean where it consists of parts.
        sizes: (records,) number of these parts, each of which counts alike.
        records: records that were scored.
        run: run whose random numbers are used.
    """
    sides = np.stack([~records.member, records.member])
    return sum_of_ratios_estimate(
        np.where(sides, -logp * sizes, 0.0),
        np.where(sides, sizes, 0.0),
        (1.0, -1.0),
        run.shared("membership", "loss gap"),
        records.users,
    )


def _values(sides: tuple[Scores, Scores]) -> tuple[FloatArray, FloatArray]:
    return sides[0].values, sides[1].values


def _table(records: Records, score: Score, rng: np.random.Generator) -> dict[str, Any]:
    """All numbers of one score, as JSON values."""
    out: dict[str, Any] = {}
    units = {"": records.sides(score.records), "user": records.user_sides(score.users)}
    for unit, sides in units.items():
        name = f"_{unit}" if unit else ""
        out[f"auc{name}"] = auc_estimate(*sides, rng).model_dump(mode="json")
        for percent, limit in LIMITS.items():
            out[f"tpr{name}_at_{percent}_fpr"] = tpr_at_fpr(*_values(sides), limit).value
    return {**out, "roc": roc_points(*_values(units[""]))}
