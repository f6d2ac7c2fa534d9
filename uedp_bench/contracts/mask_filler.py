"""Capability of masked language models: scores of hidden tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from uedp_bench.contracts.capabilities import TokenScores, capability
from uedp_bench.corpus import FloatArray, IntArray


def _first_hidden(release: MaskFiller, texts: Sequence[str]) -> FloatArray:
    """Log-probabilities of the first token of each text."""
    rows = [ids[:8] for ids in map(release.encode, texts) if ids]
    scores = release.masked_logprobs(rows, [np.zeros(1, dtype=np.int64)] * len(rows))
    return np.concatenate([np.empty(0), *(score.logp for score in scores)])


@capability(lambda release, rows: _first_hidden(release, rows.texts))
@runtime_checkable
class MaskFiller(Protocol):
    """Release that scores tokens of a text when they are hidden."""

    def masked_logprobs(
        self, rows: Sequence[Sequence[int]], hidden: Sequence[IntArray]
    ) -> list[TokenScores]:
        """Scores of the hidden tokens of each row, given its other tokens alone.

        Args:
            rows: token ids, without begin and end; the release adds them. As many as the model
                allows, at most.
            hidden: (tokens,) positions of each row that the mask stands for, all at once.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without begin and end."""
        ...
