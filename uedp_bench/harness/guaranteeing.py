"""The guarantees of a run: from what happened, and with the cost of choosing parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from uedp_bench.accounting.consistency import check_bounds
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import check_plan, claimed, proven, proven_at
from uedp_bench.errors import PrivacyError
from uedp_bench.harness.preparing import Prepared
from uedp_bench.harness.protecting import Protected
from uedp_bench.harness.trials import trials_of
from uedp_bench.results import LowerBound


def guarantees(
    ready: Prepared, made: Protected, bounds: Sequence[LowerBound]
) -> tuple[tuple[Guarantee, ...], dict[str, Any]]:
    """The guarantees of a run with the cost of choosing it, and the record of the choice.

    Args:
        ready: the run.
        made: what was released, and its events.
        bounds: from below, that attacks found: no guarantee may be smaller.
    """
    spec, stats = ready.spec, ready.run.stats
    claims, events = ready.parts.pipeline.claims(stats), made.release.events
    given = check_bounds(
        bounds,
        (*claimed(claims, spec.delta), *_proven(ready, made)),
        partial(proven_at, events),
        partial(claimed, claims),
    )
    if spec.selection is None:
        return given, {}
    from uedp_bench.accounting.selection import charge

    return charge(given, trials_of(spec.selection, ready.parts.tried, stats))


def _proven(ready: Prepared, made: Protected) -> tuple[Guarantee, ...]:
    """Proven from what happened, unless a condition is broken."""
    stats, pipeline = ready.run.stats, ready.parts.pipeline
    vocabulary, events = made.vocabulary, made.release.events
    sources, task = ready.parts.sources, ready.parts.task
    refusals = [*pipeline.refusals(stats), *sources.first.all_refusals()]
    if sources.second is not None and "downstream" in task.private_rows():
        refusals += sources.second.all_refusals()
    paid = pipeline.only_processes(stats)
    refusals += _undeclared(ready)
    if vocabulary is not None and vocabulary.private and events and not paid:
        refusals.append(f"the vocabulary comes from private text ({vocabulary.origin})")
    planned = pipeline.plan(stats)
    try:
        check_plan(planned, events)
    except PrivacyError as error:
        refusals.append(str(error))
    # If nothing was reported, the plan names the unit for which the proof is refused.
    found = events or planned
    spec = ready.spec
    return proven(found, delta=spec.delta, refusals=refusals, source=spec.noise_source)


def _undeclared(ready: Prepared) -> list[str]:
    """Classes from private rows that decide what a network or clients' shares look like."""
    sources, clients = ready.parts.sources, ready.spec.clients
    kinds = ready.parts.task.classes_of()
    # The last stage of a task with two sources learns the classes of the second.
    found = kinds & (sources.second or sources.first).undeclared()
    if clients is not None and clients.by == "dirichlet":
        corpus = ready.there.data.corpus
        by = "entities" if corpus.labels is None else "labels"
        if by == "labels" or corpus.entity_types:
            found |= {by} & sources.first.undeclared()
    return [
        f"the classes of {name} were collected from private rows, so that the network (or a "
        "client's share) shows one that a single row has; list them: source.label_names (an "
        "attribute can be read as source.label_column), source.entity_types, or task.types of "
        "tagging"
        for name in sorted(found)
    ]
