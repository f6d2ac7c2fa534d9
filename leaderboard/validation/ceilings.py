"""Ceilings of metrics computed again from proofs and events, and metrics compared with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from uedp_bench.bounds.ceilings import JudgedUsers, ceilings, check_measured
from uedp_bench.components import registry
from uedp_bench.contracts.recorded_identity import parts_of
from uedp_bench.contracts.results import Estimate, Result
from uedp_bench.errors import PrivacyError, UedpBenchError
from uedp_bench.leaderboard.validation.proofs import close
from uedp_bench.leaderboard.validation.report import Problem, error, plain, shown
from uedp_bench.statistics.intervals import fraction_estimate

_OFF = 1e-6
"""By how much a count may differ from a whole number, and an interval from its own."""


def check_ceilings(result: Result) -> Iterator[Problem]:
    """Problems where a ceiling is not what proofs allow, or a metric lies above it."""
    for attack in result.ceilings.keys() - result.leakage.keys():
        yield error(f"ceilings.{attack}", "is of no attack that ran")
    for attack, metrics in result.leakage.items():
        judged = JudgedUsers.from_details(result.details.get(attack, {}))
        if judged is None:
            yield from _unjudged(result, attack)
            continue
        yield from _counts(attack, metrics, judged)
        again = ceilings(metrics, judged, result.guarantees, result.events)
        yield from _compared(attack, result.ceilings.get(attack, {}), again)
        try:
            check_measured(metrics, judged, result.guarantees, result.events, attack)
        except PrivacyError as reason:
            yield error(f"leakage.{attack}", plain(str(reason), 400))


def _unjudged(result: Result, attack: str) -> Iterator[Problem]:
    where = f"details.{attack}.judged"
    if "judged" in result.details.get(attack, {}):
        yield error(where, "has no numbers of members, non_members and most_records")
    elif attack in result.ceilings or (result.leakage[attack] and _must_judge(result, attack)):
        yield error(where, "is missing: ceilings depend on it")


def _must_judge(result: Result, attack: str) -> bool:
    """True if the recorded version of an attack says how many users it judged."""
    parts = parts_of(result)
    versions = [] if parts is None else [p.version for p in parts.attacks if p.name == attack]
    try:
        kind: Any = registry.attacks.get(attack)
    except UedpBenchError:
        return False
    since: int | None = kind.judges_users_since
    return since is not None and max(versions, default=0) >= since


def _counts(attack: str, metrics: Mapping[str, Estimate], judged: JudgedUsers) -> Iterator[Problem]:
    """Problems where rates of users are not those of so many members."""
    for name, rate in metrics.items():
        if not name.startswith("tpr_user_"):
            continue
        hits = round(rate.value * judged.members)
        own = fraction_estimate(min(max(hits, 0), judged.members), judged.members)
        if not all(map(_same, (rate.value, rate.low, rate.high), (own.value, own.low, own.high))):
            what = f"is not the exact interval of {hits} of {judged.members:,} members"
            yield error(f"leakage.{attack}.{name}", what)


def _same(stored: float | None, own: float | None) -> bool:
    return stored is not None and own is not None and math.isclose(stored, own, abs_tol=_OFF)


def _compared(
    attack: str, stored: Mapping[str, float], again: Mapping[str, float]
) -> Iterator[Problem]:
    for name in dict.fromkeys((*stored, *again)):
        where = f"ceilings.{attack}.{name}"
        if name not in again:
            yield error(where, "is there, and no proof bounds it")
        elif name not in stored:
            yield error(where, f"is missing: proofs allow {shown(again[name])}")
        elif not close(stored[name], again[name]):
            yield error(where, f"{shown(stored[name])} is not the {shown(again[name])} of proofs")
