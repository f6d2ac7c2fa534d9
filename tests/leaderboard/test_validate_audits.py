"""Lower bounds are what the scores of the canaries give; none is left out, lowered or moved."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from references import bundle_lines

from uedp_bench.leaderboard.validate import check


@cache
def refuting() -> str:
    """A reference audit that refutes a claim."""
    for line in bundle_lines("audits"):
        if any(
            guarantee["status"] == "refuted" for guarantee in json.loads(line.text)["guarantees"]
        ):
            return line.text
    raise LookupError("no audit refutes a claim")


def whitewashed(**bound: Any) -> dict[str, Any]:
    """The audit with other bounds, and without a word of what they refute."""
    data = json.loads(refuting())
    for guarantee in data["guarantees"]:
        if guarantee["status"] == "refuted":
            guarantee |= {"status": "given", "reason": ""}
    for each in data["lower_bounds"]:
        each |= bound
    return data


def places_of(tmp_path: Path, data: dict[str, Any]) -> set[str]:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return {problem.where for problem in check(path).errors}


@pytest.mark.parametrize(
    ("bound", "where"),
    [
        ({"epsilon": 0.01, "strict_epsilon": 0.01}, "lower_bounds.0.epsilon"),
        ({"strict_epsilon": None}, "lower_bounds.0.strict_epsilon"),
        ({"adjacency": "replace-one"}, "lower_bounds.0.adjacency"),
        ({"confidence": 0.5}, "lower_bounds.0.confidence"),
        ({"unit": "word"}, "lower_bounds"),
    ],
)
def test_bounds_that_are_changed_for_a_claim(tmp_path, bound, where):
    assert where in places_of(tmp_path, whitewashed(**bound))


def test_bounds_that_are_removed_or_added(tmp_path):
    data = whitewashed()
    assert places_of(tmp_path, data | {"lower_bounds": []}) == {"lower_bounds"}
    more = [*data["lower_bounds"], data["lower_bounds"][0]]
    assert "lower_bounds" in places_of(tmp_path, data | {"lower_bounds": more})


@pytest.mark.parametrize("field", ["metric", "missing", "scores", "delta", "counts", "empty"])
def test_metrics_and_scores_belong_together(tmp_path, field):
    data = copy.deepcopy(json.loads(refuting()))
    metrics, details = data["leakage"]["audit"], data["details"]["audit"]
    if field == "metric":
        metrics["auc"] |= {"value": 0.5, "low": 0.4, "high": 0.6}
    elif field == "missing":
        del metrics["epsilon_lower_bound"]
    elif field == "scores":
        details["scores"]["members"] = details["scores"]["nonmembers"]
    elif field == "delta":
        details["delta"] = 1e-3
    elif field == "counts":
        details["canaries"] += 1
    else:
        details["scores"]["members"] = []
    where = {
        "metric": "leakage.audit.auc.value",
        "missing": "leakage.audit.epsilon_lower_bound",
        "scores": "lower_bounds.0.epsilon",
        "delta": "details.audit.delta",
        "counts": "details.audit.canaries",
        "empty": "details.audit.scores.members",
    }[field]
    assert where in places_of(tmp_path, data)
