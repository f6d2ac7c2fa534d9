"""Declarations of metrics: what they refuse, and what stands in place of one that is missing."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from uedp_bench.api import Metric
from uedp_bench.components.metric import Declared, refuse_undeclared
from uedp_bench.components.registry import attacks, mechanisms, tasks
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
