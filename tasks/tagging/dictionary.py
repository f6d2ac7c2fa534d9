"""The floor that takes no training: entities of public text, found again word by word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from uedp_bench.corpus import IntArray, normal_spelling
from uedp_bench.tasks.tagging.words import WordTable

Phrase = tuple[str, ...]
"""The words of an entity, in their normal spelling: the case of a word tells names from others."""


def dictionary(entities: Iterable[tuple[Phrase, int]]) -> dict[Phrase, int]:
    """The type that each phrase has most often; of equally frequent ones the first by number.

    Args:
        entities: words and type of every mention.
    """
    counts: defaultdict[Phrase, Counter[int]] = defaultdict(Counter)
    for phrase, kind in entities:
        counts[tuple(map(normal_spelling, phrase))][kind] += 1
    return {phrase: min(of, key=lambda kind: (-of[kind], kind)) for phrase, of in counts.items()}


def labelled_phrases(words: WordTable, labels: IntArray) -> list[tuple[Phrase, int]]:
    """Words and type of every entity that BIO2 labels (words,) mark."""
    begins = np.flatnonzero((labels > 0) & (labels % 2 == 1))
    ends = np.append(np.flatnonzero((labels == 0) | (labels % 2 == 1)), len(labels))
    stops = ends[np.searchsorted(ends, begins, "right")]
    # A row may end inside of an entity whose I- the next row does not go on: rows are apart.
    row_ends = words.offsets[1:][words.row[begins]]
    return [
        (words.words[a:b], int(labels[a] - 1) // 2)
        for a, b in zip(begins.tolist(), np.minimum(stops, row_ends).tolist(), strict=True)
    ]


def longest_matches(words: WordTable, phrases: Mapping[Phrase, int]) -> IntArray:
    """(words,) labels by the longest phrase that starts at a word, row by row, left to right."""
    by_first: defaultdict[str, set[int]] = defaultdict(set)
    for phrase in phrases:
        by_first[phrase[0]].add(len(phrase))
    lengths = {word: sorted(found, reverse=True) for word, found in by_first.items()}
    spelled = tuple(map(normal_spelling, words.words))
    labels = np.zeros(len(spelled), dtype=np.int64)
    bounds = words.offsets.tolist()
    for at, end in pairwise(bounds):
        while at < end:
            size = _longest(spelled, at, end, (phrases, lengths))
            if size:
                kind = phrases[spelled[at : at + size]]
                labels[at : at + size] = 2 + 2 * kind
                labels[at] -= 1
            at += max(size, 1)
    return labels


def _longest(
    words: Sequence[str],
    at: int,
    end: int,
    known: tuple[Mapping[Phrase, int], Mapping[str, Sequence[int]]],
) -> int:
    """Words of the longest phrase that starts here; 0 for none."""
    phrases, lengths = known
    for size in lengths.get(words[at], ()):
        if at + size <= end and tuple(words[at : at + size]) in phrases:
            return size
    return 0
