"""Empirical privacy of representations: what guesses of private attributes are worth, and a map.

Definitions of Lyu, He and Li 2020 (section 4.2): 1 - X, X the mean accuracy over attributes, and
1 - F, F the F1 of presence over all attributes pooled. The map is their Figure 4: t-SNE of
representations by private attribute. It is for looking at. What an attacker can infer is measured
in all coordinates, not on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from uedp_bench.api import Estimate, InputError
from uedp_bench.api.statistics import mean_estimate, ratio_estimate, sum_of_ratios_estimate

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, FloatArray, IntArray
    from uedp_bench.attacks.representations.perceptron import Perceptron

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
    truth, guesses, users = (rows[one.labelled] for rows in (one.truth, one.guess, one.users))
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


Method = Literal["pca", "tsne"]

PERPLEXITY = 30.0
DIGITS = 4


class Colour(NamedTuple):
    """Classes of the rows of a map.

    Attributes:
        classes: names.
        codes: (rows,) the class of each row, -1 for unknown.
    """

    classes: tuple[str, ...]
    codes: IntArray


def projection(
    method: Method,
    inputs: FloatArray,
    attributes: Mapping[str, Colour],
    label: Colour | None,
    sample: tuple[int, np.random.Generator],
) -> dict[str, Any]:
    """The map of a draw of the rows, as JSON values; docs/results.md has its fields.

    Points come in the order of the draw, so that their place says nothing about the row.

    Args:
        method: `pca`, or `tsne` (van der Maaten and Hinton 2008), which starts from the PCA.
        inputs: (rows, d) representations as released, finite.
        attributes: attributes that colour the points.
        label: target of the main task; None where it predicts no class of a row.
        sample: largest number of rows, and the generator that draws them.

    Raises:
        InputError: for representations that are too far apart for finite numbers.
    """
    most, rng = sample
    rows = rng.permutation(len(inputs))[:most]
    centred, scale = _normalised(inputs[rows])
    points, explained = _pca(centred)
    about: dict[str, Any] = {"explained_variance": explained.tolist()}
    if method == "pca":
        points = points * scale
    else:
        # Scikit-learn's nearest neighbours, of which the rule of thumb takes three times as many.
        perplexity = min(PERPLEXITY, max(1.0, (len(rows) - 1) / 3))
        points, about = _tsne(centred, points, perplexity), {"perplexity": perplexity}
    coloured = {name: _legend(colour, rows) for name, colour in attributes.items()}
    return {
        "method": method,
        "view": RELEASED,
        "rows": len(rows),
        "points": [[float(f"{value:.{DIGITS}g}") for value in row] for row in points.tolist()],
        **about,
        "attributes": coloured,
        **({} if label is None else {"labels": _legend(label, rows)}),
    }


def _normalised(inputs: FloatArray) -> tuple[FloatArray, float]:
    """Rows less their mean, scaled to at most 1 against overflow, and that scale."""
    with np.errstate(over="ignore", invalid="ignore"):
        centred = inputs - inputs.mean(axis=0)
        scale = float(np.abs(centred).max())
        reach = scale * math.sqrt(inputs.shape[1])  # no row is farther from the mean
    if not math.isfinite(reach):
        raise InputError(
            "attribute-inference.projection: representations of the test split are too large to "
            f"draw (up to {np.abs(inputs).max():.3g}); leave it out"
        )
    # A constant says nothing, and the rounding of its mean must not become a picture.
    centred[:, (inputs == inputs[0]).all(axis=0)] = 0.0
    return centred / (scale or 1.0), scale


def _pca(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(rows, 2) principal components, and the (2,) shares of the variance that they have.

    What a single row, a single coordinate or rows without differences lack is 0. Of each
    direction, the coordinate with the largest weight has a positive one.
    """
    from sklearn.decomposition import PCA

    points, explained = np.zeros((len(centred), 2)), np.zeros(2)
    if centred.any():
        size = min(2, *centred.shape)
        model = PCA(size, svd_solver="full")
        points[:, :size] = model.fit_transform(centred)
        explained[:size] = model.explained_variance_ratio_
    return points, explained


def _tsne(centred: FloatArray, start: FloatArray, perplexity: float) -> FloatArray:
    """(rows, 2): neighbours stay neighbours; distances between groups mean little."""
    from sklearn.manifold import TSNE

    if not centred.any():
        return start
    model = TSNE(init=start / start[:, 0].std() * 1e-4, perplexity=perplexity, random_state=0)
    points: FloatArray = model.fit_transform(centred).astype(np.float64)
    if not np.isfinite(points).all():
        raise InputError("attribute-inference.projection: t-SNE diverged; use 'pca'")
    return points


def _legend(colour: Colour, rows: IntArray) -> dict[str, Any]:
    return {"classes": list(colour.classes), "labels": colour.codes[rows].tolist()}
