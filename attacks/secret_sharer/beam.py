"""Beam search over a released model: the most likely continuations of a prefix, word by word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.statistics.intervals import checked

if TYPE_CHECKING:
    from uedp_bench.api.capabilities import Generator
    from uedp_bench.corpus import BoolArray, FloatArray

TOKENS_PER_WORD = 8
"""A search gives up on words of more tokens than this."""

NUMBERS_AT_ONCE = 2**23
"""Log-probabilities that are asked for at once (64 MB)."""

TOGETHER = 8
"""Searches side by side."""


class Hypothesis(NamedTuple):
    """A token sequence with its log-probability (nats) given the prefix, and its words so far."""

    score: float
    tokens: tuple[int, ...]
    words: int


@dataclass(eq=False)
class _Search:
    """One search on its way.

    Attributes:
        words: words of the texts that are looked for.
        live: hypotheses that are not complete, best first; none when the search has ended.
        done: scores and texts that are complete, best first.
        steps: tokens added so far.
    """

    words: int
    live: list[Hypothesis]
    done: list[tuple[float, str]] = field(default_factory=list)
    steps: int = 0


def _silent(done: int) -> None:
    """Shows nothing."""


@dataclass(frozen=True, eq=False)
class BeamSearch:
    """The `width` most likely texts of `words` words that start with a prefix of one word or more.

    A text is complete when its last word is: with sub-word tokens, its probability includes that
    of the next token starting a new word (or ending the row), so that a fragment of a word never
    beats the word.

    Attributes:
        generator: the release that is asked.
        anchor: token ids of some word; tells which tokens start a new word after it.
        width: hypotheses that are kept at each step, and texts that are returned.
    """

    generator: Generator
    anchor: tuple[int, ...]
    width: int = 5

    @cached_property
    def _size(self) -> int:
        return int(self.generator.next_logprobs([self.anchor]).shape[1])

    @cached_property
    def _shown(self) -> tuple[BoolArray, BoolArray]:
        """(tokens,) twice: True where a token starts a word, and where it leaves the text alone."""
        before = self.generator.decode(self.anchor).split()
        after = [
            self.generator.decode([*self.anchor, token]).split() for token in range(self._size)
        ]
        starts = np.array([len(words) > len(before) for words in after])
        silent = np.array([words == before for words in after])
        return starts, silent

    def run(self, prefix: str, words: int) -> list[str]:
        """The most likely texts of `words` words, best first, words joined by single spaces."""
        return self.run_all([(prefix, words)])[0]

    def run_all(
        self, starts: Sequence[tuple[str, int]], progress: Callable[[int], None] = _silent
    ) -> list[list[str]]:
        """The texts that `run` finds for each prefix and number of words.

        Args:
            starts: prefixes, each with the number of words of its texts.
            progress: called with the number of searches that have ended.
        """
        texts: list[list[str]] = []
        for first in range(0, len(starts), TOGETHER):
            progress(first)
            texts += self._side_by_side(starts[first : first + TOGETHER])
        progress(len(starts))
        return texts

    def _side_by_side(self, starts: Sequence[tuple[str, int]]) -> list[list[str]]:
        """Run all searches of `run_all` at the same time."""
        searches = [
            _Search(
                words, [Hypothesis(0.0, tuple(self.generator.encode(prefix)), len(prefix.split()))]
            )
            for prefix, words in starts
        ]
        while going := [search for search in searches if search.live]:
            # The generator takes prefixes of equal length.
            shortest = min(len(search.live[0].tokens) for search in going)
            same = [search for search in going if len(search.live[0].tokens) == shortest]
            for search, logp in self._next_logprobs(same):
                self._step(search, logp)
        return [[text for _, text in search.done] for search in searches]

    def _next_logprobs(self, searches: list[_Search]) -> Iterator[tuple[_Search, FloatArray]]:
        """Searches with next-token log-probabilities (live, tokens) of their hypotheses."""
        at_once = max(1, NUMBERS_AT_ONCE // (self.width * self._size))
        for at in range(0, len(searches), at_once):
            part = searches[at : at + at_once]
            prefixes = [h.tokens for search in part for h in search.live]
            logprobs = checked(
                self.generator.next_logprobs(prefixes), "next-token log-probabilities"
            )
            table = logprobs.reshape(len(prefixes), -1)
            ends = np.cumsum([len(search.live) for search in part])[:-1]
            yield from zip(part, np.split(table, ends), strict=True)

    def _step(self, search: _Search, logp: FloatArray) -> None:
        """Makes the hypotheses of a search one token longer; adds those that are complete.

        All live hypotheses of a search have equally many tokens: each step adds one to each.
        """
        starts, silent = self._shown
        live, words = search.live, search.words
        last = np.array([h.words == words for h in live])
        for at in np.flatnonzero(last).tolist():
            ends = float(np.logaddexp.reduce(logp[at][starts | silent]))
            text = " ".join(self.generator.decode(live[at].tokens).split())
            search.done.append((live[at].score + ends, text))
        search.done.sort(key=lambda text: (-text[0], text[1]))
        del search.done[self.width :]
        total = logp + np.array([h.score for h in live])[:, None]
        total = np.where(silent | (last[:, None] & starts), -np.inf, total)
        search.live = [
            Hypothesis(
                float(total[at, token]),
                (*live[at].tokens, token),
                live[at].words + int(starts[token]),
            )
            for at, token in _largest(total, self.width)
        ]
        search.steps += 1
        full = len(search.done) == self.width
        complete = full and search.live and search.live[0].score <= search.done[-1][0]
        if complete or search.steps == TOKENS_PER_WORD * words:
            search.live = []


def _largest(table: FloatArray, count: int) -> list[tuple[int, int]]:
    """Places (row, column) of the largest finite numbers, largest first, ties in their order."""
    flat = table.reshape(-1)
    if len(flat) > count:
        least = np.partition(flat, len(flat) - count)[len(flat) - count]
        places = np.flatnonzero(flat >= least)
    else:
        places = np.arange(len(flat))
    best = places[np.argsort(-flat[places], kind="stable")][:count]
    return [divmod(at, table.shape[1]) for at in best.tolist() if np.isfinite(flat[at])]
