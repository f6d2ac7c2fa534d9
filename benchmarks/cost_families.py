"""Fits of all families to the stored measurements, and what they predict of points left out."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from cost_model import MEMORY, TERMS, Fit, Floats, fitted, table


@dataclass(frozen=True)
class Family:
    """A family with its measurements and its law.

    Attributes:
        name: see `cost_design`.
        fit: of the fitted points, computed in either way.
        points: all of them.
    """

    name: str
    fit: Fit
    points: list[dict[str, Any]]

    def of_role(self, role: str) -> list[dict[str, Any]]:
        """Its points of a role."""
        return [point for point in self.points if point["role"] == role]


def measured(point: Mapping[str, Any]) -> float:
    """Seconds of a point: the median of its turns."""
    return statistics.median(point["seconds"])


def families(stored: Mapping[str, Any]) -> tuple[Family, ...]:
    """A fit for each family that was measured."""
    return _families(json.dumps(stored["points"]))


@cache
def _families(points_as_json: str) -> tuple[Family, ...]:
    every = [point for point in json.loads(points_as_json) if point["seconds"]]
    found = []
    for name in dict.fromkeys(point["work"]["family"] for point in every):
        points = [point for point in every if point["work"]["family"] == name]
        used = [point for point in points if point["role"] == "fitted"]
        if len(used) > len(TERMS):
            found.append(Family(name, fitted(*arrays(used)), points))
    return tuple(found)


def arrays(points: list[dict[str, Any]]) -> tuple[Floats, Floats]:
    """(points, terms) counts and (points,) seconds."""
    seconds = np.array([measured(point) for point in points])
    return table([point["counts"] for point in points]), seconds


def with_memory(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Points whose memory was measured, and whose tensors were counted."""
    return [point for point in points if point["memory_mb"] and "held" in point["counts"]]


def memory_law(stored: Mapping[str, Any]) -> Fit:
    """One fit of memory in MB to the fitted points of all families: tensors are tensors."""
    return _memory_law(json.dumps(stored["points"]))


@cache
def _memory_law(points_as_json: str) -> Fit:
    every = with_memory(json.loads(points_as_json))
    return fitted(*memory([point for point in every if point["role"] == "fitted"]))


def memory(points: list[dict[str, Any]]) -> tuple[Floats, Floats]:
    """(points, 2) one and the MB that tensors hold, and (points,) MB that training adds."""
    used = np.array([statistics.median(point["memory_mb"]) for point in points])
    held = [{"one": 1.0, "held": point["counts"]["held"] / 1e6} for point in points]
    return table(held, MEMORY), used


def slower(here: Mapping[str, Any], there: Mapping[str, Any]) -> Floats:
    """(terms,) how many times as long calls, FLOPs, bytes and weights take on another CPU.

    Args:
        here: measurements there, of rates and phases.
        there: those that the law was fitted to.
    """
    call, flops, size = (
        rate(here, name) / rate(there, name) for name in ("call", "flops", "bytes")
    )
    weight = phase(here, "noise, seed")[0] / phase(there, "noise, seed")[0]
    return np.array([call, 1 / flops, 1 / size, weight])


@dataclass(frozen=True)
class Carried:
    """A point of another CPU, and what the law of the first one says of it.

    Attributes:
        family, way, role: of the point.
        predicted, low, high: seconds, by the law and how much slower the CPU is.
        measured: seconds.
    """

    family: str
    way: str
    role: str
    predicted: float
    low: float
    high: float
    measured: float


def carried(stored: Mapping[str, Any], other: Mapping[str, Any]) -> list[Carried]:
    """Points that were measured on another CPU; no fit has seen a measurement of that CPU."""
    times, found = slower(other, stored), []
    laws = {family.name: family for family in families(stored)}
    counts_of = {json.dumps(each["work"]): each["counts"] for each in stored["points"]}
    for point in other["points"]:
        law = laws.get(point["work"]["family"])
        if law is None or not point["seconds"]:
            continue
        point = {**point, "counts": counts_of[json.dumps(point["work"])]}
        counts, (seconds,) = arrays([point])
        (low,), (high,) = law.fit.of_new(counts * times)
        found.append(Carried(
            law.name, point["way"], point["role"], float(law.fit.seconds(counts * times)[0]),
            float(low), float(high), float(seconds),
        ))  # fmt: skip
    return found


def phase(stored: Mapping[str, Any], name: str) -> tuple[float, float, float]:
    """Median, least and most seconds of a phase a unit."""
    seconds = [each["seconds"] for each in stored["phases"][name]]
    return statistics.median(seconds), min(seconds), max(seconds)


def rate(stored: Mapping[str, Any], name: str) -> float:
    """The median of a device's rate."""
    return statistics.median(each[name] for each in stored["rates"])


def repeats(stored: Mapping[str, Any]) -> float:
    """Median over points of how far two turns differ: most over least seconds."""
    return statistics.median(
        max(point["seconds"]) / min(point["seconds"])
        for point in stored["points"]
        if len(point["seconds"]) > 1
    )


def of_a_user(point: Mapping[str, Any]) -> float:
    """Seconds of a user in a round of a point."""
    return measured(point) / float(point["work"]["users"])
