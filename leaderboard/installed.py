"""Results beside the installed components: declarations of metrics, and marks of older code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from uedp_bench.components import registry
from uedp_bench.components.metric import Declared, Metric
from uedp_bench.components.registry import Registry, attacks, mechanisms, tasks
from uedp_bench.contracts.results import Result
from uedp_bench.errors import UedpBenchError
from uedp_bench.version import ENGINE


def result_metrics(result: Result, *, installed: bool = False) -> Declared:
    """Declarations of a result's metrics: its own, else those of the components of its spec.

    The headline has the direction by which the result is ranked, whatever else is known of it.

    Args:
        result: result of a run.
        installed: True to prefer the declarations of installed components to those of the result.
    """
    own, spec = result.metrics or Declared(), result.spec
    cost = [one for part in spec.mechanism for one in _registered(mechanisms, part.name)]

    def first(mine: tuple[Metric, ...], theirs: tuple[Metric, ...]) -> tuple[Metric, ...]:
        return theirs or mine if installed else mine or theirs

    utility = first(own.utility, _registered(tasks, spec.task.name))
    if result.headline is not None:
        task = Declared.model_construct(utility=utility)
        place = task.place("utility", result.headline.metric)
        metric = task.metric("utility", result.headline.metric)
        ranked = metric.ranked(result.headline.larger_is_better)
        utility = (*utility[:place], ranked, *utility[place + 1 :])
    return Declared.model_construct(
        utility=utility,
        leakage={
            name: first(own.leakage.get(name, ()), _registered(attacks, name))
            for name in result.leakage
        },
        cost=first(own.cost, tuple(cost)),
    )


def _registered(kind: Registry[Any], name: str) -> tuple[Metric, ...]:
    try:
        return kind.get(name).metrics if name in kind else ()
    except UedpBenchError:
        return ()


OLDER = "older code"
NOTE = (
    f"{OLDER}: made by an earlier version of what computes; numbers of the present one may differ"
)
_SINGLE = {
    "task": registry.tasks,
    "source": registry.sources,
    "model": registry.models,
    "unprotected": registry.mechanisms,
}
_LISTED = {"mechanism": registry.mechanisms, "attacks": registry.attacks}


def is_older(identity: Any) -> bool:
    """True if the engine or a component of a run has a later version here.

    Nothing is known of components that are not installed, nor without an identity.

    Args:
        identity: identity that the result records (`provenance.identity`).
    """
    if not isinstance(identity, Mapping):
        return False
    engine = identity.get("engine", 1)
    if not isinstance(engine, int) or engine < ENGINE:
        return True
    return any(
        isinstance(version, int) and version < _installed(kind, name, version)
        for kind, name, version in _parts(identity)
    )


def versions_of(identity: Any) -> dict[str, Any]:
    """Names and versions of an identity, without parameters, for `is_older`."""
    if not isinstance(identity, Mapping):
        return {}
    short: dict[str, Any] = {"engine": identity.get("engine", 1)}
    for field in _SINGLE:
        short[field] = _name_and_version(identity.get(field))
    for field in _LISTED:
        listed = identity.get(field)
        short[field] = list(map(_name_and_version, listed)) if isinstance(listed, list) else []
    return short


def _parts(identity: Mapping[str, Any]) -> Iterator[tuple[registry.Registry[Any], Any, Any]]:
    short = versions_of(identity)
    for field, kind in _SINGLE.items():
        yield (kind, *short[field])
    for field, kind in _LISTED.items():
        for part in short[field]:
            yield (kind, *part)


def _name_and_version(part: Any) -> list[Any]:
    return list(part[:2]) if isinstance(part, list | tuple) and len(part) > 1 else [None, None]


def _installed(kind: registry.Registry[Any], name: Any, otherwise: int) -> int:
    try:
        return int(kind.get(name).version) if isinstance(name, str) else otherwise
    except UedpBenchError:
        return otherwise
