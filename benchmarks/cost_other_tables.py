"""Tables of `docs/cost.md` on points that no choice was made by, and on memory."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from cost_design import FRESH
from cost_families import Carried, carried, memory, memory_law, phase, rate, with_memory
from cost_model import Floats, interval_of
from cost_tables import between, rows, sig

Stored = Mapping[str, Any]

GB = 1e9
"""Bytes."""

FLOAT = 4
"""Bytes of a weight."""


def off(ratios: Sequence[float]) -> str:
    """How far measurements lie from predictions: the median and the worst."""
    each = np.exp(np.abs(np.log(ratios))) - 1
    return f"Half are off by {100 * np.median(each):.0f} % or less, the worst by {_most(each)} %"


def _most(each: Any) -> str:
    return f"{100 * each.max():.0f}"


def other_cpu(stored: Stored) -> str:
    """What was measured on the other CPU, and how much slower it is."""
    other = stored["other"]
    done = [point for point in other["points"] if point["seconds"]]
    fresh = sum(point["role"] in FRESH for point in done)
    lines = [
        [what, sig(rate(stored, name) * unit), sig(rate(other, name) * unit)]
        for what, name, unit in (
            ("products of float32, GFLOP a second", "flops", 1e-9),
            ("sums of long vectors, GB a second", "bytes", 1e-9),
            ("a call of torch, µs", "call", 1e6),
        )
    ]
    noise = [sig(phase(each, "noise, seed")[0] * 1e9) for each in (stored, other)]
    lines.append(["noise, ns a weight", *noise])
    load = statistics.median(other["load"])
    return (
        rows(["best of", "first CPU", "other CPU"], lines)
        + f"\n{len(done)} points were measured on the other CPU, each once, {fresh} of them fresh; "
        f"the median load was {load:.0f}.\n"
    )


def fresh(stored: Stored) -> str:
    """Fresh points on the other CPU, a line each; below, how far others lie."""
    every = carried(stored, stored["other"])
    chosen = [each for each in every if each.role in FRESH]
    lines = [
        [each.family, each.way.split()[0], each.role.removeprefix("fresh, "), sig(each.predicted),
         between(each.low, each.high), sig(each.measured), f"{each.measured / each.predicted:.2f}"]
        for each in chosen
    ]  # fmt: skip
    head = ["family", "local steps", "which", "predicted, s", "95 % interval", "measured, s",
            "measured / predicted"]  # fmt: skip
    rest = [each for each in every if each.role not in FRESH]
    said = [f"Fresh points: {_inside(chosen)}."]
    said += [f"Other points on this CPU: {_inside(rest)}."] if rest else []
    return rows(head, lines) + "\n" + "\n".join(said) + "\n"


def _inside(points: Sequence[Carried]) -> str:
    inside = sum(each.low <= each.measured <= each.high for each in points)
    ratios = [each.measured / each.predicted for each in points]
    middle = float(np.median(ratios))
    return (
        f"{inside} of {len(points)} lie in their interval. {off(ratios)}. The median of measured "
        f"over predicted is {middle:.2f}"
    )


def memory_laws(stored: Stored) -> str:
    """The law of memory, and how far points lie that it was not fitted to."""
    law = memory_law(stored)
    ends = interval_of(law.resampled.T)
    cells = [
        f"{sig(term)} ({between(low, high)})"
        for term, low, high in zip(law.terms, *ends, strict=True)
    ]
    found = rows(
        ["fitted points", "e, MB", "f, MB a MB held", "off by, %"],
        [[str(len(law.spread)), *cells, f"{100 * (np.exp(_near(law.spread)) - 1):.0f}"]],
    )
    counts = {json.dumps(each["work"]): each["counts"] for each in stored["points"]}
    there = [
        {**each, "counts": counts[json.dumps(each["work"])]} for each in stored["other"]["points"]
    ]
    held, used = memory(with_memory([each for each in there if each["role"] in FRESH]))
    (low, high), ratios = law.of_new(held), used / law.seconds(held)
    inside = int(((low <= used) & (used <= high)).sum())
    return (
        f"{found}\n{inside} of {len(used)} fresh points, on the other CPU, lie in their interval. "
        f"{off(ratios.tolist())}.\n"
    )


def _near(spread: Floats) -> float:
    return float(np.median(np.abs(np.log(spread))))


def held_by_users(stored: Stored) -> str:
    """MB that tensors hold, by users of a round."""
    table: dict[str, dict[int, float]] = {}
    for way, users, held in stored["held"]["users"]:
        table.setdefault(way, {})[users] = held
    users = list(next(iter(table.values())))
    lines = [[way, *(sig(held[each] / 1e6) for each in users)] for way, held in table.items()]
    return rows(["MB held, by users of a round", *map(str, users)], lines)


def held_by_rows(stored: Stored) -> str:
    """GB of GPT-2 small by rows of a local step, weights included."""
    weights = FLOAT * stored["plan"]["parameters"]
    tokens = stored["plan"]["work"]["tokens"]
    held = stored["held"]["rows"]
    head = [f"rows of {tokens} tokens", *(str(each) for each, _ in held)]
    return rows(head, [["GB held", *(sig((each + weights) / GB) for _, each in held)]])


TABLES: dict[str, Callable[[Stored], str]] = {
    "other cpu": other_cpu,
    "fresh": fresh,
    "memory laws": memory_laws,
    "held by users": held_by_users,
    "held by rows": held_by_rows,
}
