"""Sizes that fit a corpus, and the measurements that decide about them.

Users, words, classes and languages are measured. Sizes that fit take minutes on a few cores, and a
private mechanism only where there is a crowd.
"""

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
    def units(self) -> str:
        """Numbers of rows and users in words; of rows alone where each is a user of its own."""
        return f"{self.rows:,} rows" + (
            f" of {self.users:,} users" if self.users < self.rows else ""
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Measurements in words, a line each."""
        lines = [
            f"{self.units}; {self.words[0]:.0f} words a row (95 % have at most {self.words[1]:.0f})"
        ]
        if self.classes:
            shares = ", ".join(f"{name} {count:,}" for name, count in self.classes.items())
            lines.append(f"classes: {shares}")
        if self.types:
            lines.append(f"entity types: {', '.join(self.types)}")
        if self.languages:
            shares = ", ".join(
                f"{name} {100 * share:.0f} %" for name, share in self.languages.items()
            )
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


# -------------------------------------------------------------------------------------------- sizes


TOKENS = {"next-word": 400_000, "tagging": 150_000, "text-classification": 4_000_000}
"""Tokens that one training looks at: a quarter of a minute or so on a core, for small models."""

MOST_TOKENS = {"next-word": 40, "tagging": 60, "text-classification": 256}
MOST_WORDS = {"next-word": 2_000, "tagging": 3_000, "text-classification": 5_000}
"""Words of the vocabulary, at most; tokens of a row."""

FEW_USERS, CROWD = 40, 400
"""Below the first number of training users, rows are the unit; from the second, users are one."""

SPARE, MOST_LONGER = 1.25, 4.0
"""A sample holds a crowd and some to spare where there is one, unless that takes so much longer."""

HELD_OUT_SHARE, LEAST_HELD_OUT, MOST_HELD_OUT = 0.1, 10, 200


@dataclass(frozen=True)
class Sizes:
    """Numbers of a spec.

    Attributes:
        max_tokens, vocabulary: largest number of tokens of a row, and size of the vocabulary.
        epochs: epochs of training without noise.
        sample: share of the users that are taken.
        held_out: users whom membership holds out; 0 where there are too few.
        batch, steps: batch size and steps of a mechanism that protects a record.
        users_per_round, rounds, rows_per_user: sizes of one that protects a user; none where there
            are too few users.
    """

    max_tokens: int
    vocabulary: int
    epochs: int
    sample: float
    held_out: int
    batch: int
    steps: int
    users_per_round: int = 0
    rounds: int = 0
    rows_per_user: int = 0


def sizes_of(measured: Measured, task: str, effort: float = 1.0) -> Sizes:
    """Choose sizes for a task.

    Args:
        measured: measurements of the corpus.
        task: name of the task.
        effort: factor of the tokens that one training looks at.
    """
    budget = effort * TOKENS.get(task, min(TOKENS.values()))
    most = MOST_TOKENS.get(task, min(MOST_TOKENS.values()))
    tokens = max(8, min(round(measured.words[1]) + 1, most))
    row = min(measured.words[0] + 1, tokens)
    whole = measured.training * row
    sample = budget / (2 * whole)
    crowd = min(SPARE * CROWD / max(measured.training_users, 1), MOST_LONGER * sample)
    sample = min(1.0, round(max(sample, crowd), 2) or 0.01)
    rows, users = measured.training * sample, measured.training_users * sample
    epochs = int(max(2, min(12, budget / max(rows * row, 1))))
    held_out = int(max(LEAST_HELD_OUT, min(MOST_HELD_OUT, HELD_OUT_SHARE * users)))
    batch = int(max(32, min(512, rows / 10)))
    steps = int(max(30, min(100, budget / (2 * batch * row))))
    vocabulary = max(200, min(MOST_WORDS.get(task, 2_000), measured.vocabulary))
    shared = (tokens, vocabulary, epochs, sample, held_out if users >= 4 * held_out else 0)
    if users < CROWD or measured.training_users == measured.training:  # a user is a row
        return Sizes(*shared, batch, steps)
    a_round = int(max(80, min(300, users / 8)))
    rows_of_user = int(max(1, min(20, rows / users, budget / (a_round * 20 * row))))
    rounds = int(max(15, min(60, budget / (a_round * rows_of_user * row))))
    return Sizes(*shared, batch, steps, a_round, rounds, rows_of_user)
