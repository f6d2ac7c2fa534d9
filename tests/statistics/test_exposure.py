"""Exposure against published values, and its distribution under the null."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import skewnorm

from uedp_bench.errors import InputError
from uedp_bench.statistics.exposure import NULL_MEAN, exposure_ceiling, extrapolated_exposure, ranks


def rank_exposure(secrets, references):
    return math.log2(np.size(references)) - np.log2(ranks(secrets, references))


def test_rank_exposure_of_known_losses() -> None:
    exposures = rank_exposure([0.0, 0.1, 3.5, 20.0], np.arange(1.0, 17.0))
    assert exposures == pytest.approx([4.0, 4.0, 2.0, math.log2(16 / 17)])


def test_a_tie_with_a_reference_costs_a_rank() -> None:
    assert rank_exposure([1.0], [1.0, 2.0, 3.0, 4.0]) == pytest.approx([1.0])


def test_extrapolated_exposure_has_the_reference_values() -> None:
    references = skewnorm.rvs(4, 0, 1, size=10000, random_state=0)
    exposure = extrapolated_exposure([-0.2, 0.0], references)
    assert exposure.exposure == pytest.approx([5.394672, 3.646323], abs=1e-5)
    assert exposure.ks_pvalue > 0.05


def test_extrapolation_does_not_underflow_far_below_the_references() -> None:
    losses = np.random.default_rng(0).normal(60.0, 5.0, 1000)
    exposures = extrapolated_exposure([0.5, 20.0, 60.0], losses).exposure
    assert np.isfinite(exposures).all()
    assert exposures[0] > exposures[1] > 30.0
    assert exposures[2] == pytest.approx(1.0, abs=0.1)


def test_a_bad_fit_shows_in_the_p_value() -> None:
    draw = np.random.default_rng(1)
    two_hills = np.concatenate([draw.normal(0, 1, 500), draw.normal(20, 1, 500)])
    assert extrapolated_exposure([0.0], two_hills).ks_pvalue < 1e-3


def test_exposure_of_unseen_secrets_has_the_null_mean() -> None:
    draw = np.random.default_rng(2)
    exposures = np.array([rank_exposure(draw.normal(size=1), draw.normal(size=1024))[0]
                          for _ in range(2000)])  # fmt: skip
    assert exposures.mean() == pytest.approx(NULL_MEAN, abs=4 * 1.44 / math.sqrt(2000))


def test_nan_and_constant_references_are_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        rank_exposure([math.nan], [1.0])
    with pytest.raises(InputError, match="vary"):
        extrapolated_exposure([1.0], [2.0, 2.0])


def test_the_ceiling_of_exposure_holds_for_randomised_response_and_is_met_at_its_ends() -> None:
    # The secret is told with the probability that (epsilon, 0) allows, and else any word.
    words, epsilon = 64, 2.0
    accuracy = (math.exp(epsilon) - 1.0) / (math.exp(epsilon) + words - 1.0)
    ranks = np.arange(1, words + 1)
    mean = accuracy * 6.0 + (1.0 - accuracy) * float(np.mean(6.0 - np.log2(ranks)))
    assert mean < exposure_ceiling(epsilon, 0.0, 6.0) < 6.0
    assert exposure_ceiling(0.0, 0.0, 60.0) == pytest.approx(NULL_MEAN)
    assert exposure_ceiling(math.inf, 0.0, 6.0) == 6.0
    assert exposure_ceiling(0.0, 1.0, 6.0) == 6.0
    steps = np.linspace(0.0, 6.0, 200_001)
    bound = np.minimum(1.0, math.exp(1.5) * 2.0**-steps + 0.01)
    assert exposure_ceiling(1.5, 0.01, 6.0) == pytest.approx(np.trapezoid(bound, steps), abs=1e-6)
    with pytest.raises(InputError, match="epsilon -1"):
        exposure_ceiling(-1.0, 0.0, 6.0)
