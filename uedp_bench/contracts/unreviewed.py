"""Components that a run's guarantee rests on, and that nobody reviewed (`components.review`)."""

from __future__ import annotations

from uedp_bench.components import registry
from uedp_bench.contracts.recorded_identity import lone_files, parts_of
from uedp_bench.contracts.results import ComponentSpec, Result, RunSpec
from uedp_bench.contracts.second_source import second_source


def unreviewed(spec: RunSpec) -> tuple[str, ...]:
    """Components of a run that were not reviewed, as "mechanism NAME"; empty if all were."""
    named = (
        ("mechanism", spec.mechanism),
        ("model", (spec.model,)),
        ("task", (spec.task,)),
        ("source", (spec.source, *_second_source(spec.task))),
    )
    names = (
        f"{kind} {ref.name}"
        for kind, refs in named
        for ref in refs
        if not registry.is_reviewed(registry.REGISTRIES[f"{kind}s"], ref.name)
    )
    return tuple(dict.fromkeys(names))


def unreviewed_of_result(result: Result) -> tuple[str, ...]:
    """As `unreviewed`, for a run in a file, with components of lone files among them.

    The file records the digest of such a component, so that nothing depends on a component of the
    same name here. If a guarantee is stated, attacks that were not reviewed may be the reason; and
    it stays stated even if all components of these names here were reviewed.
    """
    parts, recorded = parts_of(result), "identity" in result.provenance
    lone = lone_files(parts) if parts is not None else (_UNREADABLE,) * recorded
    stated = any(one.kind == "stated" for one in result.guarantees)
    planters = (
        f"attack {ref.name}"
        for ref in (result.spec.attacks if stated else ())
        if not registry.is_reviewed(registry.attacks, ref.name)
    )
    named = tuple(dict.fromkeys((*unreviewed(result.spec), *lone, *planters)))
    return named or (STATED_THERE,) * stated


STATED_THERE = "a component of its run"
_UNREADABLE = "the components of its identity, which is not one of this package"


def _second_source(task: ComponentSpec) -> tuple[ComponentSpec, ...]:
    second = second_source(task) if task.name in registry.tasks else None
    return () if second is None else (second,)
