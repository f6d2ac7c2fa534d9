"""Guarantees in Python, from parameters alone: `uedp-bench account` and `calibrate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components import registry
from uedp_bench.leaderboard.run_pages.in_words import promise
from uedp_bench.one_run.planning.account import DELTA
from uedp_bench.one_run.planning.account import account as account_for
from uedp_bench.one_run.planning.calibration import Solution, Target, default_parameter, solve
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism, PlannedPipeline
from uedp_bench.python_api.results import table_html
from uedp_bench.spec.descriptions import has_parameter, needs_parameter

COLUMNS = ("kind", "epsilon", "delta", "unit", "adjacency", "notion", "status", "reason")
NUMBERS = ("epsilon", "delta")


class Guarantees(tuple[Guarantee, ...]):
    """Guarantees of a mechanism, claims first; a table where they are shown."""

    __slots__ = ()

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Cells of the table, one line a guarantee, in the order of `COLUMNS`."""
        return [tuple(_cell(getattr(guarantee, name)) for name in COLUMNS) for guarantee in self]

    def proven(self, unit: str | None = None) -> Guarantee:
        """Proven guarantee for a unit, or for the only one.

        Statements of components that nobody reviewed are not among them.

        Raises:
            LookupError: if there are several, or none.
        """
        matches = [g for g in self if g.kind == "proven" and unit in (None, g.unit)]
        if len(matches) != 1:
            units = ", ".join(str(g.unit) for g in self if g.kind == "proven") or "none"
            raise LookupError(f"proven for the unit {unit}: {len(matches)}; there is: {units}")
        return matches[0]

    def __repr__(self) -> str:
        """One line a guarantee."""
        return "\n".join(" ".join(cell for cell in line if cell) for line in self.lines)

    def _repr_html_(self) -> str:
        """Proven guarantees in a sentence, and the table."""
        kinds = ["number" if name in NUMBERS else "" for name in COLUMNS]
        return f"<p>{escape(promise(self))}.</p>{table_html(COLUMNS, self.lines, kinds)}"


def account(
    mechanism: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    delta: float | None = None,
    spread: Iterable[int | None] | None = None,
    plugins: Iterable[Path | str] = (),
    **more: Any,
) -> Guarantees:
    """Account for a mechanism before training: its paper's claims, and what can be proven.

        account("user-dp", users=4000, users_per_round=400, rounds=100, noise_multiplier=1.1)

    Args:
        mechanism: mechanism, several in a row joined by +, or a published system.
        parameters: parameters of the mechanism, and public sizes; of several mechanisms
            "deidentify.detector" and the like.
        delta: delta at which guarantees are stated; 1e-5 by default.
        spread: points of the curve of guarantees for a user with an entity: how many other users
            mention it; None among them for all users.
        plugins: files that register mechanisms of your own.
        more: parameters, as keywords.

    Raises:
        InputError: for an unknown name or parameter, a value out of range, or a size that is
            missing.
    """
    registry.load_plugins(map(Path, plugins))
    settings, delta = _settings(mechanism, {**(parameters or {}), **more}, delta)
    several = "+" in mechanism
    planned = (PlannedPipeline if several else PlannedMechanism).from_settings(mechanism, settings)
    points: Sequence[int | None] | None = None if spread is None else list(spread)
    return Guarantees(account_for(planned, DELTA if delta is None else delta, points))


def calibrate(
    mechanism: str,
    epsilon: float,
    parameters: Mapping[str, Any] | None = None,
    *,
    parameter: str | None = None,
    delta: float | None = None,
    spread: int | None = None,
    plugins: Iterable[Path | str] = (),
    **more: Any,
) -> Solution:
    """Find the parameter of a mechanism that meets a target, as proven.

        calibrate("user-dp", 8, users=4000, users_per_round=400, rounds=100).value

    Args:
        mechanism: mechanism, or published system.
        epsilon: largest epsilon to be proven.
        parameters: parameters of the mechanism, and public sizes.
        parameter: parameter to solve for; the smallest noise_multiplier where there is one.
        delta: delta to be proven; 1e-5 by default.
        spread: point of the curve; the mechanism's own by default, else all users.
        plugins: files that register mechanisms of your own.
        more: parameters, as keywords.

    Raises:
        InputError: see `account`, and where no value meets the target.
    """
    registry.load_plugins(map(Path, plugins))
    wanted = default_parameter(mechanism) if parameter is None else parameter
    start = {wanted: 1} if needs_parameter(mechanism, wanted) else {}
    settings, delta = _settings(mechanism, {**start, **(parameters or {}), **more}, delta)
    planned = PlannedMechanism.from_settings(mechanism, settings, "calibrate")
    return solve(planned, Target(epsilon, DELTA if delta is None else delta, spread), wanted)


def _settings(
    mechanism: str, parameters: dict[str, Any], delta: float | None
) -> tuple[dict[str, Any], float | None]:
    """Parameters, and delta; a mechanism that has a parameter of this name gets the same one."""
    if delta is not None and has_parameter(mechanism, "delta"):
        parameters = {"delta": delta, **parameters}
    return parameters, parameters.get("delta", delta)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
