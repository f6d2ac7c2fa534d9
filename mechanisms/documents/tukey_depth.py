"""Approximate Tukey depth of many candidates in many documents at once.

On a projection, h is the number of a document's k sentences at or above the candidate, and the
depth there is min(h, k - h). The depth over all projections is their least, as the text of the
paper and Tukey's definition have it, or their greatest, as the pseudo-code in its appendix has it.

Source: Meehan, Mrini, Chaudhuri 2022, Section 4.4 and Appendix A.1 (whose utility -|h - k/2| is the
same number minus k/2, and k is not protected).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from uedp_bench.corpus import FloatArray, IntArray

Depth = Literal["lowest", "highest"]

_CELLS = 1 << 24  # of the largest array of a block: some 16 MB
_DOCUMENTS = 32  # of a block: numpy copies rows of 32 bytes fastest


class TukeyDepth:
    """Depths of a fixed set of candidates on fixed projections, prepared for many documents.

    Args:
        candidates: (m, d).
        directions: (p, d) of the projections.
        depth: which one over the projections counts.
    """

    def __init__(self, candidates: NDArray[Any], directions: FloatArray, depth: Depth) -> None:
        self.depth = depth
        self._directions = np.asarray(directions, dtype=np.float64)
        values = self._directions @ np.asarray(candidates, dtype=np.float64).T
        order = np.argsort(values, axis=1)
        self._sorted = np.take_along_axis(values, order, axis=1)
        self._rank = np.empty_like(order)
        np.put_along_axis(self._rank, order, np.arange(values.shape[1])[None], axis=1)

    def blocks(self, points: NDArray[Any], lengths: IntArray) -> Iterator[NDArray[np.int64]]:
        """Depths, a block of documents after the other.

        Args:
            points: (sentences, d) of all documents, one document after the other.
            lengths: (documents,) sentences of each, at least one.

        Yields:
            (documents of the block, m) depths, from 0 to half of a document's sentences.
        """
        size = int(np.clip(_CELLS // self._rank.size, 1, _DOCUMENTS))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        for first in range(0, len(lengths), size):
            part = lengths[first : first + size]
            yield self._block(points[ends[first] : ends[first + len(part)]], part)

    def __call__(self, points: NDArray[Any], lengths: IntArray) -> NDArray[np.int64]:
        """(documents, m) depths; arguments as for `blocks`."""
        none = np.empty((0, self._rank.shape[1]), dtype=np.int64)
        return np.concatenate([none, *self.blocks(points, lengths)])

    def _block(self, points: NDArray[Any], lengths: IntArray) -> NDArray[np.int64]:
        below, start = self._among_candidates(points)
        table = _depth_by_start(below, start, lengths)
        (p, cells, documents), m = table.shape, self._rank.shape[1]
        # Candidates between the same two sentences have the same depths in every document, so that
        # their rows of the table are copied, all documents at once.
        at = np.take_along_axis(start, self._rank + 1, axis=1) + cells * np.arange(p)[:, None]
        rows = table.reshape(p * cells, documents).take(at.ravel(), axis=0, mode="clip")
        over = np.minimum if self.depth == "lowest" else np.maximum
        deepest = over.reduce(rows.reshape(p, m * documents), axis=0)
        depths: NDArray[np.int64] = deepest.reshape(m, documents).T.astype(np.int64)
        return depths

    def _among_candidates(self, points: NDArray[Any]) -> tuple[IntArray, IntArray]:
        """Ranks of sentences and candidates among each other, on every projection.

        Returns:
            (p, sentences) how many candidates are at or below each sentence, and (p, m + 2) how
            many sentences have fewer than t candidates at or below them: they are below the
            candidate of rank t - 1.
        """
        import torch

        values = self._directions @ np.asarray(points, dtype=np.float64).T
        ranks = torch.searchsorted(
            torch.from_numpy(self._sorted), torch.from_numpy(values), right=True
        )
        below: IntArray = ranks.numpy()
        p, width = len(below), self._rank.shape[1] + 1
        flat = below + width * np.arange(p)[:, None]
        counts = np.bincount(flat.ravel(), minlength=p * width).reshape(p, width)
        return below, np.concatenate([np.zeros((p, 1), np.int64), np.cumsum(counts, axis=1)], 1)


def _depth_by_start(below: IntArray, start: IntArray, lengths: IntArray) -> NDArray[Any]:
    """(p, sentences + 1, documents) depth of a candidate that so many sentences are below."""
    p, sentences = below.shape
    documents = len(lengths)
    # A sentence is below a candidate if more sentences are below the candidate than are below the
    # lowest candidate that this sentence does not reach; one below all candidates always is.
    first = np.where(below > 0, np.take_along_axis(start, below, axis=1) + 1, 0)
    owner = np.repeat(np.arange(documents), lengths)
    cell = (np.arange(p)[:, None] * (sentences + 1) + first) * documents + owner
    kind = np.int8 if lengths.max() <= np.iinfo(np.int8).max else np.int32
    table = np.zeros(p * (sentences + 1) * documents, dtype=kind)
    np.add.at(table, cell.ravel(), kind(1))
    cells = table.reshape(p, sentences + 1, documents)
    lower: NDArray[Any] = np.add.accumulate(cells, axis=1, dtype=kind)
    np.minimum(lower, lengths.astype(kind) - lower, out=lower)
    return lower
