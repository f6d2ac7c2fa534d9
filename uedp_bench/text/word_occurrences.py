"""Words of a corpus as a word channel sees them: occurrences, prior, labels, substitutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from uedp_bench.corpus import Corpus, FeatureArray, FloatArray, IntArray
from uedp_bench.errors import InputError

Unlabelled = Literal["wrong", "skip"]
"""Count of a substitute without a label: as another label, or not at all."""


class WordChannel(Protocol):
    """A mechanism that replaces words one by one, as an adversary who knows it can run it."""

    @property
    def words(self) -> tuple[str, ...]:
        """The public vocabulary; words outside it are not substituted."""
        ...

    @property
    def vectors(self) -> FeatureArray:
        """(words, d) their public vectors."""
        ...

    def split(self, text: str) -> list[str]:
        """The words of a text as the mechanism sees them, those that it does not know included."""
        ...

    def find(self, word: str) -> int:
        """Index of a word as the mechanism looks it up, -1 for one that it does not know."""
        ...

    def sample(self, words: IntArray, rng: np.random.Generator) -> IntArray:
        """(n,) a fresh substitute for each of the words (n,), indexes into `words`."""
        ...


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Words of some rows, in order.

    Attributes:
        word: (occurrences,) index into the channel's vocabulary, -1 for a word outside it.
        row: (occurrences,) row of the corpus.
    """

    word: IntArray
    row: IntArray

    @staticmethod
    def from_corpus(corpus: Corpus, channel: WordChannel) -> Occurrences:
        """Find the occurrences in all rows of the corpus."""
        rows = [[channel.find(word) for word in channel.split(text)] for text in corpus.texts]
        sizes = np.array([len(words) for words in rows], dtype=np.int64)
        word = np.array([at for words in rows for at in words], dtype=np.int64)
        return Occurrences(word, np.repeat(np.arange(len(rows)), sizes))

    @property
    def in_vocabulary(self) -> Occurrences:
        """Occurrences of words in the vocabulary."""
        inside = self.word >= 0
        return Occurrences(self.word[inside], self.row[inside])


@dataclass(frozen=True, eq=False)
class Prior:
    """Pi: distribution of the words of the vocabulary.

    Attributes:
        words: (support,) words that occur, rising.
        weight: (support,) their probabilities.
    """

    words: IntArray
    weight: FloatArray

    @staticmethod
    def from_occurrences(occurrences: Occurrences) -> Prior:
        """Compute the empirical distribution of the words in the vocabulary.

        Raises:
            InputError: if there are none.
        """
        words, count = np.unique(occurrences.in_vocabulary.word, return_counts=True)
        if not len(words):
            raise InputError("no word of the corpus is in the vocabulary of the mechanism")
        return Prior(words, count / count.sum())


def word_labels(corpus: Corpus, channel: WordChannel) -> IntArray:
    """(vocabulary,) the label that most occurrences of a word have, -1 for none or a tie.

    Public rows do not count. Where a row is one word, it is that word's label.

    Raises:
        InputError: if the corpus has no labels.
    """
    if corpus.labels is None or not (corpus.labels >= 0).any():
        raise InputError("the corpus has no labels; use a source whose rows have one")
    rows = corpus.take(np.flatnonzero(~corpus.where("public")))
    seen = Occurrences.from_corpus(rows, channel).in_vocabulary
    label = corpus.labels[~corpus.where("public")][seen.row]
    size, classes = len(channel.words), int(corpus.labels.max()) + 1
    cell = seen.word[label >= 0] * classes + label[label >= 0]
    counts = np.bincount(cell, minlength=size * classes).reshape(size, classes)
    most = counts.max(axis=1)
    unique = (most > 0) & ((counts == most[:, None]).sum(axis=1) == 1)
    return np.where(unique, counts.argmax(axis=1), -1)


@dataclass(frozen=True, eq=False)
class Substitution:
    """Substitution of words, as means over draws of the channel.

    Attributes:
        wrong, labelled: (words,) shares of draws with another label, and of draws that count.
        unchanged: (words,) share of draws that are the word itself.
        distance: (words,) Euclidean distance of the substitute's vector.
    """

    wrong: FloatArray
    labelled: FloatArray
    unchanged: FloatArray
    distance: FloatArray

    @staticmethod
    def from_draws(
        words: IntArray,
        drawn: IntArray,
        channel: WordChannel,
        label: IntArray,
        unlabelled: Unlabelled,
    ) -> Substitution:
        """Compare the words (n,) with their substitutes (n, draws).

        A word that carries no label itself has none to lose and does not count.
        """
        own, new = label[words][:, None], label[drawn]
        counts = (own >= 0) & ((new >= 0) | (unlabelled == "wrong"))
        vectors = channel.vectors.astype(np.float64)
        far = np.empty(drawn.shape)
        for at in range(drawn.shape[1]):  # bounds memory: (n, d) at a time
            far[:, at] = np.linalg.norm(vectors[drawn[:, at]] - vectors[words], axis=1)
        return Substitution(
            wrong=(counts & (new != own)).mean(axis=1),
            labelled=counts.mean(axis=1),
            unchanged=(drawn == words[:, None]).mean(axis=1),
            distance=far.mean(axis=1),
        )


def draw(words: IntArray, draws: int, channel: WordChannel, rng: np.random.Generator) -> IntArray:
    """(n, draws) substitutes of the words (n,)."""
    return channel.sample(np.repeat(words, draws), rng).reshape(len(words), draws)
