"""Canaries of the audit attack: their texts by design, a coin each, and the rows that hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from uedp_bench.api import InputError, Mention, Planted
from uedp_bench.api.text import normal_surface
from uedp_bench.attacks._planting import (
    frequent_words,
    person_type,
    replace_rows,
    surfaces,
    unused_name,
)

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, IntArray


class AuditCanary(BaseModel):
    """A user that is in the training data or not, by a fair coin.

    Attributes:
        user: user whose text it replaces.
        text: words joined by single spaces; each of the user's rows.
        others: users of whom some rows hold the text too (entity canaries).
        included: the coin.
        rows: training rows of the user that hold it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    user: int
    text: str
    others: tuple[int, ...] = ()
    included: bool
    rows: int


class PlantedAudit(Planted):
    """All canaries.

    Attributes:
        canaries: canaries of the one training run, each with a coin of its own.
        subject: always in the corpus; retrainings put it in or leave it out. None without them.
        words: words that second parts of canaries and their references are made of.
    """

    canaries: tuple[AuditCanary, ...]
    subject: AuditCanary | None = None
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def of_records(self) -> bool:
        """True if every canary user has one row."""
        subject = () if self.subject is None else (self.subject,)
        return all(canary.rows == 1 for canary in (*self.canaries, *subject))


class Sizes(NamedTuple):
    """Numbers of canaries, users and rows to plant.

    Attributes:
        canaries: all of them, the subject included.
        others: users beside the canary user that mention it.
        sentences: rows of each of those.
        user_rows: rows of a canary user, at most; None for all that it has.
    """

    canaries: int
    others: int
    sentences: int
    user_rows: int | None


def draw_users(
    corpus: Corpus, sizes: Sizes, rng: np.random.Generator
) -> tuple[list[int], list[list[int]]]:
    """Disjoint training users: one a canary, and those that mention it too.

    Raises:
        InputError: if there are too few.
    """
    train = corpus.where("train") & (corpus.users >= 0)
    have = np.bincount(corpus.users[train], minlength=corpus.user_count)
    needed = sizes.canaries * sizes.others
    able = rng.permutation(np.flatnonzero(have >= sizes.sentences))[:needed]
    rest = rng.permutation(np.setdiff1d(np.flatnonzero(have), able))[: sizes.canaries]
    if len(able) < needed or len(rest) < sizes.canaries:
        raise InputError(
            f"audit.canaries: {sizes.canaries} canaries need {sizes.canaries * (1 + sizes.others)} "
            f"training users, {needed} of them with at least {sizes.sentences} rows; there are "
            f"{np.count_nonzero(have)} users, {np.count_nonzero(have >= sizes.sentences)} of them "
            "with so many rows"
        )
    return rest.tolist(), able.reshape(sizes.canaries, sizes.others).tolist()


class CanaryRows(NamedTuple):
    """Rows of one canary: `own` and `others` hold it, `spare` are never trained on."""

    own: IntArray
    others: IntArray
    spare: IntArray


def draw_rows(
    corpus: Corpus, user: int, others: list[int], sizes: Sizes, rng: np.random.Generator
) -> CanaryRows:
    """The canary user's training rows (or `user_rows` of them), and `sentences` of each other."""
    train, valid = corpus.where("train"), corpus.where("valid")
    mine = corpus.rows_of_user[user]
    own = mine[train[mine]]
    if sizes.user_rows is not None:
        own = np.sort(rng.permutation(own)[: sizes.user_rows])
    theirs = [np.empty(0, dtype=np.int64)]
    for other in others:
        rows = corpus.rows_of_user[other]
        theirs.append(rng.permutation(rows[train[rows]])[: sizes.sentences])
    holding = np.concatenate(theirs)
    # Whatever the coin, the mechanism sees no other text of those who hold the canary: a cap on the
    # rows of a user would let some of it in where the canary is withdrawn, and then the two data
    # sets are no neighbours after the cap.
    everything = np.concatenate([mine, *(corpus.rows_of_user[other] for other in others)])
    seen = everything[train[everything] | valid[everything]]
    return CanaryRows(own, holding, np.setdiff1d(seen, np.concatenate([own, holding])))


def plant_texts(
    corpus: Corpus, rows: list[CanaryRows], texts: list[str], named_after: int | None
) -> Corpus:
    """The corpus with text i in the rows of canary i.

    Args:
        corpus: is not changed.
        rows: rows of each canary.
        texts: texts of each canary.
        named_after: words before the part that is labelled as a name; None labels nothing.
    """
    where = [np.concatenate([part.own, part.others]) for part in rows]
    every = np.concatenate(where)
    planted = [
        text
        for text, canary_rows in zip(texts, where, strict=True)
        for _ in range(len(canary_rows))
    ]
    mentions = name_mentions(corpus, every.tolist(), planted, named_after)
    return replace_rows(corpus, every, planted, mentions)


