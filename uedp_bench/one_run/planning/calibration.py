"""From a target that must be proven to the parameter of a mechanism that meets it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from uedp_bench.accounting.banded_factorization import WithCurve
from uedp_bench.accounting.events import PrivacyEvent, Protected, one_and_count
from uedp_bench.accounting.guarantee import CurvePoint, Guarantee, Sizes
from uedp_bench.accounting.ledger import proven, proven_at
from uedp_bench.accounting.noise_search import (
    at_least,
    at_most,
    largest_count,
    largest_value,
    smallest_noise,
)
from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.one_run.planning.account import point_of, with_users
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism
from uedp_bench.spec.descriptions import NOISE, has_parameter, needs_parameter

SOLVABLE = (
    NOISE, "users_per_round", "batch_size", "sampling_rate", "rounds", "steps", "epochs", "epsilon",
    "word_epsilon",
)  # fmt: skip
"""Parameters that can be solved for: epsilon falls with the first and grows with all others."""

_MOST = 10_000_000
"""The largest count that is tried."""

_POPULATION = {"users_per_round": "users", "batch_size": "records"}
"""Counts that cannot exceed a size."""


@dataclass(frozen=True)
class Target:
    """Guarantee that must be proven.

    Attributes:
        epsilon, delta: largest values allowed.
        spread: spread on a curve; None for the mechanism's own protected point, else everybody.
    """

    epsilon: float
    delta: float
    spread: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0.0):
            raise InputError(f"epsilon is {self.epsilon}; it must be finite and above 0")
        if not 0.0 < self.delta < 1.0:
            raise InputError(f"delta is {self.delta}; it must lie strictly between 0 and 1")


@dataclass(frozen=True)
class Solution:
    """A parameter that meets a target.

    Attributes:
        value: rounded to five digits on the side that meets the target: what is printed does.
        epsilon: proven there, at `point`.
        guarantee: guarantee of the unit, at its own point.
        point: point of the curve; None where there is no curve.
    """

    parameter: str
    value: float | int
    epsilon: float
    guarantee: Guarantee
    point: CurvePoint | None

    def __repr__(self) -> str:
        """Solution in one line."""
        guarantee = self.guarantee
        epsilon = f"a {guarantee.kind} epsilon of {self.epsilon:.4g} for the unit {guarantee.unit}"
        return f"{self.parameter} = {self.value}: {epsilon}, delta {guarantee.delta:g}"


def solve(mechanism: PlannedMechanism, target: Target, parameter: str = NOISE) -> Solution:
    """The smallest noise, or the largest other parameter, whose proven epsilon meets the target.

    Raises:
        InputError: if the mechanism has no such parameter, proves nothing, or cannot meet the
            target.
    """
    _check(mechanism, parameter)
    if parameter != NOISE and mechanism.chooses_noise:
        raise InputError(
            f"calibrate {mechanism.name} --solve {parameter} needs --set {NOISE}=N: without it the "
            f"mechanism chooses its noise anew for every {parameter}, and all meet its own target"
        )
    # Any start will do: defaults may not fit, and a mechanism need not calibrate itself first.
    start: dict[str, Any] = {parameter: 1}
    if "delta" in mechanism.fields:  # a delta of its own must be that of the target
        start["delta"] = target.delta
    sized, _ = with_users(mechanism.replaced(**start), [target.spread or 0])
    mechanism = cast("PlannedMechanism", sized)
    events, refusals = mechanism.plan()
    if refusals:
        raise InputError(f"nothing can be proven for {mechanism.name}: {refusals[0]}")
    # Whoever names a spread means a user together with an entity, where there is such a guarantee.
    groups = target.spread is not None and any(e.unit == "user-entity" for e in events)
    wanted = "user-entity" if groups else mechanism.unit
    point = _point([e for e in events if e.unit == wanted == "user-entity"], target.spread)
    unit, adjacency = next(
        ((e.unit, e.adjacency) for e in events if e.unit == wanted), (None, None)
    )
    if unit is None or adjacency is None:
        raise InputError(f"{mechanism.name} has no guarantee that a parameter could change")

    @cache
    def epsilon_of(value: float | int) -> float:
        planned = mechanism.replaced(**{parameter: value}).plan()[0]
        return proven_at(
            planned,
            unit=unit,
            adjacency=adjacency,
            delta=target.delta,
            point=Protected(spread=0) if point is None else point,
        )

    value: float | int
    if parameter == NOISE:
        value = smallest_noise(epsilon_of, target.epsilon)
        value = _printable(at_least(value), value, epsilon_of, target)
    elif mechanism.fields[parameter].annotation is int:
        most = _bound(mechanism, parameter)
        # The noise of uedp grows with its rounds, so that all users may cost less than one.
        whole = most < _MOST and epsilon_of(most) <= target.epsilon
        value = most if whole else largest_count(epsilon_of, target.epsilon, most)
    else:
        value = largest_value(epsilon_of, target.epsilon, _upper(mechanism, parameter))
        value = _printable(at_most(value), value, epsilon_of, target)
    planned = mechanism.replaced(**{parameter: value}).plan()[0]
    unreviewed = mechanism.unreviewed
    guarantees = proven(planned, delta=target.delta, points=(), unreviewed=unreviewed)
    guarantee = next(g for g in guarantees if g.unit == unit)
    epsilon = epsilon_of(value)
    curve_point = (
        None if point is None else Sizes.from_rounds(_rounds(planned)).shown(point, epsilon)
    )
    return Solution(parameter, value, epsilon, guarantee, curve_point)


def _printable(
    rounded: float, value: float, epsilon_of: Callable[[float], float], target: Target
) -> float:
    """The rounded value where it meets the target too, as it does unless epsilon jumps."""
    return rounded if epsilon_of(rounded) <= target.epsilon else value


def _rounds(events: Sequence[PrivacyEvent]) -> list[WithCurve]:
    bases = [one_and_count(event.event)[0] for event in events]
    return [base for base in bases if isinstance(base, WithCurve)]


def _point(events: Sequence[PrivacyEvent], spread: int | None) -> Protected | None:
    """The point at which the target is to hold; None if there is no curve."""
    if not _rounds(events):
        if spread is not None:
            raise InputError(f"spread {spread}: this guarantee has no curve")
        return None
    declared = next((event.protected for event in events if event.protected), None)
    return declared if spread is None and declared else point_of(events, spread)


def default_parameter(name: str, settings: Mapping[str, Any]) -> str:
    """The parameter that is solved for by default: noise, else a required one, else the first.

    Args:
        name: mechanism, or published system.
        settings: its parameters with a value.

    Raises:
        InputError: if that parameter has a value, which would be lost.
    """
    words = [word for word in SOLVABLE if has_parameter(name, word)]
    required = (word for word in words if needs_parameter(name, word))
    parameter = NOISE if NOISE in words or not words else next(required, words[0])
    if settings.get(parameter) is not None:
        raise InputError(
            f"calibrate {name}: {parameter} is {shown(settings[parameter])}, and is what is solved "
            f"for; leave it out, or name another to solve for (--solve): {', '.join(SOLVABLE)}"
        )
    return parameter


def _check(mechanism: PlannedMechanism, parameter: str) -> None:
    # The target of a mechanism that chooses its noise is no cost.
    targets = {"epsilon"} if NOISE in mechanism.fields else set()
    solvable = [name for name in SOLVABLE if name in mechanism.fields and name not in targets]
    if not solvable:
        raise InputError(f"calibrate {mechanism.name}: it has no parameter that is solved for")
    if parameter not in solvable:
        near = nearest(parameter, solvable)
        hint = f"did you mean {near!r}?" if near else f"choose from: {', '.join(solvable)}"
        raise InputError(f"calibrate {mechanism.name} cannot solve for {parameter!r}; {hint}")


def _bound(mechanism: PlannedMechanism, parameter: str) -> int:
    """The largest count that makes sense."""
    size = _POPULATION.get(parameter, "")
    size_of_population = mechanism.params.get(size)
    return int(size_of_population) if isinstance(size_of_population, int) else _MOST


def _upper(mechanism: PlannedMechanism, parameter: str) -> float:
    """The parameter's own upper bound, from its declared range."""
    limits = (getattr(rule, "le", None) for rule in mechanism.fields[parameter].metadata)
    return min((float(limit) for limit in limits if limit is not None), default=1e9)
