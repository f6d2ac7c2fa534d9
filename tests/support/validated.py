"""Reference results to change, and what validation says of them then."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.bounds.ceilings import JudgedUsers, ceilings
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import Estimate
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.validate import check
from uedp_bench.leaderboard.validation.report import Report
from uedp_bench.spec.identity import identity_parts
from uedp_bench.statistics.intervals import fraction_estimate

REFERENCE = Path(__file__).parents[2] / "leaderboard" / "results"
GONE = object()
"""In place of a value: the field is removed."""

Data = dict[str, Any]


@cache
def reference(mechanism: str, folder: str = "quickstart", seed: int = 1) -> str:
    """A reference result of one mechanism as text, as the installed versions would write it."""
    for result in load_results([REFERENCE / folder]):
        names = [ref.name for ref in result.spec.mechanism]
        if (names, result.spec.seed) == ([mechanism], seed):
            data = result.model_dump(mode="json")
            like = {"accuracy": "accuracy_with_unknown", "perplexity_known": "perplexity",
                    "constant_accuracy": "accuracy_with_unknown"}  # fmt: skip
            for name, other in like.items() if result.spec.task.name == "next-word" else ():
                data["utility"].setdefault(name, data["utility"][other])
            users = data["details"].get("membership", {}).get("users")
            if users:
                metrics = result.leakage["membership"]
                members = _counted(metrics["tpr_user_at_1pct_fpr"], users["members"])
                judged = JudgedUsers(**users | {"members": members}, most_records=1)
                limits = ceilings(metrics, judged, result.guarantees, result.events)
                data["details"]["membership"]["judged"] = judged.model_dump()
                data["ceilings"] = {"membership": limits} if limits else {}
            parts = identity_parts(result.spec, data["provenance"]["corpus"]["fingerprint"])
            data["id"], data["group"] = identity_of(parts)
            data["provenance"]["identity"] = parts
            return json.dumps(data)
    raise LookupError(mechanism)


def _counted(rate: Estimate, most: int) -> int:
    """Users whose exact interval a rate has; other attacks may have taken some."""
    for users in range(most, 0, -1):
        own = fraction_estimate(round(rate.value * users), users)
        if own.low == pytest.approx(rate.low) and own.high == pytest.approx(rate.high):
            return users
    raise LookupError("no number of users has this interval")


def changed(data: Data, where: str, value: Any) -> Data:
    """The data with one field set, or removed; lists take numbers, and their length to append."""
    out = copy.deepcopy(data)
    *parents, last = where.split("/")
    inner: Any = out
    for part in parents:
        inner = inner[int(part) if isinstance(inner, list) else part]
    if isinstance(inner, list):
        inner[int(last) : int(last) + 1] = [] if value is GONE else [value]
    elif value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return out


def checked(tmp_path: Path, data: Any) -> Report:
    path = tmp_path / "result.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return check(path)


def errors(report: Report) -> dict[str, str]:
    return {problem.where: problem.what for problem in report.errors}
