"""Components that a run's guarantee rests on, and that nobody reviewed (`uedp_bench.review`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from uedp_bench import registry, review
from uedp_bench.results import ComponentSpec, Result, RunSpec
from uedp_bench.second_source import second_source

_RESTS_ON = ("mechanism", "model", "task", "source")
"""Parts of a spec that a guarantee rests on, beside attacks that plant (`PlantedCorpus`)."""


def unreviewed(spec: RunSpec) -> tuple[str, ...]:
    """Components of a run that were not reviewed, as "mechanism NAME"; empty if all were."""
    named = (
        ("mechanism", spec.mechanism),
        ("model", (spec.model,)),
        ("task", (spec.task,)),
        ("source", (spec.source, *_second_source(spec.task))),
    )
    found = (
        f"{kind} {ref.name}"
        for kind, refs in named
        for ref in refs
        if not review.is_reviewed(registry.REGISTRIES[f"{kind}s"], ref.name)
    )
    return tuple(dict.fromkeys(found))


def unreviewed_of_result(result: Result) -> tuple[str, ...]:
    """As `unreviewed`, of a run that a file tells of, with components of lone files among them.

    The file records the digest of such a component, so that nothing depends on what has the same
    name here. Where a guarantee is stated, attacks that were not reviewed may be why.
    """
    identity = result.provenance.get("identity")
    lone = _lone(identity) if isinstance(identity, dict) else ()
    stated = any(given.kind == "stated" for given in result.guarantees)
    planters = (
        f"attack {ref.name}"
        for ref in (result.spec.attacks if stated else ())
        if not review.is_reviewed(registry.attacks, ref.name)
    )
    return tuple(dict.fromkeys((*unreviewed(result.spec), *lone, *planters)))


def _second_source(task: ComponentSpec) -> tuple[ComponentSpec, ...]:
    second = second_source(task) if task.name in registry.tasks else None
    return () if second is None else (second,)


def _lone(identity: Mapping[str, Any]) -> Iterator[str]:
    """Components of an identity with the digest of a file at their end (`component_identity`)."""
    for kind in _RESTS_ON:
        value = identity.get(kind)
        listed = value if kind == "mechanism" else [value]
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, list) and len(one) > 3:
                yield f"{kind} {one[0]}"
