"""A bidirectional transformer that gives each word the vector of its first piece."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch, on_device
from uedp_bench.corpus import FeatureArray
from uedp_bench.models.networks.pooled_transformer import PaddedTransformer, Projection
from uedp_bench.models.word_pieces import PieceRows
from uedp_bench.text.full_batches import full_batches


class WordTransformer(PaddedTransformer):
    """One vector for each word; see `PaddedTransformer`."""

    def forward(self, batch: Batch) -> Tensor:
        """(rows, words, width); see `TokenEncoder`. Nothing is dropped."""
        hidden, _ = self.last_layer(batch["tokens"], batch["pieces"])
        first = torch.take_along_dim(hidden, batch["first"][:, :, None], dim=1)
        return self.projection(first)  # type: ignore[no-any-return]


class GivenWords(nn.Module):
    """Projection trained on vectors of words from a frozen encoder.

    Args:
        projection: layer on top of the vectors.
    """

    def __init__(self, projection: Projection) -> None:
        super().__init__()
        self.projection = projection
        self.width = projection.width

    def forward(self, batch: Batch) -> Tensor:
        """(rows, words, width); see `TokenEncoder`."""
        return self.projection(batch["vectors"])  # type: ignore[no-any-return]


@torch.no_grad()
def vectors_of_rows(module: WordTransformer, rows: PieceRows) -> FeatureArray:
    """(words of all rows, width) vectors; each row's do not depend on the others.

    Args:
        module: network on the device where it is to run.
        rows: pieces of the rows.
    """
    device = str(next(module.parameters()).device)
    ends = np.cumsum(rows.lengths)
    vectors = np.empty((int(rows.lengths.sum()), module.width), dtype=np.float32)
    for some, wanted in full_batches(rows.pieces.lengths, device):
        values = module(on_device(rows.batch(some), device)).cpu().numpy()
        for at, row in enumerate(some[:wanted]):
            words = int(rows.lengths[row])
            vectors[ends[row] - words : ends[row]] = values[at, :words]
    return vectors
