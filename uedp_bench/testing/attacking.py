"""Checks of attacks: their planting, and their metrics where all or nothing leaks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.components.metric import Declared, Metric
from uedp_bench.contracts.capabilities import (
    Classifier,
    Completer,
    Encoder,
    LabelOnly,
    PairScorer,
    RowScorer,
    Scorer,
    TokenScores,
)
from uedp_bench.contracts.leakage import Attack, Leakage
from uedp_bench.contracts.release import Published, Release
from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.one_run.evaluation import Attacked, attack_all
from uedp_bench.one_run.protecting import Retraining
from uedp_bench.testing.checks import NotApplicable, Subject, check
from uedp_bench.testing.small_runs import corpus_of, digest, finished, small_run, tasks_for

_WIDTH = 48
"""Size of representations."""


class _Knowledge:
    """Knowledge of a release of the kit, which tells everything of a planted corpus or nothing."""

    def __init__(self, corpus: Corpus, *, tells: bool) -> None:
        train = corpus.only("train")
        self.corpus, self.tells = corpus, tells
        self.texts = frozenset(_bare(text) for text in train.texts) if tells else frozenset()
        self.all = "\n".join(sorted(self.texts))

    def knows(self, text: str) -> bool:
        """True if it was trained on this text."""
        return _bare(text) in self.texts

    def loss(self, *texts: str) -> float:
        """Loss of a text: small for training text, else a number that depends on the text alone."""
        return 0.05 if self.knows(texts[0]) else 5.0 + _number("loss", *texts)


class _Scores(Release):
    def token_logprobs(self: Any, texts: Sequence[str]) -> list[TokenScores]:
        """See `Scorer`."""
        scores = []
        for text in texts:
            size = len(text.split()) + 1
            logp = np.full(size, -self.knowledge.loss(text))
            mean = np.full(size, -4.0)
            scores.append(TokenScores(logp, mean, np.ones(size), logp > -1.0))
        return scores


class _Completes(Release):
    def filler_losses(self: Any, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """See `Completer`."""
        texts = [f"{before} {filler} {after}" for filler in fillers]
        return np.array([
            0.05 if _bare(text) in self.knowledge.all else 5.0 + _number("filler", text)
            for text in texts
        ])  # fmt: skip


class _ScoresRows(Release):
    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `RowScorer`."""
        return np.ones(len(corpus), dtype=bool)

    def row_losses(self: Any, corpus: Corpus) -> FloatArray:
        """See `RowScorer`."""
        return np.array([self.knowledge.loss(text) for text in corpus.texts])


class _Classifies(Release):
    def class_logprobs(self: Any, corpus: Corpus) -> FloatArray:
        """See `Classifier`."""
        classes = max(2, len(corpus.label_names))
        scores = np.array(
            [[_number("class", text, str(k)) for k in range(classes)] for text in corpus.texts]
        ).reshape(len(corpus), classes)
        if corpus.labels is not None:
            trained_on = np.array([self.knowledge.knows(text) for text in corpus.texts], dtype=bool)
            rows = np.flatnonzero(trained_on & (corpus.labels >= 0))
            scores[rows, corpus.labels[rows]] += 6.0
        normal: FloatArray = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return normal


class _Labels(Release):
    def labels(self: Any, corpus: Corpus) -> IntArray:
        """See `LabelOnly`."""
        return np.asarray(_Classifies.class_logprobs(self, corpus).argmax(axis=1), dtype=np.int64)


class _Represents(Release):
    def representations(self: Any, corpus: Corpus) -> FloatArray:
        """See `Encoder`: words and attributes in the clear, or numbers about nothing."""
        out = np.zeros((len(corpus), _WIDTH))
        for row, text in enumerate(corpus.texts):
            if not self.knowledge.tells:
                seed = _place(f"vector\0{row}\0{text}", 2**63)
                out[row] = np.random.default_rng(seed).normal(size=_WIDTH)
                continue
            for word in text.lower().split():
                out[row, 8 + _place(word, _WIDTH - 8)] = 1.0
        if self.knowledge.tells:
            for at, name in enumerate(sorted(corpus.attributes)[:8]):
                out[:, at] = 3.0 * corpus.attributes[name]
        return out


class _Pairs(Release):
    def pair_losses(self: Any, texts: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """See `PairScorer`."""
        return np.array([
            self.knowledge.loss(text, target) for text, target in zip(texts, targets, strict=True)
        ])  # fmt: skip


_OFFERS: dict[type, type[Release]] = {
    Scorer: _Scores,
    Completer: _Completes,
    RowScorer: _ScoresRows,
    Classifier: _Classifies,
    LabelOnly: _Labels,
    Encoder: _Represents,
    PairScorer: _Pairs,
    Published: Release,
}
"""Answers of the two releases, by capability."""


def _release_of(capability: type, corpus: Corpus, *, tells: bool) -> Release:
    """Build a release with one capability that tells all of the train split, or nothing."""
    kind = _OFFERS[capability]
    release: Any = type(f"{'Telling' if tells else 'Silent'}{capability.__name__}", (kind,), {})()
    release.knowledge = _Knowledge(corpus, tells=tells)
    release.classes = corpus.label_names
    if capability is Published:
        seen = corpus.only("train", "valid", "public", "test")
        release.published = seen if tells else _without_text(seen)
    typed: Release = release
    return typed


def _without_text(corpus: Corpus) -> Corpus:
    """The corpus with words that say nothing, and without what people marked in its texts."""
    texts = tuple(
        " ".join(f"w{int(9 * _number(str(row), str(at)))}" for at in range(8))
        for row in range(len(corpus))
    )
    lost = type(corpus.entities).none()
    targets = None if corpus.targets is None else texts
    return replace(corpus, texts=texts, entities=lost, layers={}, targets=targets)


def _bare(text: str) -> str:
    return "".join(text.split())


def _number(*names: str) -> float:
    """A number in [0, 1) that the names decide."""
    return _place("\0".join(names), 2**40) / 2**40


def _place(name: str, many: int) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % many


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
    corpus = corpus_of(subject)
    attack: Attack[Any] = subject.create()
    before = digest(corpus)
    (first, planted), (second, again) = (
        attack.plant(corpus, np.random.default_rng(5)) for _ in range(2)
    )
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
        gap, half = chance - value.value, value.high - value.value
        if metric.better == "lower":
            gap, half = value.value - chance, value.value - value.low
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
    needs = [need for need in subject.component.needs if need in _OFFERS]  # type: ignore[attr-defined]
    if not needs:
        names = ", ".join(need.__name__ for need in subject.component.needs)  # type: ignore[attr-defined]
        raise NotApplicable(f"the kit has no release that tells all or nothing as a {names}")
    trained = small_run(subject)
    ready = trained.ready
    corpus = ready.planted_corpus.corpus
    release = _release_of(needs[0], corpus, tells=tells).showing(events=UNPROTECTED)
    run = Retraining(ready, trained.protected.vocabulary).bound()
    attacked: Attacked = attack_all(ready, release, run)
    for failure in attacked.failed_attacks:
        raise AssertionError(failure.traceback or failure.reason)
    if attacked.skipped_attacks:
        raise NotApplicable(attacked.skipped_attacks[0].reason)
    return Leakage(dict(attacked.leakage[subject.name]), {}, attacked.lower_bounds)
