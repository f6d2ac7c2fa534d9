"""The record of how hyper-parameters were chosen, and what the choice cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.component import Number
from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.validation.derived_from_spec import (
    Unknown,
    ask,
    held_out_users,
    pipeline_of,
    sizes_of,
)
from uedp_bench.leaderboard.validation.proofs import close, same_epsilons, worth
from uedp_bench.leaderboard.validation.report import Problem, error, note, place, plain, shown
from uedp_bench.one_run.trials import trials_of
from uedp_bench.spec.grid import tried_runs

MOST_SETTINGS = 1000
"""Settings of a grid whose cost is computed again."""


class _Entry(BaseModel):
    """The record of one proven guarantee."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    unit: str
    adjacency: str
    delta: float
    epsilon_of_one_trial: Number
    epsilon: Number
    charged: bool
    reason: str


class _Record(BaseModel):
    """Fields of the record that the declaration in the spec does not have."""

    model_config = ConfigDict(frozen=True, extra="allow")
    settings: int
    seeds: int | None = None
    method: str
    guarantees: tuple[_Entry, ...]


def check_selection(result: Result) -> Iterator[Problem]:
    """Problems where proofs do not cost what the choice of their settings costs."""
    selection = result.spec.selection
    if selection is None or result.status == "failed":
        if result.selection:
            yield error("selection", "is there, and the spec declares none")
        return
    try:
        record = _Record.model_validate(result.selection)
    except ValidationError as wrong:
        for each in wrong.errors(include_url=False, include_context=False):
            yield error(place(("selection", *each["loc"])), each["msg"])
        return
    declared = selection.model_dump(mode="json", exclude_none=True)
    expected = {**declared, "settings": selection.size}
    if record.seeds is not None or selection.seeds is not None:
        expected["seeds"] = selection.each
    for name, value in expected.items():
        if result.selection.get(name) != value:
            yield error(f"selection.{name}", "is not what spec.selection declares")
    if record.seeds is None and any(entry.charged for entry in record.guarantees):
        what = "is of a version whose runs of one seed drew the same noise, so its trials do not"
        yield error("selection", f"{what} compose and nothing is charged for; run it again")
    yield from _entries(result, record, selection)


def _entries(result: Result, record: _Record, selection: Selection) -> Iterator[Problem]:
    entries = {(e.unit, e.adjacency): (at, e) for at, e in enumerate(record.guarantees)}
    try:
        single = {(g.unit, g.adjacency): g for g in worth(result.events, result.spec.delta)}
    except Exception:  # the check of events said it already
        return
    charged: dict[tuple[str, str], Guarantee] | Unknown | None = None
    for number, guarantee in enumerate(result.guarantees):
        key, where = (guarantee.unit, guarantee.adjacency), f"guarantees.{number}"
        if (
            guarantee.kind == "claimed"
            or guarantee.status != "given"
            or math.isinf(guarantee.epsilon)
        ):
            continue
        if guarantee.notion == "simulation":
            continue  # what nobody sees costs nothing to choose among
        if key not in entries:
            yield error("selection.guarantees", f"lack {guarantee.unit} ({guarantee.adjacency})")
            continue
        at, entry = entries[key]
        field = f"selection.guarantees.{at}"
        alone = single.get(key)
        if alone is None or alone.status == "refused":
            continue  # another check said it already
        if not close(entry.epsilon_of_one_trial, alone.epsilon):
            what = f"{shown(entry.epsilon_of_one_trial)} is not the {shown(alone.epsilon)}"
            yield error(f"{field}.epsilon_of_one_trial", f"{what} that the events are worth")
        for name in ("epsilon", "delta"):
            if not close(getattr(entry, name), getattr(guarantee, name)):
                what = f"{shown(getattr(entry, name))} is not that of {where}"
                yield error(f"{field}.{name}", what)
        if not entry.charged:
            yield from _not_charged(where, field, guarantee, entry)
            yield from same_epsilons(where, guarantee, alone)
            continue
        if charged is None:
            charged = _charged(result, selection, tuple(single.values()))
        yield from _cost(where, guarantee, alone, charged)


def _not_charged(where: str, field: str, guarantee: Guarantee, entry: _Entry) -> Iterator[Problem]:
    if not entry.reason:
        yield error(f"{field}.reason", "is empty: what is not charged has a reason")
    if not any("not charged" in text for text in guarantee.assumptions):
        yield error(f"{where}.assumptions", "do not say that the choice of settings is not charged")


def _cost(
    where: str,
    guarantee: Guarantee,
    alone: Guarantee,
    charged: dict[tuple[str, str], Guarantee] | Unknown,
) -> Iterator[Problem]:
    """A charged proof against its charge computed again; it is never below that of one trial."""
    if isinstance(charged, Unknown):
        if guarantee.epsilon < alone.epsilon and not close(guarantee.epsilon, alone.epsilon):
            what = f"{shown(guarantee.epsilon)} is less than {shown(alone.epsilon)} of one trial"
            yield error(f"{where}.epsilon", what)
        if charged.impossible:
            yield error("spec.selection", charged.reason)
        else:
            yield note(f"{where}.epsilon", f"its charge is not computed again: {charged.reason}")
        return
    again = charged.get((guarantee.unit, guarantee.adjacency))
    if again is not None:
        origin = "its events and the choice of settings"
        yield from same_epsilons(where, guarantee, again, origin)


def _charged(
    result: Result, selection: Selection, single: tuple[Guarantee, ...]
) -> dict[tuple[str, str], Guarantee] | Unknown:
    """The proofs with the charge for all settings that were tried."""
    if selection.size > MOST_SETTINGS:
        return Unknown(f"it has {selection.size} settings")
    return ask(lambda: _charge(result, selection, single))


def _charge(
    result: Result, selection: Selection, single: tuple[Guarantee, ...]
) -> dict[tuple[str, str], Guarantee]:
    from uedp_bench.accounting.selection import charge

    spec = result.spec
    sizes: Any = sizes_of(spec.source, held_out_users(result), spec.task, spec.clients)
    try:
        pipelines = [pipeline_of(run.mechanism, run.task) for run in tried_runs(result.spec)]
    except InputError as reason:
        raise InputError(plain(str(reason), 200)) from None
    charged, _ = charge(single, trials_of(selection, pipelines, sizes))
    return {(g.unit, g.adjacency): g for g in charged}
