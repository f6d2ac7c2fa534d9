"""Declarations of metrics that a result carries, against those of the components of its spec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from uedp_bench.components.metric import Metric
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.validation.components import Named, components
from uedp_bench.leaderboard.validation.identity import is_installed
from uedp_bench.leaderboard.validation.report import Problem, error, note, shown

MOST_NAME = 100
"""Characters of a metric's name."""


def check_declarations(result: Result) -> Iterator[Problem]:
    """Problems where metrics are declared otherwise than their components do.

    A result from before there were declarations has none: those of the components stand.
    """
    own = result.metrics
    if own is None:
        return
    task, _, _, *others = components(result.spec)
    mechanisms = [each for each in others if each.where.startswith("spec.mechanism")]
    attacks = {each.ref.name: each for each in others if each.where.startswith("spec.attacks")}
    lists = [("metrics.utility", own.utility, [task]), ("metrics.cost", own.cost, mechanisms)]
    for name in dict.fromkeys([*result.leakage, *own.leakage]):
        where = f"metrics.leakage.{name}"
        if name not in result.leakage:
            yield error(where, "is of no attack that ran")
        elif name in attacks:
            lists.append((where, own.leakage.get(name, ()), [attacks[name]]))
    for where, listed, parts in lists:
        yield from _form(where, listed)
        if listed and all(each.component is not None for each in parts):
            yield from _compared(where, listed, parts, result)
    if result.headline is not None:
        ranks = "higher" if result.headline.larger_is_better else "lower"
        for at, one in enumerate(own.utility):
            if one.name == result.headline.metric and one.better != ranks:
                what = f"{shown(one.better)} is not the {ranks!r} of the headline"
                yield error(f"metrics.utility.{at}.better", what)


def _form(where: str, listed: Sequence[Metric]) -> Iterator[Problem]:
    names = [one.name for one in listed]
    for at, name in enumerate(names):
        if not 0 < len(name) <= MOST_NAME or not name.isprintable():
            what = f"{shown(name)} is no name of 1 to {MOST_NAME} printable characters"
            yield error(f"{where}.{at}.name", what)
        if name in names[:at]:
            yield error(f"{where}.{at}.name", f"{shown(name)} is there twice")


def _compared(
    where: str, listed: Sequence[Metric], parts: Sequence[Named], result: Result
) -> Iterator[Problem]:
    """Problems where declarations are not those of the components, which are installed."""
    declared: dict[str, Metric] = {}
    for each in parts:
        declared |= {one.name: one for one in each.component.metrics} if each.component else {}
    who = " and ".join(each.ref.name for each in parts)
    same = all(is_installed(result, each) for each in parts)
    if same and [one.name for one in listed] != list(declared):
        yield error(where, f"does not declare the metrics that {who} declares: {_MEND}")
        return
    for at, one in enumerate(listed):
        if (theirs := declared.get(one.name)) is None or theirs == one:
            continue
        field, value, right = _difference(one, theirs)
        what = f"{shown(value)} is not the {shown(right)} that {who} declares"
        if same or one.better != theirs.better:
            yield error(f"{where}.{at}.{field}", f"{what}: {_MEND}")
        else:
            yield note(f"{where}.{at}.{field}", f"{what} in the version that is installed")


_MEND = "leave the entry out, and its own declarations stand"


def _difference(one: Metric, other: Metric) -> tuple[str, Any, Any]:
    """The first field in which two declarations differ, direction before all others."""
    mine, theirs = asdict(one), asdict(other)
    field = next(name for name in ("better", *mine) if mine[name] != theirs[name])
    return field, mine[field], theirs[field]
