"""Results of earlier schema versions, brought up to date before they are read.

Version 2 has the headline of a run, its floors and `learned`, and `accuracy` of
next-word counts known targets alone; the number of version 1 is now `accuracy_with_unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

SCHEMA_VERSION = 2

_HEADLINES: Mapping[str, tuple[str, bool, Mapping[str, str]]] = {
    "next-word": ("perplexity", True, {"unigrams": "unigram_perplexity"}),
    "text-classification": (
        "error",
        False,
        {"majority": "majority_error", "random": "random_error"},
    ),
    "word-substitution": ("misclassified", False, {}),
}
"""Headline metric of each task that version 1 had (less is better), True if it compares within one
vocabulary only, and the metrics that hold its floors."""


def migrated(value: Any) -> Any:
    """Bring a result (JSON values) to the newest version; return anything else as it is."""
    if not isinstance(value, Mapping) or value.get("schema_version", 1) != 1:
        return value
    value = {**value, "schema_version": SCHEMA_VERSION}
    task, utility = _part(value, "spec", "task").get("name"), _part(value, "utility")
    if task == "next-word" and "accuracy" in utility:
        names = {"accuracy": "accuracy_with_unknown"}
        value["utility"] = {names.get(name, name): number for name, number in utility.items()}
    if value.get("status") == "finished" and isinstance(task, str) and task in _HEADLINES:
        value = {**_judged(_HEADLINES[task], utility, bool(value.get("pretraining"))), **value}
    return value


def _judged(
    task_headline: tuple[str, bool, Mapping[str, str]], utility: Mapping[str, Any], pretrained: bool
) -> dict[str, Any]:
    """Headline, floors and `learned`; the model before private training was not kept then."""
    name, by_vocabulary, metrics = task_headline
    held = {floor: _number(_part(utility, at).get("value")) for floor, at in metrics.items()}
    floors = {floor: value for floor, value in held.items() if value is not None}
    headline = {"metric": name, "larger_is_better": False, "by_vocabulary": by_vocabulary}
    estimate = _part(utility, name)
    value, high = (_number(estimate.get(part)) for part in ("value", "high"))
    learned: bool | None = None
    if value is not None and floors:
        best = min(floors.values())
        if value >= best or (high is not None and high >= best):
            learned = False
        elif high is not None and not pretrained:
            learned = True
    return {"headline": headline, "floors": floors, "learned": learned}


def _part(value: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path, empty if there is none: validation reports its errors later."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number
