"""Beam search over a released model: the most likely continuations of a prefix, word by word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray
    from uedp_bench.release import Generator

TOKENS_PER_WORD = 8
"""A search gives up on words of more tokens than this."""


class Hypothesis(NamedTuple):
    """A token sequence with its log-probability (nats) given the prefix, and its words so far."""

    score: float
    tokens: tuple[int, ...]
    words: int


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
        live = [Hypothesis(0.0, tuple(self.generator.encode(prefix)), len(prefix.split()))]
        done: list[tuple[float, str]] = []
        for _ in range(TOKENS_PER_WORD * words):
            live = self._step(live, words, done)
            done = sorted(done, key=lambda found: (-found[0], found[1]))[: self.width]
            full = len(done) == self.width
            if not live or (full and live[0].score <= done[-1][0]):
                break
        return [text for _, text in done]

    def _step(
        self, live: list[Hypothesis], words: int, done: list[tuple[float, str]]
    ) -> list[Hypothesis]:
        """The best hypotheses one token longer; those that are complete are added to `done`.

        All live hypotheses have equally many tokens: each step adds one to each.
        """
        starts, silent = self._shown
        logp = np.asarray(self.generator.next_logprobs([h.tokens for h in live]))
        last = np.array([h.words == words for h in live])
        for at in np.flatnonzero(last).tolist():
            ends = float(np.logaddexp.reduce(logp[at][starts | silent]))
            text = " ".join(self.generator.decode(live[at].tokens).split())
            done.append((live[at].score + ends, text))
        total = logp + np.array([h.score for h in live])[:, None]
        total = np.where(silent | (last[:, None] & starts), -np.inf, total)
        best = np.argsort(-total, axis=None, kind="stable")[: self.width].tolist()
        pairs = [divmod(flat, self._size) for flat in best if np.isfinite(total.flat[flat])]
        return [
            Hypothesis(
                float(total[at, token]),
                (*live[at].tokens, token),
                live[at].words + int(starts[token]),
            )
            for at, token in pairs
        ]
