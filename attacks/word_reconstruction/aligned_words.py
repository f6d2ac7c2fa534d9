"""Which published word stands where an original one stood."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus
    from uedp_bench.release import WordChannel

Split = Callable[[str], list[str]]


@dataclass(frozen=True)
class AlignedRow:
    """A row whose published words can be told to belong to its original ones.

    Attributes:
        row: of the original corpus.
        original: words that may be guessed; those that the mechanism does not know are left out.
        at: place of each among the published words.
        published: all published words of the row.
    """

    row: int
    original: list[str]
    at: list[int]
    published: list[str]


def aligned_rows(
    corpus: Corpus, published: Corpus, channel: WordChannel | None
) -> Iterator[AlignedRow]:
    """Private rows with as many published words as original ones, or as the mechanism knows.

    Args:
        corpus: the original rows.
        published: what became of them, with `origin`.
        channel: how words were replaced; None where it is not known, and then words are what
            stands between white space.
    """
    origins = zip(corpus.origin.tolist(), corpus.where("public").tolist(), strict=True)
    row_of = {at: row for row, (at, public) in enumerate(origins) if at >= 0 and not public}
    split: Split = str.split if channel is None else channel.split
    for text, origin in zip(published.texts, published.origin.tolist(), strict=True):
        row = row_of.get(origin)
        if row is None or not text:
            continue
        words, shown = split(corpus.texts[row]), text.split(" ")
        known = _known(words, channel)
        if len(shown) == len(words):
            yield AlignedRow(row, [words[i] for i in known], known, shown)
        elif len(shown) == len(known):
            yield AlignedRow(row, [words[i] for i in known], list(range(len(known))), shown)


def _known(words: Sequence[str], channel: WordChannel | None) -> list[int]:
    return [i for i, word in enumerate(words) if channel is None or channel.find(word) >= 0]
