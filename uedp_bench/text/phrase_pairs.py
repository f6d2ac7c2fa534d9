"""Pairs of phrases that are consistent with an alignment of their words.

Koehn 2009 ("Statistical Machine Translation"), figure 5.1, as Moses does it: words at the border
of a phrase that have no link join it on either side, and both sides are limited in length.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from uedp_bench.text.symmetrised_alignment import Link


class PhrasePair(NamedTuple):
    """Positions of the words of a phrase and of its translation; ends are exclusive."""

    start: int
    end: int
    target_start: int
    target_end: int


def phrase_pairs(
    links: Collection[Link], words: int, target_words: int, longest: int, longest_target: int
) -> Iterator[PhrasePair]:
    """All consistent pairs of phrases of one pair of sentences, each once.

    A pair is consistent if no word in it is linked to a word outside, and it has a link at all.

    Args:
        links: alignment of the two sentences.
        words: number of words of the sentence.
        target_words: number of words of its translation.
        longest: largest number of words of a phrase.
        longest_target: largest number of words of its translation.
    """
    spans, target_spans = _reach(links, words, 0), _reach(links, target_words, 1)
    for start in range(words):
        low, high = target_words, -1
        for end in range(start + 1, min(words, start + longest) + 1):
            low, high = min(low, spans[end - 1][0]), max(high, spans[end - 1][1])
            if high - low >= longest_target:
                break  # a longer phrase reaches at least as far
            if high < 0 or not _inside(target_spans, low, high, start, end):
                continue
            for target_start, target_end in _grown(target_spans, low, high, longest_target):
                yield PhrasePair(start, end, target_start, target_end)


Reach = list[tuple[int, int]]
"""First and last position on the other side that each word is linked to; `_NONE` without links."""

_NONE = (1 << 30, -1)


def _reach(links: Collection[Link], words: int, side: int) -> Reach:
    out = [_NONE] * words
    for link in links:
        low, high = out[link[side]]
        other = link[1 - side]
        out[link[side]] = (min(low, other), max(high, other))
    return out


def _inside(target_spans: Reach, low: int, high: int, start: int, end: int) -> bool:
    """True if all words from low to high, both included, are linked to [start, end) alone."""
    linked = (span for span in target_spans[low : high + 1] if span != _NONE)
    return all(start <= first and last < end for first, last in linked)


def _grown(target_spans: Reach, low: int, high: int, longest: int) -> Iterator[tuple[int, int]]:
    """The phrase from low to high, and with words around it that have no link."""
    start = low
    while start >= 0 and high - start < longest and (start == low or target_spans[start][1] < 0):
        end = high
        while (
            end < len(target_spans)
            and end - start < longest
            and (end == high or target_spans[end][1] < 0)
        ):
            yield start, end + 1
            end += 1
        start -= 1
