"""A map of released representations in two dimensions, coloured by what an attacker is after.

The picture of Lyu, He and Li 2020 (Figure 4): t-SNE of representations by private attribute. A map
is for looking at. What an attacker can infer is measured in all coordinates, not on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.attacks.representations.empirical_privacy import RELEASED

if TYPE_CHECKING:
    from uedp_bench.corpus import FloatArray, IntArray

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
        "points": _rounded(points),
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
    # What does not vary says nothing; the rounding of its mean must not become a picture.
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


def _rounded(values: FloatArray) -> list[list[float]]:
    """Nested lists of numbers with four significant digits."""
    return [[float(f"{value:.{DIGITS}g}") for value in row] for row in values.tolist()]
