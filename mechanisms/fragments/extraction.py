"""Phrases of the private rows of a corpus, each with its translation, and votes for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, InputError, Params, PublishingMechanism
from uedp_bench.api.networks import TranslationModel
from uedp_bench.mechanisms._noise import VotingUnit, items_of_voters, voters_of_rows
from uedp_bench.text.word_alignment import Aligner, Link, Symmetrisation, Words

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, IntArray, Run


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


TAGS = TranslationModel.TAGS
"""Words before and after a phrase, on both sides, where it is tagged (Kim et al. 2021, 3.2)."""

Phrase = tuple[str, str]
"""A phrase and its translation; words are joined by single spaces."""

UNLIMITED = 1 << 30
"""Words of a translation, at most, where the text alone is limited: more than any row has."""


class PhraseParams(Params):
    """Length of phrases, and alignment of their words."""

    max_words: int = Field(default=4, ge=1, description="words of a phrase, at most")
    limited: Literal["both", "text"] = Field(
        default="both",
        description="which side may have max_words at most: both (as Moses does, and the published "
        "fragments are), or the text alone (as the paper says)",
    )
    symmetrisation: Symmetrisation = Field(
        default="union",
        description="what becomes of the alignments of both directions: union has the fewest "
        "phrases",
    )
    trained_on: Literal["private", "public"] = Field(
        default="private",
        description="rows that the alignment is learnt from: those that are protected, as in the "
        "paper, or those of the split public, which need translations",
    )
    tags: bool = Field(
        default=False, description=f"phrases stand between {TAGS[0]} and {TAGS[1]}, on both sides"
    )


Q = TypeVar("Q", bound=PhraseParams)


@dataclass(frozen=True, eq=False)
class Phrases:
    """Occurrences of phrases.

    Attributes:
        phrases: those of every row, in order.
        row: (occurrences,) row of the corpus.
    """

    phrases: list[Phrase]
    row: IntArray


class PhraseMechanism(PublishingMechanism[Q]):
    """Publishes phrases of private rows as rows of their own, which belong to no user.

    Rows of the split `public` stay as they are. Words are what stands between white space.
    """

    carries = frozenset({"targets"})

    def reads(self) -> frozenset[str]:
        """Translations."""
        return frozenset({"targets"})

    def phrases(self, corpus: Corpus, run: Run) -> Phrases:
        """All occurrences of phrases in rows outside the split `public`.

        Raises:
            InputError: if there is nothing to learn an alignment from.
        """
        private, public = corpus.only("train", "valid", "test", "held_out"), corpus.only("public")
        run.progress("align words", 0, 2)
        aligner = self._aligner(private if self.params.trained_on == "private" else public)
        run.progress("align words", 1, 2)
        pairs = _pairs(private)
        distinct = {pair: at for at, pair in enumerate(dict.fromkeys(pairs))}
        links = aligner.links(list(distinct), self.params.symmetrisation)
        phrases_of_pairs = [self._of_pair(pair, links[at]) for pair, at in distinct.items()]
        of_row = [phrases_of_pairs[distinct[pair]] for pair in pairs]
        rows = np.flatnonzero(~corpus.where("public"))
        return Phrases(
            [phrase for phrases in of_row for phrase in phrases],
            np.repeat(rows, [len(phrases) for phrases in of_row]),
        )

    def published(self, corpus: Corpus, rows: IntArray, phrases: Sequence[Phrase]) -> Corpus:
        """Public rows as they are, then phrases as rows of nobody.

        Args:
            corpus: the one that the phrases were found in.
            rows: (phrases,) the row that each phrase is published in place of: its split, its
                label and, for those who judge an attack, its origin.
            phrases: phrases in the order of publication.
        """
        public = np.flatnonzero(corpus.where("public"))
        out = corpus.take(np.concatenate([public, rows]))
        old_targets = corpus.targets or ("",) * len(corpus)
        texts = [corpus.texts[row] for row in public.tolist()]
        targets = [old_targets[row] for row in public.tolist()]
        of_nobody = np.arange(len(out)) >= len(public)
        out = out.with_texts([*texts, *self._tagged([text for text, _ in phrases])])
        return replace(
            out,
            targets=(*targets, *self._tagged([target for _, target in phrases])),
            groups={name: np.where(of_nobody, -1, ids) for name, ids in out.groups.items()},
            attributes={n: np.where(of_nobody, -1, ids) for n, ids in out.attributes.items()},
        )

    def of_nobody(self, corpus: Corpus, phrases: Sequence[Phrase]) -> Corpus:
        """Public rows as they are, then phrases as training rows of no user and no origin."""
        private = np.flatnonzero(~corpus.where("public"))
        out = self.published(corpus, np.repeat(private[:1], len(phrases)), phrases)
        new = np.arange(len(out)) >= len(out) - len(phrases)
        labels = None if out.labels is None else np.where(new, -1, out.labels)
        return replace(
            out,
            split=np.where(new, SPLITS.index("train"), out.split),
            origin=np.where(new, -1, out.origin),
            labels=labels,
        )

    def _tagged(self, side: list[str]) -> list[str]:
        first, last = TAGS
        return [f"{first} {phrase} {last}" for phrase in side] if self.params.tags else side

    def _aligner(self, rows: Corpus) -> Aligner:
        pairs = [pair for pair in _pairs(rows) if all(pair)]
        if not pairs:
            rows_of = self.params.trained_on
            raise InputError(
                f"{self.name}.trained_on is {rows_of}, and no {rows_of} row has a text and a "
                "translation to learn an alignment from"
            )
        return Aligner.train(pairs)

    def _of_pair(self, pair: tuple[Words, Words], links: frozenset[Link]) -> list[Phrase]:
        p, (words, target) = self.params, pair
        other = p.max_words if p.limited == "both" else UNLIMITED
        return [
            (" ".join(words[at.start : at.end]), " ".join(target[at.target_start : at.target_end]))
            for at in phrase_pairs(links, len(words), len(target), p.max_words, other)
        ]


def _pairs(rows: Corpus) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    targets = rows.targets or ("",) * len(rows)
    return [
        (tuple(text.split()), tuple(target.split()))
        for text, target in zip(rows.texts, targets, strict=True)
    ]


Counts = dict[Phrase, int]
"""Count of each phrase of one voter."""


def phrases_of_voters(
    corpus: Corpus, every: Phrases, unit: VotingUnit, name: str
) -> dict[int, Counts]:
    """Phrases of each voter; voters are users, or rows by their key.

    Args:
        corpus: corpus of the phrases.
        every: all occurrences.
        unit: unit that votes.
        name: name of the mechanism, for the message.

    Raises:
        InputError: if users vote and a row has none.
    """
    return items_of_voters(voters_of_rows(corpus, every.row, unit, name), every.phrases)
