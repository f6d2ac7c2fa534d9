"""Parts of a result that must agree with each other, and what it must say of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from uedp_bench.contracts.results import Estimate, Result
from uedp_bench.leaderboard.public_results import PLACE
from uedp_bench.leaderboard.validation.components import components
from uedp_bench.leaderboard.validation.identity import fingerprint, task_version
from uedp_bench.leaderboard.validation.ranges import SLACK
from uedp_bench.leaderboard.validation.report import Problem, error, note, place, shown
from uedp_bench.one_run.utility import PUBLIC_ONLY, has_learned
from uedp_bench.store.provenance import names_place

_ORDERED = (("tpr_at_0.1pct_fpr", "tpr_at_1pct_fpr"), ("recall_at_1", "recall_at_10"))
"""Metrics of one attack of which the second is never smaller."""


def check_consistency(result: Result) -> Iterator[Problem]:
    """Problems where one part of a result contradicts another."""
    yield from _status(result)
    yield from _attacks(result)
    yield from _stages(result)
    yield from _learned(result)
    for metrics in result.leakage.items():
        yield from _growing(*metrics)
    accuracy, wrong = result.utility.get("accuracy"), result.utility.get("error")
    if accuracy and wrong and abs(accuracy.value + wrong.value - 1.0) > SLACK:
        what = f"{shown(accuracy.value)} and error {shown(wrong.value)} do not add up to 1"
        yield error("utility.accuracy.value", what)


def _status(result: Result) -> Iterator[Problem]:
    if result.status == "failed":
        if result.error is None:
            yield error("error", "is missing: a failed run says why it failed")
        for name in ("utility", "leakage", "guarantees", "lower_bounds", "events"):
            if getattr(result, name):
                yield error(name, "is not empty: a failed run measured nothing")
        return
    if result.error is not None:
        yield error("error", "is there: a finished run has none")
    task = components(result.spec)[0].component
    if task is not None and task_version(result) in (None, task.version):
        optional = getattr(task, "optional", ())
        names = [one.name for one in task.metrics if "*" not in one.name]
        for name in names:
            if name not in result.utility and name not in optional:
                yield error(f"utility.{name}", f"is missing: {result.spec.task.name} declares it")
    if not result.utility:
        yield error("utility", "is empty: a finished run has utility")


def _learned(result: Result) -> Iterator[Problem]:
    """Problems where `learned` is not what the headline's interval and the floors say."""
    headline = result.headline
    if headline is None:
        if result.learned is not None or result.floors:
            yield error("headline", "is missing: floors are values of it")
        return
    estimate = result.utility.get(headline.metric)
    if estimate is None:
        yield error("headline.metric", f"{shown(headline.metric)} is not in utility")
        return
    says = has_learned(estimate, result.floors.values(), headline.larger_is_better)
    # Schema version 1 does not say where the model saw public text.
    unknown = says and result.learned is None and PUBLIC_ONLY not in result.floors
    if result.learned is not says and not unknown:
        what = f"{shown(result.learned)} is not what the interval and the floors say: {shown(says)}"
        yield error("learned", what)


def _attacks(result: Result) -> Iterator[Problem]:
    if result.status == "failed":
        return
    names = [ref.name for ref in result.spec.attacks]
    skipped = [attack.name for attack in result.skipped_attacks]
    failures = [attack.name for attack in result.failed_attacks]
    for at, name in enumerate(names):
        if name in names[:at]:
            yield error(f"spec.attacks.{at}", f"{shown(name)} is there twice")
        if name not in (*result.leakage, *skipped, *failures):
            why = "is missing: the attack neither ran nor was skipped, and did not fail"
            yield error(f"leakage.{name}", why)
    for name in result.leakage:
        if name not in names:
            yield error(f"leakage.{name}", "is of no attack of the spec")
        elif name in skipped:
            yield error(f"leakage.{name}", "is there, and the attack is in skipped_attacks")
        elif name in failures:
            yield error(f"leakage.{name}", "is there, and the attack is in failed_attacks")
    for field, listed in (("skipped_attacks", skipped), ("failed_attacks", failures)):
        for at, name in enumerate(listed):
            if name not in names:
                yield error(f"{field}.{at}", f"{shown(name)} is no attack of the spec")
            elif name in listed[:at]:
                yield error(f"{field}.{at}", f"{shown(name)} is there twice")
    for at, name in enumerate(failures):
        if name in skipped:
            yield error(f"failed_attacks.{at}", f"{shown(name)} is in skipped_attacks, too")
        yield note(f"failed_attacks.{at}", f"{shown(name)} says nothing about leakage: it failed")
    for name in result.details:
        if name not in result.leakage and name != result.spec.task.name:
            yield error(f"details.{name}", "is of no attack that ran, and not of the task")
    for at, bound in enumerate(result.lower_bounds):
        if bound.attack not in result.leakage:
            yield error(f"lower_bounds.{at}.attack", f"{shown(bound.attack)} is no attack that ran")


