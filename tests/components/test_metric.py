"""Declarations of metrics: what they refuse, and what stands in place of one that is missing."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError
from references import reference_results

from uedp_bench.api import Metric
from uedp_bench.components.metric import COSTS, Declared, declared, refuse_undeclared
from uedp_bench.components.registry import attacks, mechanisms, tasks
from uedp_bench.contracts.results import Headline
from uedp_bench.errors import InputError

LIST = (
    Metric("auc", better="lower", no_leak=0.5, low=0.0, high=1.0),
    Metric("recall_*", "recall of", better="lower"),
    Metric("recall_prior", "of the prior"),
    Metric("*_seconds", "* s"),
)
LEAKAGE = Declared(leakage={"attack": LIST})


def metric(name):
    return LEAKAGE.metric("leakage", name, "attack")


def test_stored_results_have_declared_metrics_within_their_limits():
    for result in reference_results():
        metrics = declared(result)
        parts = [("utility", "", result.utility)]
        parts += [("leakage", *each) for each in result.leakage.items()]
        for kind, attack, values in parts:
            for name, estimate in values.items():
                one = metrics.metric(kind, name, attack)
                assert (one.name, bool(one.about)) == (name, True), (attack, name)
                assert one.low <= estimate.value <= one.high, (attack, name)


@pytest.mark.parametrize("kind", [attacks, tasks, mechanisms])
def test_built_ins_explain_each_metric_once(kind):
    for name in kind.names():
        metrics = kind.get(name).metrics
        assert len({one.name for one in metrics}) == len(metrics), name
        assert all(one.label and one.about for one in metrics), name
        assert metrics or kind is mechanisms


@pytest.mark.parametrize(
    "fields",
    [
        {"better": "up"},
        {"low": 1.0, "high": 0.0},
        {"no_leak": 2.0, "high": 1.0},
        {"no_leak": math.nan},
        {"label": "x" * 61},
        {"about": "x" * 301},
        {"label": "a\nb"},
        {"about": "\u202eevil"},
        {"color": "red"},
    ],
)
def test_a_declaration_that_misleads_is_refused(fields):
    with pytest.raises((ValidationError, TypeError)):
        Metric("auc", **fields)


def test_an_exact_name_goes_before_a_pattern():
    assert metric("recall_prior").label == "of the prior"
    assert metric("recall_at_10").label == "recall of at 10"
    assert metric("train_seconds").label == "train s"
    assert LEAKAGE.place("leakage", "recall_at_10", "attack") == 1


@pytest.mark.parametrize("name", ["odd_metric", "", "*", "a**b", "x" * 10_000, "\x1b[31m"])
def test_an_undeclared_name_has_no_direction_and_no_limits(name):
    one = metric(name)
    assert one.name == name
    assert (one.better, one.no_leak, one.low, one.high) == (None, None, -math.inf, math.inf)
    assert one.label == name.replace("_", " ")
    assert LEAKAGE.place("leakage", name, "attack") == len(LIST)
    assert metric(f"recall_{name}x").name == f"recall_{name}x"


def test_a_component_gives_what_it_declares():
    refuse_undeclared("the attack mine", (), ["anything"])
    refuse_undeclared("the attack mine", LIST, ["auc", "recall_x"])
    with pytest.raises(InputError, match=r"mine.*'aux'.*'auc'"):
        refuse_undeclared("the attack mine", LIST, ["auc", "aux"])


def test_declarations_survive_json_without_defaults():
    text = LEAKAGE.model_dump_json()
    assert Declared.model_validate_json(text) == LEAKAGE
    first = json.loads(text)["leakage"]["attack"][0]
    assert first == {"name": "auc", "better": "lower", "low": 0.0, "high": 1.0, "no_leak": 0.5}


def test_an_older_result_is_read_by_its_components():
    result = next(one for one in reference_results() if "membership" in one.leakage)
    assert result.metrics is None
    assert declared(result).leakage["membership"] == attacks.get("membership").metrics
    assert declared(result).metric("cost", "train_seconds") == COSTS[0]


def test_own_declarations_go_before_those_of_components():
    result = next(one for one in reference_results() if "membership" in one.leakage)
    own = Declared(utility=(Metric("perplexity", "own"),), leakage={"membership": LIST})
    carried = declared(result.model_copy(update={"metrics": own, "headline": None}))
    assert carried.metric("utility", "perplexity").label == "own"
    assert carried.metric("leakage", "auc", "membership").label == "auc"


def test_the_headline_ranks_in_its_direction_whatever_is_declared():
    result = reference_results()[0]
    for name in ("of_a_stranger", "x" * 10_000):
        ranked = Headline(metric=name, larger_is_better=True)
        strange = result.model_copy(update={"headline": ranked})
        one = declared(strange).metric("utility", name)
        assert (one.better, one.main, one.name) == ("higher", True, name)
