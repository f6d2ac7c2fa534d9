"""What is known of metrics: ranges that honest results keep to, and which way is better."""

from __future__ import annotations

import pytest
from references import reference_results

from uedp_bench.leaderboard.metrics import metric, order
from uedp_bench.registry import tasks


@pytest.fixture(scope="module")
def measured():
    """(kind, name, value) of everything that the reference results measured."""
    return [
        (kind, name, estimate.value)
        for result in reference_results()
        for kind, groups in (("utility", [result.utility]), ("leakage", result.leakage.values()))
        for values in groups
        for name, estimate in values.items()
    ]


def test_all_that_we_measured_is_known_and_in_its_range(measured):
    for kind, name, value in measured:
        found = metric(kind, name)
        assert found.name == name
        assert found.about, name
        assert found.low <= value <= found.high, (name, value)


def test_a_metric_may_not_be_out_of_its_range_unseen():
    assert metric("utility", "perplexity").low == 1.0
    assert (metric("leakage", "auc").low, metric("leakage", "auc").high) == (0.0, 1.0)
    assert metric("leakage", "gain_average_precision").low == -1.0


@pytest.mark.parametrize("name", tasks.names())
def test_metrics_of_every_task_are_known_and_headlines_agree_on_what_is_better(name):
    task = tasks.get(name)
    assert all(metric("utility", each).about for each in task.utility)
    better = "higher" if task.larger_is_better else "lower"
    assert metric("utility", task.utility[0]).better == better


def test_an_exact_name_goes_before_a_pattern_and_the_rest_of_a_name_is_kept():
    assert metric("leakage", "empirical_privacy_majority").better is None
    assert metric("leakage", "empirical_privacy_f1").better == "higher"
    assert metric("leakage", "exposure_entity_spread_10").label == "exposure, spread 10"
    assert metric("cost", "attack_seconds").label == "attack s"


def test_a_name_that_nobody_knows_has_no_direction_and_no_range():
    found = metric("leakage", "odd_metric")
    assert (found.label, found.better, found.main) == ("odd metric", None, False)
    assert found.low == -found.high == float("-inf")
    assert order("leakage", "odd_metric") > order("leakage", "auc")
