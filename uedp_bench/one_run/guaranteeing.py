"""The guarantees of a run: from what happened, and with the cost of choosing parameters.

What guarantees assume of a corpus: who is public, and how public choices about units were made.

Every corpus passes here, wherever its splits come from: a column, a folder, the source, parameters
of the source, an attack that held users out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from uedp_bench.accounting.assumptions import Condition
from uedp_bench.accounting.events import PrivacyUnit
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import check_plan, claimed, proven, proven_at
from uedp_bench.bounds.ceilings import JudgedUsers, ceilings, check_measured
from uedp_bench.bounds.consistency import check_bounds
from uedp_bench.contracts.clients import CLIENT
from uedp_bench.contracts.mechanism import Events
from uedp_bench.contracts.model import Vocabulary
from uedp_bench.contracts.results import LowerBound, RunSpec
from uedp_bench.contracts.unreviewed import unreviewed
from uedp_bench.corpus import Corpus, distinct, row_names, user_names
from uedp_bench.errors import PrivacyError
from uedp_bench.one_run.attacking import Attacked
from uedp_bench.one_run.components import Components
from uedp_bench.one_run.planting import PlantedCorpus
from uedp_bench.one_run.preparing import Prepared
from uedp_bench.one_run.protecting import Protected
from uedp_bench.one_run.trials import trials_of

USER_UNITS: frozenset[PrivacyUnit] = frozenset({"user", "user-entity"})
CLIENT_UNITS: frozenset[PrivacyUnit] = frozenset({"client"})
ROW_UNITS: frozenset[PrivacyUnit] = frozenset({"record", "entity", "sentence", "word", "attribute"})

PUBLIC_USERS = (
    "some users have rows in the split 'train' and in 'public' too, and public text is used "
    "without protection: take their rows out of one of the two"
)
"""Why nothing is proven for users, nor for clients that hold their rows."""

SCORED_USERS = (
    "some users have rows in 'train' and in 'valid' or 'test' too: what is covered is what their "
    "rows in 'train' tell, and neither scores of the others nor choices that are made by them"
)
CLIENT_ROWS = (
    "a client is the rows of 'train' that it holds once rows are dealt: what is covered is what "
    "they tell, and not its rows in other splits, which are public or scored"
)
REPLACED_ROWS = (
    "a row that is replaced stays in its split, with its client and in its round: rows have no ids "
    "(source.id_column), and are named by what they say"
)
CHANGED_DOCUMENTS = (
    "a document of which a row changes stays in its split, in its cohort and with its client: "
    "documents have no names, and are called by what they say"
)
NUMBERED = (
    "a user's number depends on no other user: the source gives numbers and no names "
    "(Corpus.user_names)"
)
PLANTED = "neighbours have the same canaries, and the same users held out, by the same coins"
"""Assumptions."""


def conditions(there: PlantedCorpus, *, generated: bool = False) -> tuple[Condition, ...]:
    """Conditions of all guarantees about a planted corpus.

    Args:
        there: the corpus.
        generated: its source made it up: names of rows are not at issue.
    """
    corpus = there.corpus
    quotas = [Condition(text) for text in corpus.quotas]
    named = () if generated else _named(corpus)
    planted = [Condition(PLANTED)] if there.planted and _changed(there) else []
    return (*_shared(corpus), *named, *quotas, *planted)


def _shared(corpus: Corpus) -> Iterator[Condition]:
    """Users and clients of several splits."""
    users = corpus.users
    train = distinct(users[corpus.where("train") & (users >= 0)])

    def some_in(*splits: str) -> bool:
        return bool(np.isin(users[corpus.where(*splits)], train).any())

    if some_in("public"):
        yield Condition(PUBLIC_USERS, USER_UNITS | CLIENT_UNITS, broken=True)
    if some_in("valid", "test"):
        yield Condition(SCORED_USERS, USER_UNITS)
    if CLIENT in corpus.groups:
        yield Condition(CLIENT_ROWS, CLIENT_UNITS)


def _named(corpus: Corpus) -> Iterator[Condition]:
    """Units that are named by their content, and have another name where it changes."""
    if row_names(corpus).of_content:
        yield Condition(REPLACED_ROWS, ROW_UNITS, "replace-one")
    if corpus.user_names is None and corpus.user_count:
        yield Condition(NUMBERED)
    if not user_names(corpus).of_content:
        return
    if np.bincount(corpus.users[corpus.users >= 0], minlength=1).max() > 1:
        yield Condition(CHANGED_DOCUMENTS, ROW_UNITS)
        yield Condition(CHANGED_DOCUMENTS, USER_UNITS, "replace-one")
    else:
        yield Condition(REPLACED_ROWS, USER_UNITS, "replace-one")


def _changed(there: PlantedCorpus) -> bool:
    """True if an attack changed rows or updates, held some users out, or may have."""
    source = there.data.corpus.split
    moved = len(source) != len(there.corpus) or not np.array_equal(source, there.corpus.split)
    silent = bool(there.injected) or bool(there.strangers)  # rows need not tell of either
    return moved or silent or bool((there.corpus.origin < 0).any())


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


def checked_ceilings(
    given: Sequence[Guarantee], events: Events, attacked: Attacked
) -> dict[str, dict[str, float]]:
    """Ceilings that proofs set to metrics, by attack and metric; compares the metrics with them.

    Args:
        given: guarantees of the run.
        events: of its release.
        attacked: measurements.

    Raises:
        PrivacyError: if a metric lies above its ceiling by more than chance.
    """
    limits = {}
    for attack, metrics in attacked.leakage.items():
        judged = JudgedUsers.from_details(attacked.details[attack])
        if judged is not None:
            limits[attack] = ceilings(metrics, judged, given, events)
            check_measured(metrics, judged, given, events, attack)
    return {attack: values for attack, values in limits.items() if values}


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
