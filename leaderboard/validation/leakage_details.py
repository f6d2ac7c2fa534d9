"""Leakage compared with the details that it is computed from, by the attacks of the spec."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from uedp_bench.contracts.leakage import Attack, StoredLeakage
from uedp_bench.contracts.recorded_identity import parts_of
from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.validation.components import components
from uedp_bench.leaderboard.validation.report import Problem, error, place


def check_backing(result: Result) -> Iterator[Problem]:
    """Problems where numbers of attacks do not follow from what the file keeps of them.

    Attacks that left nothing behind (what they need was not there) have no numbers either.
    """
    parts = parts_of(result)
    versions = {} if parts is None else {part.name: part.version for part in parts.attacks}
    for named in components(result.spec):
        if named.component is None or not issubclass(named.component, Attack):
            continue
        name = named.ref.name
        stored = StoredLeakage(
            metrics=result.leakage.get(name, {}),
            details=result.details.get(name, {}),
            lower_bounds={
                at: bound for at, bound in enumerate(result.lower_bounds) if bound.attack == name
            },
            delta=result.spec.delta,
            version=versions.get(name),
        )
        if not (stored.metrics or stored.lower_bounds):
            continue
        try:
            for where, what in named.component.create(named.ref.params).contradictions(stored):
                field, _, rest = where.partition(".")
                own = field in ("details", "leakage")
                yield error(f"{field}.{name}.{rest}" if own else where, what)
        except ValidationError as wrong:
            for each in wrong.errors(include_url=False, include_context=False)[:5]:
                yield error(place(("details", name, *each["loc"])), each["msg"])
        except InputError:
            continue  # of its parameters, which `check_components` looks at
