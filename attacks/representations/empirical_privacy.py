"""Empirical privacy: what an attacker's guesses of private attributes are worth.

Definitions of Lyu, He and Li 2020 (section 4.2): 1 - X, X the mean accuracy over attributes, and
1 - F, F the F1 of presence over all attributes pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from uedp_bench.api import Estimate
from uedp_bench.api.statistics import mean_estimate, ratio_estimate, sum_of_ratios_estimate

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
    """Guesses of one attacker about the test rows.

    Attributes:
        name, classes: the attribute.
        truth: (test rows,) -1 for unknown.
        by_view: view learnt from -> (test rows,) the attacker's class.
        view: view that the attacker chose.
        majority: (test rows,) the most frequent class of the truth.
        users: (test rows,) units that are resampled together.
        models: view learnt from -> the attacker.
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
    def guess(self) -> IntArray:
        """(test rows,) classes that the attacker guesses."""
        return self.by_view[self.view]

    @property
    def labelled(self) -> BoolArray:
        """(test rows,) True where there is a truth."""
        return self.truth >= 0


def empirical_privacy(
    attackers: list[Inferred], mean: Means, rng: np.random.Generator
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Empirical privacy of the attackers, and of the majority class of the test split."""
    truth, labelled = (
        np.stack([getattr(one, key) for one in attackers]) for key in ("truth", "labelled")
    )
    users, metrics = attackers[0].users, {}
    sides = {
        "empirical_privacy": [one.guess for one in attackers],
        "empirical_privacy_majority": [one.majority for one in attackers],
    }
    if RELEASED in attackers[0].by_view:
        sides["empirical_privacy_released"] = [one.by_view[RELEASED] for one in attackers]
    for metric, guesses in ((name, np.stack(columns)) for name, columns in sides.items()):
        if mean == "f1":
            hits = (labelled & (truth == 1) & (guesses == 1)).sum(axis=0)
            marked = (labelled & (truth == 1)).sum(axis=0) + (labelled & (guesses == 1)).sum(axis=0)
            good = ratio_estimate(2.0 * hits, marked, rng, users)
        else:
            right, below = (
                (labelled & (truth == guesses)).astype(np.float64),
                labelled.astype(np.float64),
            )
            weights = np.full(len(attackers), 1.0 / len(attackers))
            good = sum_of_ratios_estimate(right, below, weights, rng, users)
        metrics[metric] = _one_minus(good)
    return metrics, {"empirical_privacy_is": f"1 - {'F1' if mean == 'f1' else 'accuracy'}"}


def accuracies(attackers: list[Inferred], rng: np.random.Generator) -> dict[str, Estimate]:
    """Accuracy of each attacker, and of the most frequent class."""
    metrics = {}
    for one in attackers:
        labelled, users = one.labelled, one.users[one.labelled]
        right = (one.guess == one.truth)[labelled].astype(np.float64)
        common = (one.majority == one.truth)[labelled].astype(np.float64)
        metrics[f"accuracy_{one.name}"] = mean_estimate(right, rng, users)
        metrics[f"majority_{one.name}"] = mean_estimate(common, rng, users)
    return metrics


def _one_minus(x: Estimate) -> Estimate:
    low, high = (None if end is None else 1.0 - end for end in (x.high, x.low))
    return Estimate(value=1.0 - x.value, low=low, high=high)


def describe(one: Inferred, rng: np.random.Generator) -> dict[str, Any]:
    """All numbers of one attacker, as JSON values; `by_class` is Table 5 of the paper."""
    truth, guesses, users = (
        one.truth[one.labelled],
        one.guess[one.labelled],
        one.users[one.labelled],
    )
    size = len(one.classes)
    table = np.bincount(truth * size + guesses, minlength=size * size).reshape(size, size)
    present = np.flatnonzero(table.sum(axis=1))
    inside = (truth == present[:, None]).astype(np.float64)
    right: FloatArray = inside * (truth == guesses)
    weights = np.full(len(present), 1.0 / len(present))
    balanced = sum_of_ratios_estimate(right, inside, weights, rng, users)
    shares = inside.mean(axis=1)
    return {
        "classes": list(one.classes),
        "rows": len(truth),
        "rows_unknown": int((~one.labelled).sum()),
        "balanced_accuracy": balanced.model_dump(mode="json"),
        "f1": {one.classes[c]: _f1(table, int(c)) for c in present},
        "by_class": {
            one.classes[c]: {
                "share": float(shares[i]),
                "accuracy": ratio_estimate(right[i], inside[i], rng, users).model_dump(mode="json"),
            }
            for i, c in enumerate(present)
        },
        "confusion": table.tolist(),
        "view": one.view,
        "epoch": {view: model.epoch for view, model in one.models.items()},
        "valid_loss": {view: list(model.losses) for view, model in one.models.items()},
    }


def _f1(table: IntArray, code: int) -> float:
    return float(2.0 * table[code, code] / (table[code].sum() + table[:, code].sum()))