def _stages(result: Result) -> Iterator[Problem]:
    """Events are emitted by mechanisms of the spec, or by training without noise."""
    names = {ref.name for ref in result.spec.mechanism} | {"noiseless"}
    silent = False
    for at, event in enumerate(result.events):
        silent |= not event.stage
        if event.stage and re.sub(r" [1-9]\d*$", "", event.stage) not in names:
            listed = ", ".join(sorted(names))
            what = f"{shown(event.stage)} is no mechanism of the spec: {listed}"
            yield error(f"events.{at}.stage", what)
    if silent:
        yield note(
            "events", "name no stage, as those of older versions: not checked whose they are"
        )


def _growing(attack: str, metrics: Mapping[str, Estimate]) -> Iterator[Problem]:
    for less, more in _ORDERED:
        if (
            less in metrics
            and more in metrics
            and metrics[less].value > metrics[more].value + SLACK
        ):
            what = f"{shown(metrics[less].value)} is above {more}, {shown(metrics[more].value)}"
            yield error(f"leakage.{attack}.{less}.value", what)


# ---------------------------------------------------------------------------- provenance


def check_provenance(result: Result) -> Iterator[Problem]:
    """Problems with what a result says of where it comes from."""
    provenance = result.provenance
    for name in ("package", "python", "created"):
        if not isinstance(provenance.get(name), str) or not provenance[name]:
            yield error(f"provenance.{name}", f"{shown(provenance.get(name))}: it must be a text")
    if "commit" not in provenance:
        yield error("provenance.commit", "is missing")
    elif provenance["commit"] is None:
        yield note("provenance.commit", "is null: nobody can tell which code made this result")
    elif not isinstance(provenance["commit"], str) or not re.fullmatch(
        r"[0-9a-f]{40}", provenance["commit"]
    ):
        yield error(
            "provenance.commit", f"{shown(provenance['commit'])} is no commit: 40 of 0-9 and a-f"
        )
    if result.status == "finished" and not fingerprint(result):
        yield error("provenance.corpus.fingerprint", "is missing: nobody can tell the corpus")
    yield from _created(provenance.get("created"))
    yield from _private(result)


def _created(value: Any) -> Iterator[Problem]:
    if not isinstance(value, str):
        return
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        yield error("provenance.created", f"{shown(value)} is no time as 2026-01-31T12:00:00+00:00")
        return
    if at.tzinfo is None:
        yield error("provenance.created", f"{shown(value)} has no time zone: give it in UTC")
    elif at > datetime.now(UTC) + timedelta(days=1):
        yield error("provenance.created", f"{shown(value)} is in the future")


_HOME = re.compile(r"/(home|Users|root|mnt|media)/|[A-Za-z]:\\|file://")


def _private(result: Result) -> Iterator[Problem]:
    """Notes where it says more of the submitter's machine than others need."""
    if result.tracking:
        yield note("tracking", "names a MLflow store: make it {} before you publish the file")
    for named in components(result.spec):
        for name, value in named.ref.params.items():
            if names_place(value):
                what = f"{shown(value)} names a place on your machine: a relative path says enough"
                yield note(f"{named.where}.params.{name}", what)
    for where, text in _texts(result.model_dump(exclude={"spec", "tracking"}), ()):
        if _HOME.search(text) or PLACE.search(text):
            what = f"{shown(text)} names a place on your machine: read it before you publish"
            yield note(place(where), what)


def _texts(value: Any, where: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict | list | tuple):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            yield from _texts(part, (*where, name))
