"""Recurrent networks that map a text to one vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uedp_bench.models.networks.lstm import (
    LayerShape,
    NetworkShape,
    RecurrentLayer,
    RecurrentNetwork,
    row_mask,
    word_mask,
)

EMBEDDING_RANGE = 0.1


class ConcatPooling(nn.Module):
    """A recurrent network's last, largest and mean outputs, side by side.

    Howard and Ruder 2018, section 3.3 ("concat pooling").

    Args:
        shape: shape of the network.
        seed: seed of the initial weights.
    """

    def __init__(self, shape: NetworkShape, seed: int) -> None:
        super().__init__()
        self.network = RecurrentNetwork(shape, seed)
        self.width = 3 * shape.embedding

    def forward(self, tokens: Tensor, lengths: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, width); see `TextEncoder`."""
        outputs = self.network.outputs_until(tokens, seeds, lengths)
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        padding = ~inside[:, :, None]
        largest = outputs.masked_fill(padding, float("-inf")).amax(dim=1)
        mean = outputs.masked_fill(padding, 0.0).sum(dim=1) / lengths[:, None]
        return torch.cat([_vectors_at(outputs, lengths - 1), largest, mean], dim=1)


class BidirectionalNetwork(nn.Module):
    """One LSTM layer in both directions; the last state of each, side by side.

    Args:
        vocabulary: number of tokens.
        embedding: size of their vectors.
        units: memory cells of each direction.
        dropout: fraction of words, and of the numbers of the representation, that are dropped.
        seed: seed of the initial weights: embeddings uniform within 0.1, layers as
            `RecurrentLayer.initialise` draws them.
    """

    def __init__(
        self, vocabulary: int, embedding: int, units: int, *, dropout: float, seed: int
    ) -> None:
        super().__init__()
        self.width, self.dropout = 2 * units, dropout
        self.embedding = nn.Parameter(torch.empty(vocabulary, embedding))
        shape = LayerShape(embedding, units, projection=None, coupled=False)
        self.onward, self.backward_layer = RecurrentLayer(shape), RecurrentLayer(shape)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.embedding.uniform_(-EMBEDDING_RANGE, EMBEDDING_RANGE, generator=generator)
        self.onward.initialise(generator)
        self.backward_layer.initialise(generator)

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.embedding

    def token_readers(self) -> tuple[Tensor, ...]:
        """See `ReadsTokenVectors`."""
        return self.onward.weight_input, self.backward_layer.weight_input

    def forward(self, tokens: Tensor, lengths: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, width); see `TextEncoder`."""
        values = nn.functional.embedding(tokens, self.embedding)
        words = word_mask(seeds, tokens, self.dropout)
        values = values if words is None else values * words
        order = turning(lengths, tokens.shape[1])
        outputs_of_directions = both_directions(self.onward, self.backward_layer, values, order)
        state = torch.cat(
            [_vectors_at(outputs, lengths - 1) for outputs in outputs_of_directions], dim=1
        )
        mask = row_mask(seeds, 1, self.width, self.dropout)
        return state if mask is None else state * mask


def turning(lengths: Tensor, longest: int) -> Tensor:
    """(rows, longest, 1) positions that turn the first `lengths` (rows,) of a row around.

    A row of n tokens is read n - 1, ..., 0 and from there on anything: what counts is computed in
    its first n steps, so padding reaches neither direction.
    """
    last = lengths[:, None] - 1
    return (last - torch.arange(longest, device=lengths.device)).clamp(min=0)[:, :, None]


def both_directions(
    onward: RecurrentLayer, back: RecurrentLayer, values: Tensor, order: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs (rows, length, units) of a layer on rows, and of another on the rows turned around.

    Args:
        onward: the layer that reads from the first token on.
        back: the layer that reads from the last token on.
        values: (rows, length, size).
        order: see `turning`.
    """
    turned = torch.take_along_dim(values, order, dim=1)
    rows = len(values)
    first, _ = onward(values, onward.zero_state(rows), None)
    second, _ = back(turned, back.zero_state(rows), None)
    return first, second


def _vectors_at(outputs: Tensor, position: Tensor) -> Tensor:
    """(rows, size): of each row of (rows, length, size), the vector at its position (rows,)."""
    return torch.take_along_dim(outputs, position[:, None, None], dim=1)[:, 0]
