"""Texts of canaries, by design: what makes one tell more of its training than another."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.attacks._planting import frequent_words, surfaces, unused_name
from uedp_bench.corpus import normal_surface

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus

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
        trained = corpus.only("train").texts
        counts = Counter(word for text in trained for word in set(text.split()))
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
