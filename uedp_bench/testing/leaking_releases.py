"""Two releases that need no training: one tells whatever it is asked, one tells nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

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
from uedp_bench.contracts.release import Published, Release
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray

WIDTH = 48
"""Size of representations."""


class _Knowledge:
    """Knowledge of a release of the kit.

    Args:
        corpus: corpus with everything planted.
        tells: True for the release that tells everything.
    """

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
        completed = [f"{before} {filler} {after}" for filler in fillers]
        return np.array(
            [
                0.05 if _bare(text) in self.knowledge.all else 5.0 + _number("filler", text)
                for text in completed
            ]
        )


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
        out = np.zeros((len(corpus), WIDTH))
        for row, text in enumerate(corpus.texts):
            if not self.knowledge.tells:
                out[row] = _generator("vector", str(row), text).normal(size=WIDTH)
                continue
            for word in text.lower().split():
                out[row, 8 + _place(word, WIDTH - 8)] = 1.0
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


def offered() -> tuple[type, ...]:
    """Capabilities that the two releases may have."""
    return tuple(_OFFERS)


def release_of(capability: type, corpus: Corpus, *, tells: bool) -> Release:
    """Build a release with one capability.

    Args:
        capability: one of `offered`.
        corpus: corpus with everything planted, whose train split may leak.
        tells: True to tell everything, False to tell nothing.
    """
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


def _generator(*names: str) -> np.random.Generator:
    return np.random.default_rng(_place("\0".join(names), 2**63))


def _number(*names: str) -> float:
    """A number in [0, 1) that the names decide."""
    return _place("\0".join(names), 2**40) / 2**40


def _place(name: str, many: int) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % many
