"""Declarations of a result: its own, else those of its components."""

from __future__ import annotations

from references import reference_results

from uedp_bench.api import Metric
from uedp_bench.components.metric import COSTS, Declared
from uedp_bench.components.registry import attacks
from uedp_bench.contracts.results import Headline
from uedp_bench.leaderboard.result_metrics import result_metrics

LIST = (Metric("auc", better="lower", no_leak=0.5, low=0.0, high=1.0),)


def test_stored_results_have_declared_metrics_within_their_limits():
    for result in reference_results():
        metrics = result_metrics(result)
        parts = [("utility", "", result.utility)]
        parts += [("leakage", *each) for each in result.leakage.items()]
        for kind, attack, values in parts:
            for name, estimate in values.items():
                one = metrics.metric(kind, name, attack)
                assert (one.name, bool(one.about)) == (name, True), (attack, name)
                assert one.low <= estimate.value <= one.high, (attack, name)


def test_an_older_result_is_read_by_its_components():
    result = next(one for one in reference_results() if "membership" in one.leakage)
    assert result.metrics is None
    assert result_metrics(result).leakage["membership"] == attacks.get("membership").metrics
    assert result_metrics(result).metric("cost", "train_seconds") == COSTS[0]


def test_own_declarations_go_before_those_of_components():
    result = next(one for one in reference_results() if "membership" in one.leakage)
    own = Declared(utility=(Metric("perplexity", "own"),), leakage={"membership": LIST})
    carried = result_metrics(result.model_copy(update={"metrics": own, "headline": None}))
    assert carried.metric("utility", "perplexity").label == "own"
    assert carried.metric("leakage", "auc", "membership").label == "auc"


def test_the_headline_ranks_in_its_direction_whatever_is_declared():
    result = reference_results()[0]
    for name in ("of_a_stranger", "x" * 10_000):
        ranked = Headline(metric=name, larger_is_better=True)
        strange = result.model_copy(update={"headline": ranked})
        one = result_metrics(strange).metric("utility", name)
        assert (one.better, one.main, one.name) == ("higher", True, name)
