"""Public candidates, and the private choice of one of them for each document.

Source: Meehan, Mrini, Chaudhuri 2022, Sections 4.1, 4.2 and 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.mechanisms._local_noise import choose_by_score
from uedp_bench.mechanisms.documents.recoder import Recoder
from uedp_bench.mechanisms.documents.sentence_mechanism import Documents
from uedp_bench.mechanisms.documents.tukey_depth import Depth, TukeyDepth

if TYPE_CHECKING:
    from uedp_bench.corpus import FloatArray, IntArray

PROJECTIONS = tuple(range(10, 101, 10))
"""Numbers of projections among which one is chosen."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a document is published as, all of it made from public documents.

    Attributes:
        recoder: of sentence vectors.
        vectors: (m, d) means of the recoded sentence vectors of public documents.
        depth: of the candidates in recoded documents.
    """

    recoder: Recoder
    vectors: FloatArray
    depth: TukeyDepth

    def choose(
        self, documents: Documents, epsilon: float, rngs: Sequence[np.random.Generator]
    ) -> tuple[IntArray, float]:
        """(documents,) candidates drawn by the exponential mechanism, and what that is worth.

        A candidate of depth u has odds e^(epsilon u / 2); a sentence changes its depth by 1.
        """
        recoded = self.recoder(documents)
        chosen = np.empty(len(documents), dtype=np.int64)
        at, worth = 0, 0.0
        for block in self.depth.blocks(recoded.vectors, recoded.lengths):
            part = slice(at, at + len(block))
            chosen[part], here = choose_by_score(block, epsilon / 2, 1.0, rngs[part])
            at, worth = at + len(block), max(worth, here)
        return chosen, worth


def directions(count: int, size: int, rng: np.random.Generator) -> FloatArray:
    """(count, size) uniform on the unit sphere; fewer of them are the first of more."""
    vectors = rng.normal(size=(count, size))
    unit: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def expected_errors(
    documents: Documents, vectors: FloatArray, depth: TukeyDepth, epsilon: float
) -> Iterator[FloatArray]:
    """Expected squared distance between a document's mean and the candidate that it gets.

    Over the exponential mechanism's choice, so that nothing is drawn and no label is needed.

    Args:
        documents: recoded ones.
        vectors: (m, d) candidates.
        depth: of them.
        epsilon: of the mechanism.

    Yields:
        (documents,) of the next block of documents.
    """
    means = documents.means()
    lengths = np.einsum("md,md->m", vectors, vectors)
    at = 0
    for block in depth.blocks(documents.vectors, documents.lengths):
        mean = means[at : at + len(block)]
        at += len(block)
        odds = np.exp(epsilon / 2 * (block - block.max(axis=1, keepdims=True)))
        odds /= odds.sum(axis=1, keepdims=True)
        distance = lengths - 2 * mean @ vectors.T + np.einsum("nd,nd->n", mean, mean)[:, None]
        yield np.einsum("nm,nm->n", odds, distance)


def best_projections(
    documents: Documents,
    vectors: FloatArray,
    all_directions: FloatArray,
    epsilon: float,
    depth: Depth,
) -> tuple[int, Mapping[int, float]]:
    """The number of projections at which candidates come closest to held-out public documents.

    Returns:
        the number, the smaller of equals, and the mean of `expected_errors` at each.
    """
    found = {
        p: float(np.concatenate([
            *expected_errors(documents, vectors, TukeyDepth(vectors, all_directions[:p], depth),
                             epsilon)]).mean())
        for p in PROJECTIONS
    }  # fmt: skip
    return min(found, key=lambda p: (found[p], p)), found
