"""Identity that the record of a run holds, its faults, and its components that nobody reviewed.

A record is a text that anybody may have edited. Its id is the hash of its identity, its spec names
the components of that identity, and its guarantees are what its events are worth. They rest on
components that somebody reviewed, or not (`components.registry`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from uedp_bench.accounting.guarantee import Guarantee, NoiseSource
from uedp_bench.accounting.ledger import proven
from uedp_bench.components import registry
from uedp_bench.contracts.results import ComponentSpec, Result, RunSpec
from uedp_bench.contracts.source import second_source

SINGLE, LISTED = ("task", "source", "model"), ("mechanism", "attacks")
"""Parts that are one component, and parts that are several."""

_LESS = 1e-3
"""Relative amount by which an accountant of another version may have rounded epsilon down."""


class Part(NamedTuple):
    """Name, version and parameters of a component, and of a lone file the digest of its source."""

    name: str
    version: int
    params: dict[str, Any]
    source: str | None = None


class Parts(BaseModel):
    """Parts of an identity, as `spec.identity.identity_parts` returns them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    engine: int = 1
    delta: float
    corpus: str
    downstream: str | None = None
    task: Part
    source: Part
    model: Part
    mechanism: tuple[Part, ...]
    attacks: tuple[Part, ...]
    seed: int
    noise_source: NoiseSource = "seed"
    clients: dict[str, Any] | None = None
    selection: dict[str, Any] | None = None
    unprotected: Part | None = None

    @staticmethod
    def from_record(recorded: Any) -> Parts:
        """Read the parts that a file holds.

        Raises:
            ValidationError: if they have another form.
        """
        return Parts.model_validate_json(json.dumps(recorded))

    def components(self) -> Iterator[tuple[str, Part]]:
        """Fields ("mechanism.0") and components, in the order of a spec's."""
        for kind in SINGLE:
            yield kind, getattr(self, kind)
        for kind in LISTED:
            yield from ((f"{kind}.{at}", part) for at, part in enumerate(getattr(self, kind)))


def parts_of(result: Result) -> Parts | None:
    """The parts of a record's identity; None where it has none, or one of another form."""
    try:
        return Parts.from_record(result.provenance.get("identity"))
    except ValidationError:
        return None


def _lone_files(parts: Parts) -> Iterator[str]:
    """Components with the digest of a lone file, as "mechanism NAME", except attacks."""
    for where, part in parts.components():
        kind = where.partition(".")[0]
        if part.source is not None and kind != "attacks":
            yield f"{kind} {part.name}"
        yield from (f"source {inner.name}" for inner in _sources(part) if inner.source is not None)


def _sources(part: Part) -> Iterator[Part]:
    """Sources that a parameter names."""
    for value in part.params.values():
        try:
            if isinstance(value, list):
                yield _PART.validate_json(json.dumps(value))
        except ValidationError:
            pass


_PART = TypeAdapter(Part, config=ConfigDict(strict=True))


def record_faults(result: Result) -> tuple[str, ...]:
    """Sentences about faults in the record of a finished run.

    Recorded epsilons are not believed: they are computed again from the events.
    """
    parts = parts_of(result)
    if parts is None:
        return ("it does not record what its id is the hash of",)
    return tuple(_faults(result, parts))


def _faults(result: Result, parts: Parts) -> Iterator[str]:
    if identity_of(result.provenance["identity"]) != (result.id, result.group):
        yield "its id and group are not the hashes of the identity that it records"
    spec = result.spec
    listed = (
        (f"{kind}.{at}", ref) for kind in LISTED for at, ref in enumerate(getattr(spec, kind))
    )
    named = {kind: getattr(spec, kind) for kind in SINGLE} | dict(listed)
    recorded = {where: part.name for where, part in parts.components()}
    declared = None if spec.selection is None else spec.selection.declared()
    same = {where: ref.name for where, ref in named.items()} == recorded
    if not same or declared != parts.selection:
        yield "its spec is not that of the identity that it records"
    recorded_proofs = {
        (one.unit, one.adjacency): one for one in result.guarantees if one.kind != "claimed"
    }
    worth = {(one.unit, one.adjacency): one for one in proven(result.events, delta=spec.delta)}
    unlike = any(
        _promises_more(recorded_proofs[key], again)
        for key, again in worth.items()
        if key in recorded_proofs
    )
    if result.events and (recorded_proofs.keys() != worth.keys() or unlike):
        yield "its guarantees are not what its events are worth"


def _promises_more(guarantee: Guarantee, again: Guarantee) -> bool:
    """True if a guarantee is smaller than its events allow, or was refused and is called given."""
    if guarantee.status == "refused":
        return False  # a run may know more reasons than its events
    refused = math.isinf(guarantee.epsilon) and math.isfinite(again.epsilon)
    return refused or guarantee.epsilon < again.epsilon * (1.0 - _LESS)


def identity_of(parts: Mapping[str, Any]) -> tuple[str, str]:
    """(id, group) of the parts of an identity, computed (`identity_parts`) or recorded."""
    texts = {name: f"{_SORTED(name)}: {_SORTED(parts[name])}" for name in sorted(parts)}
    shared = [text for name, text in texts.items() if name != "seed"]
    return _digest(texts.values()), _digest(shared)


_SORTED = json.JSONEncoder(sort_keys=True).encode


def _digest(texts: Iterable[str]) -> str:
    """Digest of an object of these sorted pairs, as `json.dumps` writes it."""
    return hashlib.sha256(f"{{{', '.join(texts)}}}".encode()).hexdigest()[:16]


# ------------------------------------------------------------------------------------------ reviews


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
    lone = _lone_files(parts) if parts is not None else (_UNREADABLE,) * recorded
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
