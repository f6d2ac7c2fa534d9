"""Guarantees of a run: from its reported events, with the cost of choosing parameters.

What guarantees assume of a corpus: who is public, and how public choices about units were made.
Every corpus passes here, wherever its splits come from: a column, a folder, the source, parameters
of the source, an attack that held users out. A selection is charged for the runs at every setting,
if they compose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import PrivacyUnit
from uedp_bench.accounting.guarantee import Condition, Guarantee
from uedp_bench.accounting.ledger import check_plan, claimed, proven, proven_at
from uedp_bench.accounting.selection import Trials, charge
from uedp_bench.bounds.ceilings import JudgedUsers, ceilings, check_measured
from uedp_bench.bounds.consistency import check_bounds
from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.mechanism import Events, Mechanism, PublishingMechanism
from uedp_bench.contracts.recorded_identity import unreviewed
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.contracts.task import Task
from uedp_bench.corpus import Corpus, distinct, row_names, user_names
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.one_run.components import Components
from uedp_bench.one_run.evaluation import Attacked
from uedp_bench.one_run.pipeline import Pipeline, Promises
from uedp_bench.one_run.planting import PlantedCorpus
from uedp_bench.one_run.preparing import Prepared
from uedp_bench.one_run.protecting import Protected


def trials_of(
    selection: Selection,
    pipelines: Sequence[Pipeline],
    stats: CorpusStats,
    refusals_of_tasks: Sequence[str] = (),
) -> Trials:
    """Trials that the choice of hyper-parameters looked at.

    Args:
        selection: declaration in the spec.
        pipelines: mechanisms at every setting of the grid.
        stats: sizes of the training split.
        refusals_of_tasks: reasons of tasks and models at these settings why nothing can be proven.
    """
    refusals_of_parts = (text for part in pipelines for text in part.refusals(stats))
    refusals = dict.fromkeys((*refusals_of_tasks, *refusals_of_parts))
    return Trials(
        selection,
        tuple(pipeline.plan(stats) for pipeline in pipelines),
        tuple(refusals),
        shared_noise(pipelines),
        no_common_neighbours(pipelines, several=selection.each > 1 or selection.random),
    )


def shared_noise(pipelines: Sequence[Pipeline]) -> str:
    """Reason why runs at these settings may draw the same noise; empty where they do not."""
    for part in _parts(pipelines):
        if part.unit is not None and not part.fresh_noise:
            return (
                f"{part.name} does not say that each run draws noise of its own (fresh_noise), and "
                "two runs with the same noise show the sum that it hides"
            )
    return ""


def no_common_neighbours(pipelines: Sequence[Pipeline], *, several: bool) -> str:
    """Reason why removing a user with an entity changes trials differently; empty if it does not.

    A guarantee for a user together with an entity is about the sentences that are left after caps
    and after publishers in front of the training. Where these differ from trial to trial, what is
    removed from one data set lets other sentences into the next. Runs of one cap keep the same
    sentences if the cap looks at names alone, which nobody promises of a plug-in: with several
    seeds it is refused.

    Args:
        pipelines: the mechanisms at every setting.
        several: True if trials had several seeds.
    """
    caps: dict[str, set[Any]] = {}
    for part in _parts(pipelines):
        if isinstance(part, PublishingMechanism):
            return (
                f"{part.name} rewrites text before it is trained on, in each trial anew: data sets "
                "that are neighbours in one trial need not be in another"
            )
        for name in part.data_set:
            caps.setdefault(f"{part.name}.{name}", set()).add(getattr(part.params, name))
    for cap, values in caps.items():
        if len(values) > 1 or (several and values != {None}):
            which = "of different caps" if len(values) > 1 else "of several seeds"
            return (
                f"{cap} may keep other sentences in trials {which}, so no two data sets are "
                "neighbours in all of them: a sentence that is removed from one lets another into "
                "the next"
            )
    return ""


def _parts(pipelines: Sequence[Pipeline]) -> list[Mechanism[Any]]:
    """The mechanisms of all pipelines, each setting of each once."""
    parts_by_key: dict[str, Mechanism[Any]] = {}
    for pipeline in pipelines:
        for part in (*pipeline.parts, *pipeline.trainers):
            key = json.dumps([part.name, part.params.model_dump(mode="json")], sort_keys=True)
            parts_by_key.setdefault(key, part)
    return list(parts_by_key.values())


USER_UNITS: frozenset[PrivacyUnit] = frozenset({"user", "user-entity"})
CLIENT_UNITS: frozenset[PrivacyUnit] = frozenset({"client"})
ENTITY_UNITS: frozenset[PrivacyUnit] = frozenset({"entity", "user-entity"})
PART_UNITS: frozenset[PrivacyUnit] = frozenset({"sentence", "word", "attribute"})
ROW_UNITS: frozenset[PrivacyUnit] = frozenset({"record", "entity", *PART_UNITS})

PUBLIC_USERS = (
    "some users have rows in the split 'train' and in 'public' too, and public text is used "
    "without protection: take their rows out of one of the two"
)
"""Why nothing is proven for users, nor for clients that hold their rows."""

SCORED_USERS = (
    "some users have rows in 'train' and in 'valid' or 'test' too: what is covered is what their "
    "rows in 'train' tell, and neither scores of the others nor choices that are made by them"
)
TRAINING_MENTIONS = (
    "an entity is taken out of rows of 'train' alone: those of other splits, which are public or "
    "scored, may mention it"
)
CLIENT_ROWS = (
    "a client is the rows of 'train' that it holds once rows are dealt: what is covered is what "
    "they tell, and not its rows in other splits, which are public or scored"
)
CHANGED_TEXT = (
    "a row of which a part changes stays a row of its split with its label, whatever the source "
    "leaves out or labels by what rows say"
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
SAME_SECOND = (
    "neighbours have the same rows in the task's second source, which is learnt without protection"
)
SAME_PUBLIC = "neighbours have the same public rows in both sources of the task"
"""Assumptions."""


def conditions(planted_corpus: PlantedCorpus, *, generated: bool = False) -> tuple[Condition, ...]:
    """Conditions of all guarantees about a planted corpus.

    Args:
        planted_corpus: corpus of the run.
        generated: True if its source made it up, so that names of rows are not at issue.
    """
    of_rows = conditions_of_rows(planted_corpus.corpus, generated=generated)
    planted = [Condition(PLANTED)] if planted_corpus.planted and _changed(planted_corpus) else []
    return (*of_rows, *planted)


def conditions_of_rows(corpus: Corpus, *, generated: bool = False) -> tuple[Condition, ...]:
    """Conditions of all guarantees about a corpus in which nothing is planted.

    Args:
        corpus: corpus of a source.
        generated: see `conditions`.
    """
    quotas = [Condition(text) for text in corpus.quotas]
    named = () if generated else _named(corpus)
    return (*_shared(corpus), *named, *quotas)


def _shared(corpus: Corpus) -> Iterator[Condition]:
    """Users, clients and entities of several splits."""
    users = corpus.users
    train = distinct(users[corpus.where("train") & (users >= 0)])

    def some_in(*splits: str) -> bool:
        return bool(np.isin(users[corpus.where(*splits)], train).any())

    if some_in("public"):
        yield Condition(PUBLIC_USERS, USER_UNITS | CLIENT_UNITS, broken=True)
    if some_in("valid", "test"):
        yield Condition(SCORED_USERS, USER_UNITS)
    yield Condition(CLIENT_ROWS, CLIENT_UNITS)
    yield Condition(TRAINING_MENTIONS, ENTITY_UNITS)


def _named(corpus: Corpus) -> Iterator[Condition]:
    """Units that are named by their content, and may have another name, or none, if it changes."""
    yield Condition(CHANGED_TEXT, PART_UNITS)
    if row_names(corpus).of_content:
        yield Condition(REPLACED_ROWS, ROW_UNITS, "replace-one")
    if corpus.user_names is None and corpus.user_count:
        yield Condition(NUMBERED)
    if not user_names(corpus).of_content:
        return
    if np.bincount(corpus.users[corpus.users >= 0], minlength=1).max() > 1:
        # An entity is taken out with sentences of documents that stay.
        yield Condition(CHANGED_DOCUMENTS, ROW_UNITS | {"user-entity"})
        yield Condition(CHANGED_DOCUMENTS, USER_UNITS, "replace-one")
    else:
        yield Condition(REPLACED_ROWS, USER_UNITS, "replace-one")


def _changed(planted_corpus: PlantedCorpus) -> bool:
    """True if an attack changed rows or updates, held some users out, or may have."""
    source = planted_corpus.data.corpus.split
    moved = len(source) != len(planted_corpus.corpus) or not np.array_equal(
        source, planted_corpus.corpus.split
    )
    silent = bool(planted_corpus.injected) or bool(
        planted_corpus.strangers
    )  # rows need not tell of either
    return moved or silent or bool((planted_corpus.corpus.origin < 0).any())


@dataclass(frozen=True)
class Accounted:
    """Guarantees of a run, and what they limit; fields of a result.

    Attributes:
        guarantees: claimed and proven guarantees, with the cost of choosing the run.
        selection: record of the choice of parameters.
        ceilings: limits that proofs set to metrics, by attack.
    """

    guarantees: tuple[Guarantee, ...]
    selection: dict[str, Any]
    ceilings: dict[str, dict[str, float]]


def account(ready: Prepared, protected: Protected, attacked: Attacked) -> Accounted:
    """Account for a run: its guarantees, compared with what its attacks measured.

    Args:
        ready: prepared run.
        protected: release of the run, and its events.
        attacked: measurements of the attacks; no guarantee may lie below their lower bounds.

    Raises:
        PrivacyError: if a metric lies above its ceiling by more than chance.
    """
    spec, parts, stats = ready.spec, ready.parts, ready.run.stats
    promises, events = parts.pipeline.promises(stats), protected.release.events
    proofs = _proven(parts, spec, ready.planted_corpus, protected.vocabulary, promises, events)
    checked = check_bounds(
        attacked.lower_bounds,
        (*claimed(promises.claims, spec.delta), *proofs),
        partial(proven_at, events),
        partial(claimed, promises.claims),
    )
    selection: dict[str, Any] = {}
    if spec.selection is not None:
        trials = _trials(parts, spec, spec.selection, ready.planted_corpus)
        checked, selection = charge(checked, trials)
    return Accounted(checked, selection, _checked_ceilings(checked, events, attacked))


def _checked_ceilings(
    guarantees: Sequence[Guarantee], events: Events, attacked: Attacked
) -> dict[str, dict[str, float]]:
    """Ceilings that proofs set to metrics, by attack and metric, after comparing both."""
    limits = {}
    for attack, metrics in attacked.leakage.items():
        judged = JudgedUsers.from_details(attacked.details[attack])
        if judged is not None:
            limits[attack] = ceilings(metrics, judged, guarantees, events)
            check_measured(metrics, judged, guarantees, events, attack)
    return {attack: values for attack, values in limits.items() if values}


def planned_guarantees(
    parts: Components, spec: RunSpec, planted_corpus: PlantedCorpus, vocabulary: Vocabulary | None
) -> tuple[Guarantee, ...]:
    """Guarantees that a run will have if it does what it plans, before anything is trained.

    Args:
        parts: components of the run.
        spec: spec of the run.
        planted_corpus: corpus of the run.
        vocabulary: vocabulary of the release; None before it is chosen.
    """
    stats = planted_corpus.stats
    promises = parts.pipeline.promises(stats)
    proofs = _proven(parts, spec, planted_corpus, vocabulary, promises, promises.events)
    planned = (*claimed(promises.claims, spec.delta), *proofs)
    if spec.selection is None:
        return planned
    return charge(planned, _trials(parts, spec, spec.selection, planted_corpus))[0]


def _trials(
    parts: Components, spec: RunSpec, selection: Selection, planted_corpus: PlantedCorpus
) -> Trials:
    """Trials of a run, those among them that take words or classes from private rows."""
    visible = planted_corpus.corpus.only("train", "valid", "public")
    stats, refusals, seen = planted_corpus.stats, list[str](), {_text_of(parts.task)}
    for task, pipeline in parts.tried:
        text = _text_of(task)
        if text not in seen:  # the released run's own were looked at
            seen.add(text)
            refusals += _undeclared(replace(parts, task=task), spec, planted_corpus.data.corpus)
            if pipeline.vocabulary is not None:
                continue
            with suppress(InputError):  # who publishes vectors may have no text to make one of
                refusals += _private_words(task.vocabulary(visible), pipeline, stats)
    pipelines = [one.pipeline for one in parts.tried]
    return trials_of(selection, pipelines, stats, refusals)


def _text_of(task: Task[Any]) -> str:
    """A task and its model with their parameters, as JSON."""
    params = [each and each.params.model_dump(mode="json") for each in (task, task.model)]
    return json.dumps(params, sort_keys=True)


def _private_words(
    vocabulary: Vocabulary | None, pipeline: Pipeline, stats: CorpusStats
) -> list[str]:
    """Reason why a vocabulary breaks a proof; none for a public one."""
    if vocabulary is None or not vocabulary.private or pipeline.only_processes(stats):
        return []
    return [f"the vocabulary comes from private text ({vocabulary.origin})"]


def _proven(
    parts: Components,
    spec: RunSpec,
    planted_corpus: PlantedCorpus,
    vocabulary: Vocabulary | None,
    promises: Promises,
    events: Events,
) -> tuple[Guarantee, ...]:
    """Guarantees proven from reported or planned events, unless a condition is broken."""
    sources, stats = parts.sources, planted_corpus.stats
    refusals = [*promises.refusals, *sources.first.all_refusals()]
    needed = conditions(planted_corpus, generated=sources.first.generated)
    later, second = sources.second, planted_corpus.data.downstream
    if later is not None and second is not None and "downstream" in parts.task.private_rows():
        refusals += later.all_refusals()
        of_second = conditions_of_rows(second, generated=later.generated)
        needed += (*of_second, Condition(SAME_PUBLIC))
    elif second is not None and "downstream" in parts.task.roles():
        needed += (Condition(SAME_SECOND),)
    refusals += _undeclared(parts, spec, planted_corpus.data.corpus)
    if events:
        refusals += _private_words(vocabulary, parts.pipeline, stats)
    try:
        check_plan(promises.events, events)
    except PrivacyError as error:
        refusals.append(str(error))
    return proven(
        events or promises.events,  # a plan names the unit for which the proof is refused
        delta=spec.delta,
        refusals=refusals,
        source=spec.noise_source,
        conditions=needed,
        unreviewed=(*unreviewed(spec), *planted_corpus.strangers),
    )


def _undeclared(parts: Components, spec: RunSpec, corpus: Corpus) -> list[str]:
    """Classes from private rows that decide what a network or clients' shares look like."""
    sources = parts.sources
    # The last stage of a task with two sources learns the classes of the second.
    undeclared = parts.task.classes_of() & (sources.second or sources.first).undeclared()
    if spec.clients is not None and spec.clients.by == "dirichlet":
        by = "entities" if corpus.labels is None else "labels"
        if by == "labels" or corpus.entity_types:
            undeclared |= {by} & sources.first.undeclared()
    return [
        f"the classes of {name} were collected from private rows, so that the network (or a "
        "client's share) shows one that a single row has; list them: source.label_names (an "
        "attribute can be read as source.label_column), source.entity_types, or task.types of "
        "tagging"
        for name in sorted(undeclared)
    ]
