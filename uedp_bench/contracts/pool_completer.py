"""Losses of suffixes that are made of the words of one pool, without their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from uedp_bench.contracts.capabilities import Completer
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import UedpBenchError

TEXTS_AT_ONCE = 2**15
"""Most texts that are held at once."""


@runtime_checkable
class PoolCompleter(Protocol):
    """A `Completer` that takes suffixes as numbers of words, and scores them as their texts.

    A suffix is a row of indices into `words`, and its text these words joined by single spaces.
    """

    def pool_losses(self, before: str, words: Sequence[str], suffixes: IntArray) -> FloatArray:
        """(suffixes,) losses in nats as those of `filler_losses`, of suffixes (suffixes, words)."""
        ...

    def pool_rank(self, before: str, words: Sequence[str], suffix: IntArray) -> int:
        """1 + the number of other suffixes of as many words with a lower or equal loss."""
        ...


@dataclass(frozen=True)
class TextPoolCompleter:
    """Any completer as a `PoolCompleter`: every suffix is scored as a text.

    Attributes:
        completer: completer of the texts.
    """

    completer: Completer

    def pool_losses(self, before: str, words: Sequence[str], suffixes: IntArray) -> FloatArray:
        """See `PoolCompleter`; the completer is called once."""
        return np.asarray(self.completer.filler_losses(before, "", texts_of(words, suffixes)))

    def pool_rank(self, before: str, words: Sequence[str], suffix: IntArray) -> int:
        """See `PoolCompleter`; the completer scores all suffixes, block by block.

        Raises:
            UedpBenchError: if a loss is NaN.
        """
        shape = (len(words),) * len(suffix)
        total = len(words) ** len(suffix)
        own = int(np.ravel_multi_index(suffix.tolist(), shape))
        rank = 1
        for at in range(0, total, TEXTS_AT_ONCE):
            codes = np.arange(at, min(at + TEXTS_AT_ONCE, total))
            rows = np.stack(np.unravel_index(codes[codes != own], shape), axis=1)
            # Texts are compared within one answer: their losses are rounded in the same way.
            losses = self.pool_losses(before, words, np.concatenate([suffix[None], rows]))
            if np.isnan(losses).any():
                raise UedpBenchError("the loss of a suffix is NaN")
            rank += int((losses[1:] <= losses[0]).sum())
        return rank


def by_pool(release: Completer) -> PoolCompleter:
    """Return the release if it is a `PoolCompleter`, else wrap it as one that uses texts."""
    return release if isinstance(release, PoolCompleter) else TextPoolCompleter(release)


def texts_of(words: Sequence[str], suffixes: IntArray) -> list[str]:
    """The texts of suffixes (suffixes, words) of indices into `words`."""
    return [" ".join(words[i] for i in row) for row in suffixes.tolist()]
