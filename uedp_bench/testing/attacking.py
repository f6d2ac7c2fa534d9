"""Checks of attacks: their planting, and their metrics where all or nothing leaks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.components.metric import Declared, Metric
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.one_run.attacking import Attacked, attack_all
from uedp_bench.one_run.planting import load_corpus
from uedp_bench.one_run.retraining import Retraining
from uedp_bench.testing.checks import NotApplicable, check
from uedp_bench.testing.leaking_releases import offered, release_of
from uedp_bench.testing.small_runs import digest, finished, small_run, source_of, tasks_for
from uedp_bench.testing.subjects import Subject

TINY = 1e-9

UNPROTECTED = (PrivacyEvent(unit="user", event=NonPrivate(reason="a release of the kit")),)


@check("attack")
def check_needs_declared(subject: Subject) -> None:
    """An attack that names no capability meets every release, and fails on most of them."""
    needs = getattr(subject.component, "needs", None)
    assert isinstance(needs, tuple) and needs, "`needs` names no capability: it is a tuple of them"
    wrong = [need for need in needs if not getattr(need, "_is_runtime_protocol", False)]
    assert not wrong, f"{wrong[0]!r} is no capability: a runtime-checkable protocol"


@check("attack")
def check_planting(subject: Subject) -> None:
    """Attacks look for planted secrets in another process: these must survive JSON unchanged.

    Whoever plants never changes a corpus in place, and never touches test rows: utility is theirs.
    """
    corpus = load_corpus(source_of(small_run(subject)))
    attack: Attack[Any] = subject.create()
    before = digest(corpus)
    (first, planted), (second, again) = (_planted(attack, corpus, seed) for seed in (5, 5))
    assert digest(corpus) == before, "`plant` changed the corpus in place"
    assert digest(first) == digest(second) and planted == again, (
        "`plant` plants something else from an equal generator: draw from the one that it is given"
    )
    assert isinstance(planted, attack.planted_type), (
        f"`plant` returns a {type(planted).__name__}; `planted_type` is "
        f"{attack.planted_type.__name__}"
    )
    text = planted.model_dump_json()
    assert type(planted).model_validate_json(text) == planted, f"JSON changes {text[:200]}"
    kept = [corpus.only("test").texts, first.only("test").texts]
    assert kept[0] == kept[1], "`plant` changed the test rows"
    if attack.holds_out:
        assert first.where("held_out").any(), "`holds_out` is true, and nobody is held out"


def _planted(attack: Attack[Any], corpus: Corpus, seed: int) -> tuple[Corpus, Planted]:
    return attack.plant(corpus, np.random.default_rng(seed))


@check("attack")
def check_attack_applies(subject: Subject) -> None:
    """An attack that every run skips finds nothing, and nobody notices."""
    reasons_by_task = []
    for task in tasks_for(subject):
        try:
            result = finished(subject, task)
        except InputError as error:
            reasons_by_task.append(f"{task}: {error}")
            continue
        if subject.name in result.leakage or subject.name in result.details:
            return
        reasons = [one.reason for one in result.skipped_attacks]
        reasons += [one.reason for one in result.failed_attacks]
        reasons_by_task += [f"{task}: {reason}" for reason in reasons or [str(result.error)]]
    raise NotApplicable(f"every small run skips it: {'; '.join(reasons_by_task)[:300]}")


@check("attack")
def check_metrics_declared(subject: Subject) -> None:
    """Nobody can tell a leak from chance by a number whose direction is not declared."""
    names = _attacked(subject, tells=True).metrics
    missing = [name for name in names if not any(m.reads(name) for m in subject.component.metrics)]
    assert not missing, (
        f"`metrics` does not declare {missing[0]}: add "
        f'Metric("{missing[0]}", better="lower", no_leak=...)'
    )


@check("attack")
def check_leak_is_found(subject: Subject) -> None:
    """An attack that misses a release that tells everything calls every release safe."""
    telling, silent = (_attacked(subject, tells=tells) for tells in (True, False))
    names = sorted({*telling.metrics} & {*silent.metrics})
    assert names or telling.lower_bounds, "it measures nothing on a release that tells everything"
    worse = [
        name
        for name in names
        if _worse(_metric(subject, name), telling.metrics[name], silent.metrics[name])
    ]
    refuted = max((bound.epsilon for bound in telling.lower_bounds), default=0.0)
    assert worse or refuted > 0, (
        "no metric is worse on a release that tells everything than on one that tells nothing: "
        + ", ".join(
            f"{name} {telling.metrics[name].value:.3g} against {silent.metrics[name].value:.3g}"
            for name in names
        )
    )


@check("attack")
def check_nothing_is_made_up(subject: Subject) -> None:
    """An attack that finds a leak where there is none accuses every mechanism."""
    silent = _attacked(subject, tells=False)
    for name, value in silent.metrics.items():
        metric = _metric(subject, name)
        chance = metric.no_leak
        if chance is None or value.low is None or value.high is None:
            continue
        # An attack has many metrics, and one interval in twenty misses: it must miss by far.
        above = metric.better == "lower"
        gap, half = (
            (value.value - chance, value.value - value.low)
            if above
            else (chance - value.value, value.high - value.value)
        )
        assert gap <= 2.0 * half + TINY, (
            f"{name} is {value.value:.3g} ({value.low:.3g} to {value.high:.3g}) on a release that "
            f"tells nothing, where {chance:.3g} is chance"
        )
    refuted = max((bound.epsilon for bound in silent.lower_bounds), default=0.0)
    assert refuted <= 0, f"it refutes every epsilon below {refuted:.3g} of a release without data"


def _metric(subject: Subject, name: str) -> Metric:
    metrics: tuple[Metric, ...] = subject.component.metrics
    return Declared(leakage={"": metrics}).metric("leakage", name)


def _worse(metric: Metric, telling: Estimate, silent: Estimate) -> bool:
    """True if more leaks by a metric, beyond the interval of the release that tells nothing."""
    low = silent.value if silent.low is None else silent.low
    high = silent.value if silent.high is None else silent.high
    better = metric.better
    more, less = telling.value > high, telling.value < low
    return more if better == "lower" else less if better == "higher" else more or less


@lru_cache(maxsize=4)
def _attacked(subject: Subject, *, tells: bool) -> Leakage:
    """Run the attack on a release of the kit, within a small run without protection."""
    needs = [need for need in subject.component.needs if need in offered()]  # type: ignore[attr-defined]
    if not needs:
        names = ", ".join(need.__name__ for need in subject.component.needs)  # type: ignore[attr-defined]
        raise NotApplicable(f"the kit has no release that tells all or nothing as a {names}")
    trained = small_run(subject)
    ready = trained.ready
    corpus = ready.planted_corpus.corpus
    release = release_of(needs[0], corpus, tells=tells).showing(events=UNPROTECTED)
    run = Retraining(ready, trained.protected.vocabulary).bound()
    attacked: Attacked = attack_all(ready, release, run)
    for failure in attacked.failed_attacks:
        raise AssertionError(failure.traceback or failure.reason)
    if attacked.skipped_attacks:
        raise NotApplicable(attacked.skipped_attacks[0].reason)
    return Leakage(dict(attacked.leakage[subject.name]), {}, attacked.lower_bounds)
