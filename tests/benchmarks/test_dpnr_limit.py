"""No classifier is more accurate through Laplace noise than the limit, and some come close."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dpnr_limit import accuracy_limit, at_most, two_class_limit
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.errors import InputError

pytestmark = pytest.mark.long

ROWS = 20_000


def best_guess(
    points: np.ndarray, shares: np.ndarray, scale: float, seed: int = 0, rows: int = ROWS
) -> float:
    """Accuracy of the Bayes classifier whose classes lie at the points (classes, k)."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(shares), size=rows, p=shares)
    shown = points[truth] + rng.laplace(scale=scale, size=(rows, points.shape[1]))
    logs = [
        np.log(s) - np.abs(shown - at).sum(1) / scale for at, s in zip(points, shares, strict=True)
    ]
    return float((np.argmax(logs, axis=0) == truth).mean())


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.5, 0.6, 0.9])
def test_one_coordinate_has_a_closed_form(scale: float, share: float) -> None:
    """The threshold on one coordinate: class 0 at 0, class 1 at 1."""
    step = scale * math.log(share / (1 - share))
    at = min(max((1 + step) / 2, 0.0), 1.0)
    if step >= 1:
        expected = share
    else:
        expected = share * (1 - math.exp(-at / scale) / 2)
        expected += (1 - share) * (1 - math.exp(-(1 - at) / scale) / 2)
    assert two_class_limit(1, scale, share) == pytest.approx(expected, abs=1e-6)
    assert two_class_limit(1, scale, 1 - share) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.578, 0.794])
@pytest.mark.parametrize(("dimension", "scale"), [(2, 1.0), (24, 4.0), (384, 20.0)])
def test_the_likelihood_ratio_of_opposite_corners_reaches_it(
    dimension: int, scale: float, share: float
) -> None:
    corners = np.stack([np.zeros(dimension), np.ones(dimension)])
    accuracy = best_guess(corners, np.array([share, 1 - share]), scale)
    assert accuracy == pytest.approx(
        two_class_limit(dimension, scale, share), abs=4 * 0.5 / ROWS**0.5
    )


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 5), st.integers(1, 6), st.sampled_from([0.2, 1.0, 4.0]), st.integers(0, 10**6),
    st.booleans(),
)  # fmt: skip
def test_no_encoder_of_several_classes_passes_it(
    classes: int, dimension: int, scale: float, seed: int, at_corners: bool
) -> None:
    rng = np.random.default_rng(seed)
    shares = tuple(rng.dirichlet(np.ones(classes)).tolist())
    points = rng.random((classes, dimension))
    points = np.rint(points) if at_corners else points
    limit = accuracy_limit(dimension, scale, shares)
    assert best_guess(points, np.array(shares), scale, seed, 4000) <= limit + 4 * 0.5 / 4000**0.5
    assert max(shares) - 1e-9 <= limit <= 1
    assert limit <= accuracy_limit(dimension, scale, at_most(max(shares))) + 1e-3


def test_much_noise_leaves_the_majority_and_none_leaves_everything() -> None:
    shares = (0.4, 0.3, 0.2, 0.1)
    assert accuracy_limit(16, 1e5, shares) == pytest.approx(0.4, abs=1e-3)
    assert accuracy_limit(16, 0.01, shares) == pytest.approx(1.0, abs=1e-6)
    between = [accuracy_limit(16, scale, shares) for scale in (0.5, 2.0, 8.0, 32.0)]
    assert between == sorted(between, reverse=True)
    more = [accuracy_limit(k, 8.0, shares) for k in (1, 8, 64, 512)]
    assert more == sorted(more)


def test_printed_accuracies_that_independent_noise_does_not_allow() -> None:
    """Lyu, He, Li 2020, Table 2: k = 768; AG's shares from its file, else the largest share."""
    ag = tuple(count / 14571 for count in (8446, 5412, 607, 106))
    assert accuracy_limit(768, 20, ag) < 0.74 < 0.8087
    assert accuracy_limit(768, 20, at_most(0.7940)) < 0.84 < 0.8565
    assert accuracy_limit(768, 20, at_most(0.3416)) < 0.61 < 0.9669
    assert accuracy_limit(768, 10, at_most(0.3416)) < 0.84 < 0.9639


def test_the_worst_shares() -> None:
    assert at_most(0.5) == (0.5, 0.5)
    assert at_most(1.0) == (1.0,)
    assert at_most(0.3416) == pytest.approx((0.3416, 0.3416, 0.3168))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: two_class_limit(0, 1.0, 0.5), "dimension is 0"),
        (lambda: two_class_limit(1, 0.0, 0.5), "scale is 0.0"),
        (lambda: two_class_limit(1, math.nan, 0.5), "scale is nan"),
        (lambda: two_class_limit(1, 1.0, 1.5), "between 0 and 1"),
        (lambda: accuracy_limit(1, 1.0, (0.5, 0.4)), "add up to 0.9"),
        (lambda: accuracy_limit(1, 1.0, ()), "between 0 and 1"),
        (lambda: at_most(0.0), "largest is 0.0"),
    ],
)
def test_bad_input_is_one_line(call, message) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)
