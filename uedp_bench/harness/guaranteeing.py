"""The guarantees of a run: from what happened, and with the cost of choosing parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from uedp_bench.accounting.consistency import check_bounds
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import check_plan, claimed, proven, proven_at
from uedp_bench.errors import PrivacyError
from uedp_bench.harness.components import Components
from uedp_bench.harness.planting import PlantedCorpus
from uedp_bench.harness.preparing import Prepared
from uedp_bench.harness.protecting import Protected
from uedp_bench.harness.public_choices import conditions
from uedp_bench.harness.trials import trials_of
from uedp_bench.mechanism import Events
from uedp_bench.model import Vocabulary
from uedp_bench.results import LowerBound, RunSpec
from uedp_bench.unreviewed import unreviewed


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


def planned_guarantees(
    parts: Components, spec: RunSpec, there: PlantedCorpus, vocabulary: Vocabulary | None
) -> tuple[Guarantee, ...]:
    """The guarantees that a run will have if it does what it plans, before anything is trained.

    Args:
        parts: of the run.
        spec: of the run.
        there: its corpus.
        vocabulary: of the release; None where nobody knows it yet.
    """
    pipeline, stats = parts.pipeline, there.stats
    private = vocabulary is not None and vocabulary.private
    asked = _Asked(parts, spec, there, vocabulary.origin if vocabulary and private else None)
    given = (*claimed(pipeline.claims(stats), spec.delta), *asked.proven(pipeline.plan(stats)))
    if spec.selection is None:
        return given
    from uedp_bench.accounting.selection import charge

    return charge(given, trials_of(spec.selection, parts.tried, stats))[0]


def _proven(ready: Prepared, made: Protected) -> tuple[Guarantee, ...]:
    """Proven from what happened, unless a condition is broken."""
    words = made.vocabulary
    private = words.origin if words is not None and words.private else None
    return _Asked(ready.parts, ready.spec, ready.there, private).proven(made.release.events)


@dataclass(frozen=True)
class _Asked:
    """What is proven of a run on a corpus.

    Attributes:
        parts, spec: of the run.
        there: its corpus.
        private_words: origin of a vocabulary that is private; None for any other.
    """

    parts: Components
    spec: RunSpec
    there: PlantedCorpus
    private_words: str | None

    def proven(self, events: Events) -> tuple[Guarantee, ...]:
        """From events, unless a condition is broken."""
        stats, pipeline = self.there.stats, self.parts.pipeline
        sources, task = self.parts.sources, self.parts.task
        refusals = [*pipeline.refusals(stats), *sources.first.all_refusals()]
        if sources.second is not None and "downstream" in task.private_rows():
            refusals += sources.second.all_refusals()
        paid = pipeline.only_processes(stats)
        refusals += self._undeclared()
        if self.private_words is not None and events and not paid:
            refusals.append(f"the vocabulary comes from private text ({self.private_words})")
        planned = pipeline.plan(stats)
        try:
            check_plan(planned, events)
        except PrivacyError as error:
            refusals.append(str(error))
        # If nothing was reported, the plan names the unit for which the proof is refused.
        found = events or planned
        spec, generated = self.spec, sources.first.generated
        return proven(
            found,
            delta=spec.delta,
            refusals=refusals,
            source=spec.noise_source,
            conditions=conditions(self.there, generated=generated),
            unreviewed=(*unreviewed(spec), *self.there.strangers),
        )

    def _undeclared(self) -> list[str]:
        """Classes from private rows that decide what a network or clients' shares look like."""
        sources, clients = self.parts.sources, self.spec.clients
        kinds = self.parts.task.classes_of()
        # The last stage of a task with two sources learns the classes of the second.
        found = kinds & (sources.second or sources.first).undeclared()
        if clients is not None and clients.by == "dirichlet":
            corpus = self.there.data.corpus
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
