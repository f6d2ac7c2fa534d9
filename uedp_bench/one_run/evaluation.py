"""Evaluation of a release: utility by its task, leakage by every attack.

The model before any private row is scored as the release is. An attack that does not apply says
why, and one that fails takes nothing from the others.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from uedp_bench.components.metric import refuse_undeclared
from uedp_bench.contracts.capabilities import Classifier, LabelOnly, RowScorer
from uedp_bench.contracts.leakage import Attack, Leakage
from uedp_bench.contracts.release import Release, protected_rows, published_of
from uedp_bench.contracts.results import (
    MOST_SAMPLES,
    Estimate,
    FailedAttack,
    LowerBound,
    Plain,
    Sample,
    SkippedAttack,
)
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.task import Task, Utility
from uedp_bench.corpus import Corpus, concatenate
from uedp_bench.errors import CapabilityError, PluginError, PrivacyError, UedpBenchError
from uedp_bench.io.folders import disk_is_full
from uedp_bench.one_run.components import Components
from uedp_bench.one_run.preparing import Prepared
from uedp_bench.one_run.protecting import Protected, lacks
from uedp_bench.one_run.publishing import not_carried, not_there, publish, wanted


@dataclass(frozen=True)
class Scored:
    """Utility of a release, as a task measured it.

    Attributes:
        release: release that was scored, as attacks meet it: with the test rows that mechanisms
            published, and with what parties said to each other to make it, where that was kept.
        utility: the task's metrics.
        details: details of the task beside them.
        public_only: the headline metric of the model before any private row; None where it saw no
            public text either, or where what is served cannot be scored.
    """

    release: Release
    utility: Mapping[str, Estimate]
    details: Mapping[str, Any]
    public_only: float | None = None


def score(ready: Prepared, protected: Protected) -> Scored:
    """Score a release on the test rows of the planted corpus."""
    parts, planted_corpus, run = ready.parts, ready.planted_corpus, ready.run
    rows = planted_corpus.data.scored(planted_corpus.corpus)
    if parts.pipeline.elsewhere is not None:
        has_test = rows.where("test").any()
        run.note(scored_split="test" if has_test else "held_out")
        if not has_test:  # rows that the model was not trained on stand in for it
            rows = rows.with_split(rows.where("held_out"), "test")
    release, rows = _with_inputs(parts, protected.release, rows, run)
    task_utility = utility_of(parts.task, release, rows)
    floor = _public_only(parts, protected.trained.floor, rows, run)
    # Messages by which parties answer attacks are no part of the release.
    if (messages := run.diary.messages.closed()) is not None:
        release = release.showing(transcript=messages)
    return Scored(release, task_utility.metrics, task_utility.details, floor)


def _with_inputs(
    parts: Components, release: Release, corpus: Corpus, run: Run
) -> tuple[Release, Corpus]:
    """The release as it is asked about test rows, and these rows.

    Test text is the original, except for mechanisms that perturb inputs at inference: their test
    rows are published as well. All else stays original, unless it became vectors.
    """
    pipeline = parts.pipeline
    publishers = [part for part in pipeline.publishers if part.at_inference]
    if not publishers:
        return release, corpus
    # Public rows are there for what mechanisms make of them; they were published before.
    test = corpus.only("test", "public")
    for publisher in publishers:
        within = run.within(pipeline.stage_of(publisher))
        test, _ = publish(publisher, test, within, wanted(pipeline, publisher, parts.task))
    test = test.only("test")
    trained_on = protected_rows(release)
    if trained_on is None:
        raise CapabilityError("the release shows no rows, though a mechanism perturbs its inputs")
    shown = concatenate(trained_on, test)
    release = release.showing(**{"published" if pipeline.shows_published else "inputs": shown})
    if parts.task.scores_original:
        return release, corpus
    if test.vectors is not None:
        return release, shown
    return release, concatenate(corpus.take(np.flatnonzero(~corpus.where("test"))), test)


def utility_of(task: Task[Any], release: Release, rows: Corpus) -> Utility:
    """Utility that a task measures; its details are empty where it returns the metrics alone.

    Raises:
        PluginError: if it returns something else.
        InputError: if it gives a metric that it does not declare.
    """
    score: object = task.score(release, rows)
    if isinstance(score, Mapping):
        score = Utility(score)
    if not isinstance(score, Utility):
        raise PluginError(
            f"the task {task.name}: `score` returned a {type(score).__name__}; it returns "
            "Utility(metrics, details), or the metrics alone by name"
        )
    refuse_undeclared(f"the task {task.name}", task.metrics, score.metrics)
    return score


def _public_only(
    parts: Components, release: Release | None, rows: Corpus, run: Run
) -> float | None:
    """The headline metric of the model before any private row, served as the release is."""
    if release is None:
        return None
    for server in parts.pipeline.servers:
        release = server.serve(release, run)
    if not isinstance(release, parts.task.needs):
        return None
    headline = utility_of(parts.task, release, rows).metrics.get(parts.task.metrics[0].name)
    return None if headline is None else headline.value


# ------------------------------------------------------------------------------------------ attacks


@dataclass(frozen=True)
class Attacked:
    """Findings of the attacks of a run, by their names; fields of a result."""

    leakage: Mapping[str, dict[str, Estimate]]
    details: Mapping[str, dict[str, Any]]
    lower_bounds: tuple[LowerBound, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    skipped_attacks: tuple[SkippedAttack, ...]
    failed_attacks: tuple[FailedAttack, ...]


def attack_all(ready: Prepared, release: Release, run: Run) -> Attacked:
    """Run every attack that applies; one that fails takes nothing from the others.

    Args:
        ready: the run.
        release: release as the adversary meets it.
        run: its context, which attacks may ask for models.
    """
    parts = ready.parts
    leakage: dict[str, dict[str, Estimate]] = {}
    details: dict[str, dict[str, Any]] = {}
    bounds: list[LowerBound] = []
    samples: dict[str, tuple[Sample, ...]] = {}
    skipped: list[SkippedAttack] = []
    failures: list[FailedAttack] = []
    sources = [source for source in parts.sources if source is not None]
    may_show = all(source.shows_samples() for source in sources)
    for number, attack in enumerate(parts.attacks):
        run.progress(f"attack {attack.name}", number, len(parts.attacks))
        outcome = run_attack(attack, ready, release, run)
        if isinstance(outcome, SkippedAttack):
            skipped.append(outcome)
            continue
        if isinstance(outcome, FailedAttack):
            failures.append(outcome)
            continue
        leakage[attack.name], details[attack.name] = outcome.metrics, outcome.details
        if outcome.samples and may_show:
            samples[attack.name] = outcome.samples[:MOST_SAMPLES]
        bounds += [b.model_copy(update={"attack": attack.name}) for b in outcome.lower_bounds]
    return Attacked(leakage, details, tuple(bounds), samples, tuple(skipped), tuple(failures))


def run_attack(
    attack: Attack[Any], ready: Prepared, release: Release, run: Run
) -> Leakage | SkippedAttack | FailedAttack:
    """Measure the leakage of a release by one attack, or say why there is no measurement.

    Args:
        attack: attack of the run.
        ready: prepared run.
        release: release as the adversary meets it.
        run: context of the run, which the attack may ask for models.

    Raises:
        Exception: what is no failure of the attack (`_failure_of_attack`).
    """
    planted = ready.planted_corpus
    try:
        reason = reason_against(attack, ready, release)
        if reason is not None:
            return SkippedAttack(name=attack.name, reason=reason)
        within = run.within(f"attack {attack.name}")
        measured = attack.run(release, planted.planted[attack.name], planted.corpus, within)
        leakage = _valid(measured)
        refuse_undeclared(f"the attack {attack.name}", attack.metrics, leakage.metrics)
        return leakage
    except Exception as error:
        return _failure_of_attack(attack.name, error, ready.cache.parent)


_FIELDS: dict[str, TypeAdapter[Any]] = {
    "metrics": TypeAdapter(dict[str, Estimate]),
    "details": TypeAdapter(Plain),
    "lower_bounds": TypeAdapter(tuple[LowerBound, ...]),
    "samples": TypeAdapter(tuple[Sample, ...]),
}
"""Types of what an attack measures, as a result holds it."""


def _valid(measured: Leakage) -> Leakage:
    """Leakage that a result can hold and a file can store.

    Raises:
        ValueError: naming the field that is none.
        TypeError: if it is no `Leakage`.
    """
    if not isinstance(measured, Leakage):
        raise TypeError(f"an attack returns a Leakage, not {type(measured).__name__}")
    fields = {}
    for name, kind in _FIELDS.items():
        try:
            fields[name] = kind.validate_python(getattr(measured, name))
            kind.dump_json(fields[name])
        except (ValidationError, PydanticSerializationError) as error:
            raise ValueError(f"{name} of its Leakage: {_first_line(error)}") from None
    return Leakage(**fields)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return str(error)


def reason_against(attack: Attack[Any], ready: Prepared, release: Release) -> str | None:
    """Reason why an attack of a run does not apply to its release; None if it does."""
    parts, corpus = ready.parts, ready.planted_corpus.corpus
    return (
        ready.planted_corpus.unplanted.get(attack.name)
        or lacks(attack.required_capabilities(), release)
        or withheld(attack.required_capabilities(), release)
        or not_carried(attack, parts.pipeline, parts.task)
        or not_there(attack, corpus)
        or attack.refuses(release, corpus)
        or attack.refuses_events(release.events)
    )


def withheld(needs: tuple[type, ...], release: Release) -> str | None:
    """Reason why attacks cannot ask about rows of their choice; None if they can.

    A release may take vectors that only the mechanism makes, and none of them were released.
    """
    if published_of(release) is not None or not release.takes_vectors:
        return None
    offered = {need for need in needs if isinstance(release, need)}
    if not offered or not offered <= {Classifier, LabelOnly, RowScorer}:
        return None
    return "the classifier takes vectors that only the mechanism makes, and none were released"


def _failure_of_attack(name: str, error: Exception, out: Path) -> FailedAttack:
    """Record of an attack that failed, while its error is handled.

    Raises:
        Exception: the error, if no attack is to blame: memory or the disk is full, or a model that
            the attack had trained did not keep to its plan.
    """
    import torch

    at_fault = not isinstance(error, MemoryError | torch.OutOfMemoryError | PrivacyError)
    if not at_fault or disk_is_full(error, out):
        raise error
    kind = type(error).__name__
    trace = "" if isinstance(error, UedpBenchError) else traceback.format_exc()
    return FailedAttack(name=name, type=kind, message=str(error) or kind, traceback=trace)
