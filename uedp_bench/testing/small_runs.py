"""Small runs of a component: every stage in this process, on a corpus of a few dozen users."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.components import registry
from uedp_bench.contracts.capabilities import declared_capabilities
from uedp_bench.contracts.release import Release, protected_rows, published_of
from uedp_bench.contracts.results import Estimate, Result, RunSpec
from uedp_bench.contracts.run_context import Speed
from uedp_bench.corpus import Corpus, FloatArray
from uedp_bench.errors import InputError, MissingExtraError
from uedp_bench.one_run.components import build_sources
from uedp_bench.one_run.evaluation import score
from uedp_bench.one_run.planting import Data, load_corpus, load_data
from uedp_bench.one_run.preparing import Execution, Prepared, prepare
from uedp_bench.one_run.protecting import Protected, protect
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.identity import Identity
from uedp_bench.spec.spec import parse_spec
from uedp_bench.testing.checks import NotApplicable, Subject
from uedp_bench.testing.small_parameters import SOURCE, fitted, known_params, known_partners

ROWS = 6
"""Rows that two releases are asked about when they are compared."""

Change = Callable[[Corpus], Corpus]


class Secret(NamedTuple):
    """Source of the secret random numbers of a small run.

    Attributes:
        scope: scope that keys their streams, beside the seed.
        source: the seed and the scope, or the operating system.
    """

    scope: str = "check"
    source: NoiseSource = "seed"


SECRET = Secret()
"""Secret random numbers of runs that are to be repeated."""


def as_it_is(corpus: Corpus) -> Corpus:
    """The corpus unchanged."""
    return corpus


@dataclass(frozen=True)
class SmallRun:
    """Small run of a component: its release, and the data before and after.

    Attributes:
        ready: the run.
        protected: the release as an adversary meets it, and the stages of its training.
        before, after: digests of the corpus around the training.
    """

    ready: Prepared
    protected: Protected
    before: str
    after: str

    @property
    def release(self) -> Release:
        """Release of the run."""
        return self.protected.release

    @cached_property
    def answers(self) -> dict[str, FloatArray]:
        """Answers of the release about a few rows of its corpus, by capability."""
        return answers(self.release, self.ready.planted_corpus.corpus)


def ref(value: Any, kind: str, subject: Subject) -> dict[str, Any]:
    """A component by name with parameters of a small run."""
    named = {"name": value} if isinstance(value, str) else dict(value)
    if "params" not in named:
        component = registry.REGISTRIES[f"{kind}s"].get(named["name"])
        params = known_params(kind, named["name"], subject.folder)
        named["params"] = fitted(component, params, {})
    return named


def tasks_for(subject: Subject) -> tuple[str, ...]:
    """Names of the tasks that a component may run with, the usual one first."""
    chosen = subject.chosen_partners
    if subject.kind == "task":
        return (subject.name,)
    if "task" in chosen:
        value = chosen["task"]
        return (value if isinstance(value, str) else value["name"],)
    usual = ("next-word", "text-classification", "tagging")
    names = (*usual, *(name for name in registry.tasks.names() if name not in usual))
    if subject.kind != "model":
        # A task of a lone file is somebody's own.
        return tuple(name for name in names if name in usual or registry.tasks.digest(name))
    kinds = ((name, registry.tasks.get(name).models) for name in names)
    return tuple(name for name, kind in kinds if kind and issubclass(subject.component, kind))


def spec_of(subject: Subject, task: str, *, seed: int = 1) -> RunSpec:
    """The small run of a component with a task.

    Raises:
        InputError: if they do not fit together.
    """
    own = {"name": subject.name, "params": subject.small}
    chosen = {**known_partners("task", task), **subject.chosen_partners}
    if subject.kind in ("mechanism", "task", "source", "model"):
        chosen[subject.kind] = own
    named = chosen.get("task", task)
    named = named if isinstance(named, dict) else task
    kind = registry.tasks.get(task)
    has_vocabulary = "vocabulary" in kind.Params.model_fields
    if subject.kind == "source" and "task" not in chosen and has_vocabulary:
        # What it reads may have no public text.
        named = {"name": task, "params": {"vocabulary": "private"}}
    fields: dict[str, Any] = {
        "source": ref(chosen.get("source", SOURCE), "source", subject),
        "task": ref(named, "task", subject),
        "mechanisms": [_composition(chosen.get("mechanism", "noiseless"), subject)],
        "attacks": [own] if subject.kind == "attack" else [],
        "seeds": [seed],
        "clients": chosen.get("clients"),
    }
    if kind.models is not None:
        fields["model"] = ref(chosen.get("model", kind.default_model), "model", subject)
    (run,) = expand(parse_spec(fields))
    return run


def _composition(value: Any, subject: Subject) -> list[dict[str, Any]]:
    parts = value.split("+") if isinstance(value, str) else value
    parts = parts if isinstance(parts, list) else [parts]
    return [ref(part, "mechanism", subject) for part in parts]


def small_run(subject: Subject) -> SmallRun:
    """Train and serve with the first task that fits; a subject has one such run.

    Raises:
        NotApplicable: if no run of it is possible, with the reasons.
    """
    return _or_reason(_small_run(subject, 1, as_it_is, SECRET))


def again(
    subject: Subject, *, seed: int = 1, change: Change = as_it_is, secret: Secret = SECRET
) -> SmallRun:
    """Run `small_run` anew, with other secret numbers or data.

    Noise depends on the seed alone, so that two releases differ by the change.

    Args:
        subject: the component.
        seed: seed of the run.
        change: change of its corpus.
        secret: source of its secret random numbers; all else that is random stays the same.
    """
    return _or_reason(_small_run.__wrapped__(subject, seed, change, secret))


def _or_reason(trained: SmallRun | str) -> SmallRun:
    if isinstance(trained, str):
        raise NotApplicable(trained)
    return trained


@lru_cache(maxsize=8)
def _small_run(subject: Subject, seed: int, change: Change, secret: Secret) -> SmallRun | str:
    """Train a release, or return why no run is possible; computed once, for it may take long."""
    reasons = []
    for task in tasks_for(subject):
        try:
            return _protected(subject, spec_of(subject, task, seed=seed), change, secret)
        except MissingExtraError as error:
            return str(error)
        except InputError as error:
            reasons.append(f"{task}: {error}")
    return impossible(reasons)


def impossible(reasons: Sequence[str]) -> str:
    """Say that no small run is possible, and why."""
    first, *more = reasons or ["no task fits"]
    return f"no small run is possible: {first}{f' (and {len(more)} more)' if more else ''}"


def scored(subject: Subject, task: str) -> Mapping[str, Estimate]:
    """The utility of a small run with a task; nothing is attacked, saved or accounted for.

    Raises:
        InputError: if the run is refused.
    """
    trained = _protected(subject, spec_of(subject, task), as_it_is)
    return score(trained.ready, trained.protected).utility


def _protected(
    subject: Subject, spec: RunSpec, change: Change, secret: Secret = SECRET
) -> SmallRun:
    # Nothing is taken over from another run: neither checkpoints nor models of public stages.
    out = Path(tempfile.mkdtemp(dir=subject.folder))
    execution = Execution(out, "cpu", speed=Speed(threads=1), keep_release=False)
    sources = build_sources(spec)
    loaded = load_data(sources)
    data = Data(change(loaded.corpus), loaded.downstream)
    identity = Identity.from_spec(spec, data.fingerprint)
    ready = prepare(spec, execution, (sources, data), identity)
    ready = replace(ready, run=replace(ready.run, scope=secret.scope, noise_source=secret.source))
    before = digest(ready.planted_corpus.corpus)
    protected = protect(ready.parts, ready.planted_corpus.corpus, ready.run)
    return SmallRun(ready, protected, before, digest(ready.planted_corpus.corpus))


@lru_cache(maxsize=64)
def finished(subject: Subject, task: str) -> Result:
    """The result of the whole run with a task, which is written to the subject's folder.

    Raises:
        InputError: if the run is refused before it starts.
    """
    # A check of its own saves and loads what mechanisms, tasks and models release.
    keep = subject.kind == "source"
    execution = Execution(subject.folder, "cpu", keep_release=keep, speed=Speed(threads=1))
    return execute(spec_of(subject, task), execution)


def digest(corpus: Corpus) -> str:
    """A hash of everything in a corpus as it is now."""
    fresh = replace(corpus)  # a corpus remembers its fingerprint
    return f"{fresh.fingerprint} {hash(fresh.origin.tobytes())}"


def answers(release: Release, corpus: Corpus) -> dict[str, FloatArray]:
    """Answers of a release about a few rows, by capability."""
    shown = protected_rows(release) if release.takes_vectors else None
    rows = corpus.only("test") if shown is None and corpus.where("test").any() else corpus
    rows = rows if shown is None else shown
    rows = rows.take(np.arange(min(ROWS, len(rows))))
    return {
        one.kind.__name__: np.asarray(one.question(release, rows), dtype=np.float64)
        for one in declared_capabilities()
        if one.question is not None and isinstance(release, one.kind)
    }


def difference(first: SmallRun, second: SmallRun) -> str | None:
    """First difference between two releases, in words; None where they are equal."""
    if first.release.events != second.release.events:
        return f"events: {first.release.events} and {second.release.events}"
    for name in ("published", "inputs"):
        one, other = (getattr(trained.release, name, None) for trained in (first, second))
        if (one is None) != (other is None):
            return f"one of them shows {name}"
        if one is not None and other is not None and digest(one) != digest(other):
            return f"the rows that are {name}"
    return _first_difference(first.answers, second.answers)


def equal_parts(first: SmallRun, second: SmallRun) -> list[str]:
    """Parts of two releases that are equal, in words; parts that hold nothing are left out.

    All answers of a release are one part: labels of a few rows may agree though the scores do not.
    """
    equal = []
    for name in ("published", "inputs"):
        one, other = (getattr(trained.release, name, None) for trained in (first, second))
        if one is None or other is None:
            continue
        texts, others = (_private_texts(corpus) for corpus in (one, other))
        if any(texts) and texts == others:
            equal.append(f"the texts that are {name}")
        if one.vectors is not None and other.vectors is not None:
            same = np.array_equal(one.vectors, other.vectors)
            equal += [f"the vectors that are {name}"] if same and len(one) else []
    shows_rows = published_of(first.release) is not None
    left = {} if shows_rows else first.answers
    if left and _first_difference(left, second.answers) is None:
        equal.append(f"what they answer as {', '.join(left)}")
    return equal


def _private_texts(corpus: Corpus) -> list[str]:
    rows = zip(corpus.texts, corpus.where("public"), strict=True)
    return [text for text, public in rows if not public]


def _first_difference(
    left: Mapping[str, FloatArray], right: Mapping[str, FloatArray]
) -> str | None:
    for name in (*left, *right):
        if name not in left or name not in right:
            return f"one of them is no {name}"
        if not np.array_equal(left[name], right[name], equal_nan=True):
            return f"what they answer as {name}"
    return None


def corpus_of(subject: Subject) -> Corpus:
    """The corpus of a small run, as its source gives it.

    Raises:
        NotApplicable: if no run is possible, with the reasons.
    """
    reasons = []
    for task in tasks_for(subject):
        try:
            return load_corpus(build_sources(spec_of(subject, task)).first)
        except InputError as error:
            reasons.append(f"{task}: {error}")
    raise NotApplicable(impossible(reasons))