def name_mentions(
    corpus: Corpus, rows: Iterable[int], texts: Iterable[str], named_after: int | None
) -> list[Mention]:
    """Mentions of a person's name, one for each row: its text after so many words.

    Args:
        corpus: corpus whose type of people they have; none where it declares no types.
        rows: their numbers.
        texts: (rows,) what they hold.
        named_after: words before the name; None for no mentions.
    """
    kind = person_type(corpus)
    if named_after is None or kind is None:
        return []
    return [
        (row, len(" ".join(text.split()[:named_after])) + 1, len(text), kind)
        for row, text in zip(rows, texts, strict=True)
    ]


Design = Literal["random-words", "rare-suffix", "own-word", "real-prefix", "sampled"]

RAREST = 5
"""Rare words are the rarest 1 / RAREST of the pool."""

TEMPERATURE = 2.0
"""Temperature of sampled text: above 1 it is less likely than public text is."""


class WordPool(NamedTuple):
    """Words that canaries are made of.

    Attributes:
        words: the most frequent ones of public text, or of the train split where nothing is public.
        suffix_words: those of second parts, and of references to compare them with.
        texts: texts of that split.
        notes: a note where nothing is public.
    """

    words: tuple[str, ...]
    suffix_words: tuple[str, ...]
    texts: tuple[str, ...]
    notes: tuple[str, ...]


def word_pool(corpus: Corpus, size: int, design: Design, canaries: int) -> WordPool:
    """The words of canaries of a design.

    Args:
        corpus: before anything is planted.
        size: size of the pool.
        design: design of the texts.
        canaries: number of canaries.

    Raises:
        InputError: if there are fewer than two, or too few for a word of each canary's own.
    """
    split = "public" if corpus.where("public").any() else "train"
    notes = () if split == "public" else ("no public text: canaries are made of training words",)
    texts = tuple(corpus.texts[row] for row in np.flatnonzero(corpus.where(split)).tolist())
    words = suffix_words = frequent_words(texts, size)
    if len(words) < 2:
        raise InputError(f"audit: the {split} split has {len(words)} usable words; 2 are needed")
    if design == "rare-suffix":
        suffix_words = words[-max(2, len(words) // RAREST) :]
    if design == "own-word":
        counts = Counter(word for text in corpus.only("train").texts for word in set(text.split()))
        suffix_words = tuple(sorted(words, key=lambda word: counts[word])[:canaries])
        if len(suffix_words) < canaries:
            raise InputError(
                f"audit.word_pool: {len(words)} words for {canaries} canaries that each have a "
                "word of their own; raise word_pool, or take fewer canaries"
            )
    return WordPool(words, suffix_words, texts, notes)


def draw_texts(
    corpus: Corpus,
    pool: WordPool,
    design: Design,
    count: int,
    lengths: tuple[int, int],
    rng: np.random.Generator,
) -> list[str]:
    """`count` canaries of so many words before and after the point where the secret begins.

    The second parts are surfaces that no entity of the corpus and no other canary has.
    """
    before, after = lengths
    drawn = _sampled(pool, count, before + after, rng) if design == "sampled" else None
    if drawn is None:
        table = rng.integers(len(pool.words), size=(count, before + after))
        drawn = [[pool.words[i] for i in row] for row in table.tolist()]
    if design == "real-prefix":
        real = [words[:before] for words in map(str.split, pool.texts) if len(words) > before]
        for row, at in zip(drawn, rng.integers(len(real), size=count).tolist(), strict=True):
            row[:before] = real[at]
    if design == "rare-suffix":
        rare = rng.integers(len(pool.suffix_words), size=(count, after))
        for row, places in zip(drawn, rare.tolist(), strict=True):
            row[before:] = [pool.suffix_words[i] for i in places]
    if design == "own-word":
        own = rng.permutation(len(pool.suffix_words))[:count].tolist()
        return [
            " ".join([*row[:before], pool.suffix_words[i]])
            for row, i in zip(drawn, own, strict=True)
        ]
    used, texts = surfaces(corpus), []
    for row in drawn:
        secret = unused_name(pool.suffix_words, " ".join(row[before:]), used, rng)
        used.add(normal_surface(secret))
        texts.append(" ".join([*row[:before], secret]))
    return texts


def _sampled(pool: WordPool, count: int, length: int, rng: np.random.Generator) -> list[list[str]]:
    """Words of a bigram model of public text at a temperature; what is unseen counts as one."""
    index = {word: at for at, word in enumerate(pool.words)}
    counts = np.ones((len(pool.words), len(pool.words)))
    for text in pool.texts:
        for first, second in pairwise(text.split()):
            if first in index and second in index:
                counts[index[first], index[second]] += 1.0
    chances = counts ** (1.0 / TEMPERATURE)
    chances /= chances.sum(axis=1, keepdims=True)
    drawn = []
    for _ in range(count):
        places = [int(rng.integers(len(pool.words)))]
        while len(places) < length:
            places.append(int(rng.choice(len(pool.words), p=chances[places[-1]])))
        drawn.append([pool.words[at] for at in places])
    return drawn
