"""Fits of all families to the stored measurements, and what they predict of points left out."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from cost_model import TERMS, Fit, Floats, fitted, table


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
