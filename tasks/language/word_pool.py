"""The words of a pool as token sequences, so that texts made of them need not be tokenised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uedp_bench.corpus import IntArray
from uedp_bench.tasks.language.continuations import Pieces, joined

ENCODED = 3
"""Texts that are split into tokens for each word of a pool."""

Encode = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True, eq=False)
class WordPool:
    """Suffixes made of the words of a pool, as tokens after a common prefix.

    Attributes:
        prefix: tokens of what comes before, as far as no word of the pool changes them.
        first: the words right after it.
        later: the words after another word.
    """

    prefix: list[int]
    first: Pieces
    later: Pieces

    @staticmethod
    def of(encode: Encode, before: str, words: Sequence[str]) -> WordPool | None:
        """The pool, or None where tokens of a text are not those of its words.

        Every word is looked at after another one and before a third: if the tokens of these texts
        are those of their words one after the other, so are those of all texts. A token that
        begins a word may not stand inside one either, so that no two texts have the same tokens in
        other words.

        Args:
            encode: token ids of texts.
            before: what stands before all suffixes.
            words: of the pool.
        """
        prefix, *begun = encode([before, *(before + word for word in words)])
        common = common_prefix(prefix, begun)
        first = [tokens[common:] for tokens in begun]
        lead = begun[0]
        after = encode([f"{before}{words[0]} {word}" for word in words])
        if any(tokens[: len(lead)] != lead for tokens in after):
            return None
        later = [tokens[len(lead) :] for tokens in after]
        if not all(first) or not all(later):
            return None
        inside = {token for tokens in (*first, *later) for token in tokens[1:]}
        if inside & {tokens[0] for tokens in later}:
            return None
        turns = [[(at + step) % len(words) for step in (0, 1, 3)] for at in range(len(words))]
        texts = encode([before + " ".join(words[at] for at in turn) for turn in turns])
        for (a, b, c), tokens in zip(turns, texts, strict=True):
            if tokens != [*prefix[:common], *first[a], *later[b], *later[c]]:
                return None
        return WordPool(prefix[:common], Pieces.of(first), Pieces.of(later))

    def levels(self, length: int) -> list[Pieces]:
        """The words at each place of a suffix of so many words."""
        return [self.first, *[self.later] * (length - 1)]

    def rows(self, suffixes: IntArray) -> IntArray:
        """(suffixes, longest) tokens, filled up with -1, of suffixes (suffixes, words)."""
        levels = self.levels(suffixes.shape[1])
        places = zip(levels, suffixes.T, strict=True)
        return joined([level.tokens[level.words[column]] for level, column in places])


def common_prefix(prefix: list[int], full: list[list[int]]) -> int:
    """Length of the longest part of `prefix` with which every sequence begins."""
    common = len(prefix)
    for tokens in full:
        while tokens[:common] != prefix[:common]:
            common -= 1
    return common
