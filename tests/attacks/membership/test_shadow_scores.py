"""LiRA and RMIA: values of the reference implementations, and what must hold for any scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.attacks.membership.shadow_models import halves
from uedp_bench.attacks.membership.shadow_scores import (
    Confidence,
    calibrated,
    fit_normal,
    lira,
    lira_offline,
    lira_shrunk,
    logit_confidence,
    offline_slope,
    rmia,
    true_logprobs,
    without_ties,
)
from uedp_bench.errors import InputError
from uedp_bench.statistics.intervals import Scores, auc, auc_estimate


def ragged(rows):
    """(models, records) values and which of them are there, of lists by record."""
    size = max(map(len, rows))
    values, mask = np.zeros((size, len(rows))), np.zeros((size, len(rows)), dtype=bool)
    for i, row in enumerate(rows):
        values[: len(row), i], mask[: len(row), i] = row, True
    return values, mask


def test_densities_are_those_of_tensorflow_privacy():
    """Its variant `in`: minus the log density, a record without models gets mean parameters."""
    law = fit_normal(*ragged([[-1, 1], [0, 2], [0, 20], []]), own_variance=True)
    losses = -law.logpdf(np.array([1.0, 0.0, 0.0, 0.0]))
    assert losses == pytest.approx([1.41893853, 1.41893853, 3.72152363, 2.72537178], abs=1e-8)


def test_rmia_is_that_of_the_reference_implementation():
    confidence = np.array(
        [[0.9, 0.6, 0.7, 0.5], [0.4, 0.45, 0.35, 0.8], [0.75, 0.2, 0.9, 0.3],
         [0.55, 0.5, 0.52, 0.51]]
    )  # fmt: skip
    population = np.array(
        [[0.5, 0.48, 0.52, 0.49], [0.3, 0.35, 0.28, 0.33], [0.8, 0.7, 0.75, 0.72],
         [0.62, 0.66, 0.6, 0.64], [0.45, 0.4, 0.41, 0.44]]
    )  # fmt: skip
    member = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool)
    # Model 0 is attacked, 1 its complement; of 2 and 3, each record's reference did not see it.
    outside = confidence[:, 2:][~member[:, 2:]]
    scores = rmia(
        Confidence(confidence[:, 0], outside),
        Confidence(population[:, 0], population[:, 2:].mean(axis=1)),
        slope=0.3,
    )
    assert scores == pytest.approx([1.0, 0.2, 1.0, 0.6])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.integers(1, 5))
def test_ties_of_rmia_are_ordered_by_the_likelihood_ratio(ratios, size):
    ratio = np.array(ratios)
    records = Confidence(ratio / 2.0, np.zeros(len(ratio)))  # p is 1/2 at a = 0
    shares = rmia(records, Confidence(np.arange(size) / 2.0, np.zeros(size)), 0.0)
    scores = without_ties(shares, records.ratio(0.0), size)
    assert (np.abs(scores - shares) * size < 1).all()
    order = np.argsort(ratio)
    assert (np.diff(scores[order]) >= -1e-12).all()
    two = without_ties(np.ones(2), np.array([1.5, 2.0]), size)
    assert two[0] < two[1]


def test_one_variance_is_pooled_within_records():
    values = np.array([[0.0, 10.0], [2.0, 14.0], [4.0, 12.0]])
    law = fit_normal(values, np.ones((3, 2), dtype=bool), own_variance=False)
    assert law.mean == pytest.approx([2.0, 12.0])
    assert law.std == pytest.approx([2.0, 2.0])  # (8 + 8) / (6 - 2)


def test_online_lira_is_the_log_likelihood_ratio():
    shadows = np.array([[3.0, 0.0], [5.0, 2.0], [0.0, 7.0], [2.0, 9.0]])
    inside = np.array([[True, False]] * 2 + [[False, True]] * 2)
    target = np.array([4.0, 1.0])
    # Both sides have standard deviation sqrt(2); means 4 and 1, then 8 and 1.
    expected = [(3.0**2) / 4.0, -(7.0**2) / 4.0]
    assert lira(target, shadows, inside) == pytest.approx(expected)


def test_offline_lira_is_one_sided():
    shadows, outside = np.array([[-1.0] * 3, [1.0] * 3]), np.ones((2, 3), dtype=bool)
    far_below, middle, above = lira_offline(np.array([-9.0, 0.0, 1.0]), shadows, outside)
    assert far_below < middle == 0.0 < above


def test_the_slope_is_found_where_it_holds_exactly():
    outside = np.array([0.1, 0.4, 0.8])
    assert offline_slope(0.3 * outside + 0.7, outside) == pytest.approx(0.3)
    assert offline_slope(outside - 0.1, outside) == 1.0
    assert offline_slope(np.ones(3), np.ones(3)) == 1.0


def test_confidence_keeps_its_digits_near_one():
    logprobs = np.array([[-1e-30, -69.0, -np.inf], [-1.0, -0.5, -3.0]])
    logits = logit_confidence(logprobs, np.array([0, 2]))
    assert logits[0] == pytest.approx(69.0)
    assert logits[1] == pytest.approx(-3.0 - np.log(np.exp(-1.0) + np.exp(-0.5)))
    sure = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    assert logit_confidence(sure, np.array([0, 0])) == pytest.approx([100.0, -100.0])
    assert true_logprobs(sure, np.array([0, 0])) == pytest.approx([0.0, -100.0])


@pytest.mark.parametrize(
    ("logprobs", "labels", "message"),
    [
        (np.zeros((2, 1)), [0, 0], "1 classes"),
        (np.zeros((2, 3)), [0], "membership: 1 labels.*2 rows"),
        (np.zeros((2, 3)), [0, 3], "of 3 classes"),
        (np.zeros((2, 3)), [-1, 0], "of 3 classes"),
        (np.array([[0.0, 0.0], [np.nan, 0.0]]), [0, 0], "record 1 are NaN"),
    ],
)
def test_what_tells_nothing_is_refused(logprobs, labels, message):
    with pytest.raises(InputError, match=message):
        logit_confidence(logprobs, np.array(labels))


@given(st.integers(1, 20), st.integers(1, 6), st.integers(0, 2**32))
def test_every_user_trains_half_of_the_models_of_half_the_users(pairs, models, seed):
    who = halves(2 * pairs, 2 * models, np.random.default_rng(seed))
    assert (who.sum(axis=0) == models).all()
    assert (who.sum(axis=1) == pairs).all()


@given(st.integers(0, 2**32))
def test_scores_do_not_depend_on_the_order_of_records_or_models(seed):
    rng = np.random.default_rng(seed)
    target, shadows = rng.normal(size=8), rng.normal(size=(6, 8))
    inside = halves(8, 6, rng)
    rows, models = rng.permutation(8), rng.permutation(6)
    moved = shadows[models][:, rows], inside[models][:, rows]
    assert lira(target[rows], *moved) == pytest.approx(lira(target, shadows, inside)[rows])


def simulated(rng, users, leak, models=4):
    """AUC intervals of LiRA and RMIA, from two records a user with difficulties of their own.

    Args:
        rng: of one trial.
        users: of either side.
        leak: by how much training on a record raises its logit.
        models: shadow models.
    """
    owner = np.repeat(np.arange(2 * users), 2)
    member, inside = owner < users, halves(2 * users, models, rng)[:, owner]
    hard, noise = rng.normal(1.0, 2.0, len(owner)), rng.normal(size=(models + 1, len(owner)))
    odds = hard + noise + leak * np.concatenate([member[None], inside])
    sure = 1.0 / (1.0 + np.exp(-odds))
    outer = 1.0 / (1.0 + np.exp(-(rng.normal(1.0, 2.0, 500) + rng.normal(size=(models + 1, 500)))))
    means = [np.where(s, sure[1:], 0).sum(axis=0) / s.sum(axis=0) for s in (inside, ~inside)]
    scores = {
        "lira": lira(odds[0], odds[1:], inside),
        "lira_offline": lira_offline(odds[0], odds[1:], ~inside),
        "rmia": rmia(
            Confidence(sure[0], means[1]), Confidence(outer[0], outer[1:].mean(axis=0)),
            offline_slope(*means),
        ),
    }  # fmt: skip
    return {
        name: auc_estimate(
            Scores(values[member], owner[member]), Scores(values[~member], owner[~member]), rng
        )
        for name, values in scores.items()
    } | {"loss": auc(sure[0][member], sure[0][~member])}


def test_intervals_hold_one_half_where_training_data_are_ignored():
    trials = 200
    simulations = [simulated(np.random.default_rng([7, t]), 50, leak=0.0) for t in range(trials)]
    for name in ("lira", "lira_offline", "rmia"):
        held = sum(trial[name].low <= 0.5 <= trial[name].high for trial in simulations)
        # An interval that holds in 95 % of trials holds in fewer than 183 of 200 once in 100.
        assert held >= 183, name


def test_shadow_models_see_more_than_the_loss():
    simulations = [simulated(np.random.default_rng([8, t]), 200, leak=1.0) for t in range(10)]
    loss = np.mean([trial["loss"] for trial in simulations])
    for name in ("lira", "lira_offline", "rmia"):
        assert np.mean([trial[name].value for trial in simulations]) > loss + 0.03, name
        assert all(trial[name].low > 0.5 for trial in simulations), name


SHADOWS = np.array(
    [[-4, -5, -3, -2], [-4.4, -5.9, -3.1, -2.1], [-4.1, -5.1, -2.9, -2.2], [-4.5, -6.1, -3, -2.3]]
)
INSIDE = np.array([[1, 1, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
RELEASE = np.array([-4.05, -5.9, -3.05, -2.05])


def test_shrunk_lira_has_its_worked_values():
    scores = lira_shrunk(RELEASE, SHADOWS, INSIDE, np.ones(4))
    assert scores == pytest.approx([5.307347, -22.878093, -0.073327, 0.0], abs=1e-6)
    # Scores have no unit: not even what a value is the mean of changes one that all share.
    assert lira_shrunk(RELEASE, SHADOWS, INSIDE, np.full(4, 7.0)) == pytest.approx(scores)


def test_shrunk_lira_reads_a_common_gap_where_no_model_saw_a_unit():
    inside = INSIDE.copy()
    inside[:, 3] = False
    scores = lira_shrunk(RELEASE, SHADOWS, inside, np.ones(4))
    assert np.isfinite(scores).all()
    raised = lira_shrunk(RELEASE + np.eye(4)[3], SHADOWS, inside, np.ones(4))
    assert raised[3] > scores[3]


def _simulated(gap: float, spread: float, noise: float, models: int, rng: np.random.Generator):
    """Scores of 2,000 members and others by lira_shrunk and lira, of normal laws."""
    users = 4000
    inside, member = halves(users, models, rng), np.arange(users) < users // 2
    hard, gaps = rng.normal(-4.0, 1.0, users), np.maximum(rng.normal(gap, spread, users), 0.0)
    shadows = hard + gaps * inside + rng.normal(0.0, noise, inside.shape)
    target = hard + gaps * member + rng.normal(0.0, noise, users)
    values = lira_shrunk(target, shadows, inside, np.ones(users)), lira(target, shadows, inside)
    return [auc(each[member], each[~member]) for each in values]


@pytest.mark.parametrize("models", [2, 4])
def test_shrunk_lira_keeps_its_power_where_gaps_are_noise_and_where_they_are_not(models):
    rng = np.random.default_rng(models)
    private, plain = _simulated(0.2, 0.0, 1.0, models, rng)
    # One common gap, hidden in noise: nearly as if the gap were known, which has Phi(0.2 / sqrt 2)
    # less what the noise of the shadows' mean takes.
    assert private == pytest.approx(0.55, abs=0.02)
    assert private > plain + 0.01
    clear, other = _simulated(1.0, 0.7, 0.3, models, rng)
    assert clear > 0.9
    assert clear > other - 0.01


def test_shrunk_lira_tells_nobody_apart_where_nothing_leaks():
    rng = np.random.default_rng(0)
    areas = [_simulated(0.0, 0.0, 1.0, 4, rng)[0] for _ in range(20)]
    assert np.mean(areas) == pytest.approx(0.5, abs=0.01)


def test_calibrated_compares_with_models_that_did_not_see_the_record():
    scores = calibrated(RELEASE, SHADOWS, ~INSIDE)
    assert scores == pytest.approx([0.4, 0.1, -0.05, 0.05])
