"""Recurrent encoders: a text as one vector, and a vector for each word."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch
from uedp_bench.models.networks.lstm import (
    LayerShape,
    NetworkShape,
    RecurrentLayer,
    RecurrentNetwork,
    row_mask,
    word_mask,
)
from uedp_bench.models.word_rows import ALPHABET, CASES

_EMBEDDING_RANGE = 0.1


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
            self.embedding.uniform_(-_EMBEDDING_RANGE, _EMBEDDING_RANGE, generator=generator)
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
        order = _turning(lengths, tokens.shape[1])
        outputs_of_directions = _both_directions(self.onward, self.backward_layer, values, order)
        state = torch.cat(
            [_vectors_at(outputs, lengths - 1) for outputs in outputs_of_directions], dim=1
        )
        mask = row_mask(seeds, 1, self.width, self.dropout)
        return state if mask is None else state * mask


def _turning(lengths: Tensor, longest: int) -> Tensor:
    """(rows, longest, 1) positions that turn the first `lengths` (rows,) of a row around.

    A row of n tokens is read n - 1, ..., 0 and from there on anything: what counts is computed in
    its first n steps, so padding reaches neither direction.
    """
    last = lengths[:, None] - 1
    return (last - torch.arange(longest, device=lengths.device)).clamp(min=0)[:, :, None]


def _both_directions(
    onward: RecurrentLayer, back: RecurrentLayer, values: Tensor, order: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs (rows, length, units) of a layer, and of another that reads rows backwards."""
    turned = torch.take_along_dim(values, order, dim=1)
    rows = len(values)
    first, _ = onward(values, onward.zero_state(rows), None)
    second, _ = back(turned, back.zero_state(rows), None)
    return first, second


def _vectors_at(outputs: Tensor, position: Tensor) -> Tensor:
    """(rows, size): of each row of (rows, length, size), the vector at its position (rows,)."""
    return torch.take_along_dim(outputs, position[:, None, None], dim=1)[:, 0]


_CHARACTER = 16  # size of the vectors of characters
_CASE = 8  # size of the vectors of cases
_WINDOW = 3
_WORDS_AT_ONCE = 4096  # whose responses are computed side by side where no gradient is wanted


@dataclass(frozen=True)
class WordShape:
    """Sizes of a `WordEncoder`.

    Attributes:
        vocabulary, embedding: number of words, and size of their vectors.
        filters: filters of the convolution over characters; 0 for none.
        units: memory cells of each direction.
        dropout: fraction of words, and of the numbers of their vectors, that are dropped.
    """

    vocabulary: int
    embedding: int
    filters: int
    units: int
    dropout: float


class CharacterCNN(nn.Module):
    """A vector for each word from its characters: the largest response of each filter.

    The convolution is written as one product with three neighbours side by side.

    Args:
        filters: each three characters wide.
        generator: draws the initial weights.
    """

    def __init__(self, filters: int, generator: torch.Generator) -> None:
        super().__init__()
        size = _WINDOW * _CHARACTER
        self.embedding = nn.Parameter(torch.empty(ALPHABET, _CHARACTER))
        self.filters = nn.Parameter(torch.empty(filters, size))
        self.bias = nn.Parameter(torch.zeros(filters))
        with torch.no_grad():
            for weight, fan in ((self.embedding, _CHARACTER / 3.0), (self.filters, float(size))):
                bound = 1.0 / math.sqrt(fan)
                weight.uniform_(-bound, bound, generator=generator)

    def forward(self, characters: Tensor) -> Tensor:
        """(rows, words, filters) of ids (rows, words, characters), 0 after the last."""
        if torch.is_grad_enabled():
            return self._responses(characters)
        # Rows that are only scored come in large batches, and no gradient needs their tables.
        some = max(1, _WORDS_AT_ONCE // characters.shape[1])
        return torch.cat([self._responses(part) for part in torch.split(characters, some)])

    def _responses(self, characters: Tensor) -> Tensor:
        inside = (characters > 0)[..., None]
        values = nn.functional.embedding(characters, self.embedding) * inside
        padded = nn.functional.pad(values, (0, 0, 1, 1))
        count = characters.shape[2]
        near = [padded[:, :, at : at + count] for at in range(_WINDOW)]
        responses = nn.functional.linear(torch.cat(near, dim=3), self.filters, self.bias)
        # Responses are 0 or more, so that 0 stands for what is not there.
        return (responses.relu() * inside).amax(dim=2)


class WordEncoder(nn.Module):
    """Word vectors, characters and case, and one LSTM layer in both directions.

    Args:
        shape: sizes.
        seed: seed of the initial weights: embeddings uniform within 0.1, layers as
            `RecurrentLayer.initialise` draws them.
    """

    def __init__(self, shape: WordShape, seed: int) -> None:
        super().__init__()
        self.width, self.dropout = 2 * shape.units, shape.dropout
        generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Parameter(torch.empty(shape.vocabulary, shape.embedding))
        inputs = shape.embedding + shape.filters + _CASE
        layer = LayerShape(inputs, shape.units, projection=None, coupled=False)
        self.onward, self.backward_layer = RecurrentLayer(layer), RecurrentLayer(layer)
        with torch.no_grad():
            self.embedding.uniform_(-_EMBEDDING_RANGE, _EMBEDDING_RANGE, generator=generator)
        self.onward.initialise(generator)
        self.backward_layer.initialise(generator)
        self.characters = CharacterCNN(shape.filters, generator) if shape.filters else None
        bound = math.sqrt(3.0 / _CASE)
        drawn = torch.empty(CASES, _CASE).uniform_(-bound, bound, generator=generator)
        self.cases = nn.Parameter(drawn)

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.embedding

    def token_readers(self) -> tuple[Tensor, ...]:
        """See `ReadsTokenVectors`."""
        return self.onward.weight_input, self.backward_layer.weight_input

    def forward(self, batch: Batch) -> Tensor:
        """(rows, words, width); see `TokenEncoder`."""
        tokens, lengths = batch["tokens"], batch["lengths"]
        seeds = batch.get("seeds") if self.training else None
        values = nn.functional.embedding(tokens, self.embedding)
        words = word_mask(seeds, tokens, self.dropout)
        parts = [values if words is None else values * words]
        if self.characters is not None:
            parts.append(self.characters(batch["characters"]))
        parts.append(nn.functional.embedding(batch["cases"], self.cases))
        order = _turning(lengths, tokens.shape[1])
        onward, turned = _both_directions(
            self.onward, self.backward_layer, torch.cat(parts, dim=2), order
        )
        outputs = torch.cat([onward, torch.take_along_dim(turned, order, dim=1)], dim=2)
        mask = row_mask(seeds, 1, self.width, self.dropout)
        return outputs if mask is None else outputs * mask[:, None, :]
