"""Empirical privacy: what an attacker's guesses of private attributes are worth.

Definitions of Lyu, He and Li 2020 (section 4.2): 1 - X, X the mean accuracy over attributes, and
1 - F, F the F1 of presence over all attributes pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from uedp_bench.contracts.results import Estimate
from uedp_bench.statistics.intervals import ratio_estimate, sum_of_ratios_estimate

if TYPE_CHECKING:
    from uedp_bench.attacks.representations.perceptron import Perceptron
    from uedp_bench.corpus import BoolArray, FloatArray, IntArray

PRESENCE = ("absent", "present")
"""Classes of an attribute that says whether a row mentions something."""

RELEASED = "released"
"""The view of the paper's attacker."""

Means = Literal["accuracy", "f1"]


@dataclass(frozen=True, eq=False)
class Inferred:
    """What one attacker said about the test rows.

    Attributes:
        name, classes: the attribute.
        truth: (test rows,) -1 for unknown.
        by_view: what was learnt from -> (test rows,) the attacker's class.
        view: the one that the attacker chose.
        majority: (test rows,) the most frequent class of the truth.
        users: (test rows,) what is resampled together.
        models: what was learnt from -> the attacker.
    """

    name: str
    classes: tuple[str, ...]
    truth: IntArray
    by_view: Mapping[str, IntArray]
    view: str
    majority: IntArray
    users: IntArray
    models: Mapping[str, Perceptron]

    @property
    def said(self) -> IntArray:
        """(test rows,) what the attacker says."""
        return self.by_view[self.view]

    @property
    def known(self) -> BoolArray:
        """(test rows,) True where there is a truth."""
        return self.truth >= 0


def empirical_privacy(
    found: list[Inferred], mean: Means, rng: np.random.Generator
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Empirical privacy of the attackers, and of the majority class of the test split."""
    truth, known = (np.stack([getattr(one, key) for one in found]) for key in ("truth", "known"))
    users, metrics = found[0].users, {}
    sides = {
        "empirical_privacy": [one.said for one in found],
        "empirical_privacy_majority": [one.majority for one in found],
    }
    if RELEASED in found[0].by_view:
        sides["empirical_privacy_released"] = [one.by_view[RELEASED] for one in found]
    for metric, said in ((name, np.stack(columns)) for name, columns in sides.items()):
        if mean == "f1":
            hits = (known & (truth == 1) & (said == 1)).sum(axis=0)
            marked = (known & (truth == 1)).sum(axis=0) + (known & (said == 1)).sum(axis=0)
            good = ratio_estimate(2.0 * hits, marked, rng, users)
        else:
            right, below = (known & (truth == said)).astype(np.float64), known.astype(np.float64)
            weights = np.full(len(found), 1.0 / len(found))
            good = sum_of_ratios_estimate(right, below, weights, rng, users)
        metrics[metric] = _one_minus(good)
    return metrics, {"empirical_privacy_is": f"1 - {'F1' if mean == 'f1' else 'accuracy'}"}


def _one_minus(x: Estimate) -> Estimate:
    low, high = (None if end is None else 1.0 - end for end in (x.high, x.low))
    return Estimate(value=1.0 - x.value, low=low, high=high)


def describe(one: Inferred, rng: np.random.Generator) -> dict[str, Any]:
    """All numbers of one attacker, as JSON values; `by_class` is Table 5 of the paper."""
    truth, said, users = one.truth[one.known], one.said[one.known], one.users[one.known]
    size = len(one.classes)
    table = np.bincount(truth * size + said, minlength=size * size).reshape(size, size)
    there = np.flatnonzero(table.sum(axis=1))
    inside = (truth == there[:, None]).astype(np.float64)
    right: FloatArray = inside * (truth == said)
    weights = np.full(len(there), 1.0 / len(there))
    balanced = sum_of_ratios_estimate(right, inside, weights, rng, users)
    shares = inside.mean(axis=1)
    return {
        "classes": list(one.classes),
        "rows": len(truth),
        "rows_unknown": int((~one.known).sum()),
        "balanced_accuracy": balanced.model_dump(mode="json"),
        "f1": {one.classes[c]: _f1(table, int(c)) for c in there},
        "by_class": {
            one.classes[c]: {
                "share": float(shares[i]),
                "accuracy": ratio_estimate(right[i], inside[i], rng, users).model_dump(mode="json"),
            }
            for i, c in enumerate(there)
        },
        "confusion": table.tolist(),
        "view": one.view,
        "epoch": {view: model.epoch for view, model in one.models.items()},
        "valid_loss": {view: list(model.losses) for view, model in one.models.items()},
    }


def _f1(table: IntArray, code: int) -> float:
    return float(2.0 * table[code, code] / (table[code].sum() + table[:, code].sum()))
