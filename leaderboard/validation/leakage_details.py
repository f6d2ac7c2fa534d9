"""Leakage against the details that it is computed from, as the attacks of the spec know them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.validation.components import components
from uedp_bench.leaderboard.validation.report import Problem, error, place


def check_backing(result: Result) -> Iterator[Problem]:
    """Problems where numbers of attacks do not follow from what the file keeps of them.

    Attacks that left nothing behind (what they need was not there) have no metrics either.
    """
    for named in components(result.spec):
        attack, metrics = named.ref.name, result.leakage.get(named.ref.name, {})
        if named.component is None or not named.where.startswith("spec.attacks") or not metrics:
            continue
        try:
            details = result.details.get(attack, {})
            for where, what in named.component.contradictions(metrics, details):  # type: ignore[attr-defined]
                field, _, rest = where.partition(".")
                yield error(f"{field}.{attack}.{rest}", what)
        except ValidationError as wrong:
            for each in wrong.errors(include_url=False, include_context=False)[:5]:
                yield error(place(("details", attack, *each["loc"])), each["msg"])
