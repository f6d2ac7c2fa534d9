"""Measurements of a corpus that decide about sizes: users, words, classes, languages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from uedp_bench.corpus import Corpus

LANGUAGES = {
    "English": "the and of to in is that for it with was on are this not you have",
    "German": "der die und das nicht ist ein eine zu den mit sich auf für es im auch",
    "French": "le les des est une et que dans pour pas qui sur avec ce il au du",
    "Spanish": "el los las una que por con para es no lo como más pero su al del",
    "Italian": "il che di non per una con sono del della anche gli nel alla più è",
    "Portuguese": "que não uma para com os como mais ao dos das foi seu você em é",
    "Dutch": "het een van en niet dat op te zijn voor met ook aan er maar bij ik",
}
"""Frequent words of languages; each is looked for among the words of a text."""

LEAST_SHARE, MOST_ROWS = 0.08, 2_000
"""Share of a text's words that are frequent ones of a language that it is in; rows looked at."""


@dataclass(frozen=True)
class Measured:
    """Sizes of a corpus.

    Attributes:
        rows, users: rows and users of all splits.
        training, training_users, public: rows and users of the train split; rows of the public one.
        words: median and 95th percentile of words a row.
        classes: rows of each label.
        types: types of entities.
        languages: share of the rows that look like each, the most frequent first.
        vocabulary: different words of the public split that stand there twice or more.
        unknown: share of the training words that are not among the frequent ones of public text.
    """

    rows: int
    users: int
    training: int
    training_users: int
    public: int
    words: tuple[float, float]
    classes: dict[str, int]
    types: tuple[str, ...]
    languages: dict[str, float]
    vocabulary: int
    unknown: float

    @property
    def lines(self) -> tuple[str, ...]:
        """Measurements in words, a line each."""
        lines = [
            f"{self.rows:,} rows of {self.users:,} users; {self.words[0]:.0f} words a row (95 % "
            f"have at most {self.words[1]:.0f})"
        ]
        if self.classes:
            shares = ", ".join(f"{name} {count:,}" for name, count in self.classes.items())
            lines.append(f"classes: {shares}")
        if self.types:
            lines.append(f"entity types: {', '.join(self.types)}")
        if self.languages:
            shares = ", ".join(f"{name} {share:.0%}" for name, share in self.languages.items())
            lines.append(f"language, by frequent words: {shares}")
        return tuple(lines)


def measure(corpus: Corpus, most_words: int) -> Measured:
    """Sizes of a corpus.

    Args:
        corpus: corpus with its splits.
        most_words: largest number of words of a vocabulary from its public split.
    """
    train, public = corpus.only("train"), corpus.only("public")
    lengths = [len(text.split()) for text in corpus.texts]
    labels = corpus.labels
    classes = {
        name: int((labels == at).sum()) if labels is not None else 0
        for at, name in enumerate(corpus.label_names)
    }
    counts = _words(public)
    kept = {word for word, _ in counts.most_common(most_words)}
    of_train = _words(train)
    unknown = sum(count for word, count in of_train.items() if word not in kept)
    return Measured(
        rows=len(corpus),
        users=len(np.unique(corpus.users[corpus.users >= 0])),
        training=len(train),
        training_users=len(np.unique(train.users[train.users >= 0])),
        public=len(public),
        words=(float(np.median(lengths)), float(np.percentile(lengths, 95))),
        classes=classes,
        types=corpus.entity_types,
        languages=languages(tuple(corpus.texts)),
        vocabulary=sum(count > 1 for count in counts.values()),
        unknown=unknown / max(of_train.total(), 1),
    )


def _words(corpus: Corpus) -> Counter[str]:
    """Words in lower case without the signs around them."""
    return Counter(
        word
        for text in corpus.texts
        for raw in text.lower().split()
        if (word := raw.strip(".,;:!?\"'()[]{}<>*-_/\\"))
    )


def languages(texts: tuple[str, ...]) -> dict[str, float]:
    """Share of the texts that look like each language; those with no frequent word are left out."""
    frequent = {name: frozenset(words.split()) for name, words in LANGUAGES.items()}
    step = max(len(texts) // MOST_ROWS, 1)
    counts: Counter[str] = Counter()
    for text in texts[::step]:
        words = text.lower().split()
        hits = {
            name: sum(word in frequent_words for word in words)
            for name, frequent_words in frequent.items()
        }
        best = max(hits, key=lambda name: hits[name])
        if words and hits[best] >= LEAST_SHARE * len(words):
            counts[best] += 1
    return {
        name: count / counts.total()
        for name, count in counts.most_common()
        if count >= 0.05 * counts.total()
    }
