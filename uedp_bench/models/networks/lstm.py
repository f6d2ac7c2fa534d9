"""Recurrent networks whose cells are written out (`recurrence`).

`torch.nn.LSTM` works neither under `torch.func.vmap` nor with masks drawn by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import numbers_per_call
from uedp_bench.models.fast.products import lookup, product
from uedp_bench.models.fast.recurrence import recurrence
from uedp_bench.models.fast.recurrence_tables import CellWeights
from uedp_bench.models.networks.modules import OutputLayer
from uedp_bench.models.networks.token_tree import LOGITS_AT_ONCE, BoolArray, NodeLogits, TokenTree

State = tuple[tuple[Tensor, Tensor], ...]
"""Per layer: recurrent output (rows, outputs) and memory cells (rows, units)."""

_GOLDEN, _MIX_1, _MIX_2 = (
    value - 2**64 for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class LayerShape(NamedTuple):
    """Shape of one recurrent layer.

    Attributes:
        inputs, units: sizes.
        projection: size that cells are projected to before they recur, or None for no projection.
        coupled: input gate = 1 - forget gate (CIFG): three products in place of four.
    """

    inputs: int
    units: int
    projection: int | None
    coupled: bool

    @property
    def outputs(self) -> int:
        """Size of the layer's output."""
        return self.units if self.projection is None else self.projection


@dataclass(frozen=True)
class Dropout:
    """Rates of dropout: of whole words, of recurrent outputs, of the last layer's output."""

    embedding: float = 0.0
    recurrent: float = 0.0
    output: float = 0.0


@dataclass(frozen=True)
class NetworkShape:
    """Everything that defines a network; weights of embedding and output are shared.

    Attributes:
        vocabulary, embedding: sizes.
        layers: layers in order; the last one's output has the size of the embedding.
        output_bias: True if every token has a bias of its own.
        embedding_range: embeddings start uniform in [-r, r].
        dropout: rates; they act only where `forward` gets seeds.
    """

    vocabulary: int
    embedding: int
    layers: tuple[LayerShape, ...]
    output_bias: bool
    embedding_range: float
    dropout: Dropout = Dropout()


def keep_mask(seeds: Tensor, stream: int, indices: Tensor, rate: float) -> Tensor:
    """Inverted-dropout mask: a function of each row's seed, a stream and an index, nothing else.

    SplitMix64 (Steele, Lea and Flood 2014) serves as a counter-based generator: it needs no
    generator state, so it works under `vmap` and gives every device the same masks.

    Args:
        seeds: (rows,) int64.
        stream: number of the mask within a forward pass.
        indices: (rows or 1, columns) int64 counters.
        rate: fraction dropped, in [0, 1).

    Returns:
        (rows, columns) of 0 and 1 / (1 - rate).
    """
    start = _splitmix(seeds * 2 + _GOLDEN) + stream
    mixed = _splitmix(_splitmix(start)[:, None] + indices * _GOLDEN)
    keep = ((mixed >> 32) & 0x7FFFFFFF) >= round(rate * 2**31)
    return keep.to(torch.get_default_dtype()) / (1.0 - rate)


def word_mask(seeds: Tensor | None, tokens: Tensor, rate: float) -> Tensor | None:
    """(rows, length, 1) mask of the embeddings of words, stream 0; None where nothing is dropped.

    A word is dropped wherever it stands in the row (Gal and Ghahramani 2016).
    """
    if seeds is None or rate == 0:
        return None
    return keep_mask(seeds, 0, tokens, rate)[:, :, None]


def row_mask(seeds: Tensor | None, stream: int, size: int, rate: float) -> Tensor | None:
    """(rows, size) mask of a row's numbers, or None where nothing is dropped."""
    if seeds is None or rate == 0:
        return None
    return keep_mask(seeds, stream, torch.arange(size, device=seeds.device)[None], rate)


def _splitmix(x: Tensor) -> Tensor:
    """Finaliser of SplitMix64; masks after the shifts make torch's signed shifts logical."""
    x = (x ^ ((x >> 30) & (2**34 - 1))) * _MIX_1
    x = (x ^ ((x >> 27) & (2**37 - 1))) * _MIX_2
    return x ^ ((x >> 31) & (2**33 - 1))


class RecurrentLayer(nn.Module):
    """One LSTM or CIFG layer (Greff et al. 2017), with or without a recurrent projection.

    Gates in order: forget, output, candidate, and (where not coupled) input.
    """

    def __init__(self, shape: LayerShape) -> None:
        super().__init__()
        gates = 3 if shape.coupled else 4
        self.shape = shape
        self.weight_input = nn.Parameter(torch.empty(gates * shape.units, shape.inputs))
        self.weight_recurrent = nn.Parameter(torch.empty(gates * shape.units, shape.outputs))
        self.bias = nn.Parameter(torch.empty(gates * shape.units))
        self.projection = (
            None
            if shape.projection is None
            else nn.Parameter(torch.empty(shape.projection, shape.units))
        )

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw weights uniform within 1 / sqrt(units); biases are 0 but 1 for forget gates."""
        bound = 1.0 / math.sqrt(self.shape.units)
        for weight in (self.weight_input, self.weight_recurrent, self.projection):
            if weight is not None:
                weight.uniform_(-bound, bound, generator=generator)
        self.bias.zero_()
        self.bias[: self.shape.units] = 1.0

    def zero_state(self, rows: int) -> tuple[Tensor, Tensor]:
        """State before the first token."""
        new = self.bias.new_zeros
        return new(rows, self.shape.outputs), new(rows, self.shape.units)

    def forward(
        self,
        inputs: Tensor,
        state: tuple[Tensor, Tensor],
        mask: Tensor | None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs (rows, length, outputs) and last state of inputs (rows, length, inputs).

        `mask` (rows, outputs) multiplies the recurrent output at every step; `lengths` as in
        `recurrence`.
        """
        weights = CellWeights(self.weight_input, self.weight_recurrent, self.bias, self.projection)
        return recurrence(inputs, state, weights, mask, coupled=self.shape.coupled, lengths=lengths)


class RecurrentNetwork(nn.Module):
    """Embedding, recurrent layers, and the embedding again as output (Press and Wolf 2017).

    Args:
        shape: everything about it.
        seed: seed of the initial weights: embeddings uniform within `embedding_range`, layers as
            `RecurrentLayer.initialise` draws them.
    """

    def __init__(self, shape: NetworkShape, seed: int) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocabulary, shape.embedding))
        self.layers = nn.ModuleList(RecurrentLayer(layer) for layer in shape.layers)
        self.output_bias = (
            nn.Parameter(torch.zeros(shape.vocabulary)) if shape.output_bias else None
        )
        self._initialise(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        bound = self.shape.embedding_range
        self.embedding.uniform_(-bound, bound, generator=generator)
        for layer in self._layers():
            layer.initialise(generator)

    def forward(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Logits (rows, length, vocabulary) of ids (rows, length); see `NextTokenModule`."""
        return self._logits(self.outputs(tokens, seeds))

    def outputs(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, length, embedding) outputs of the last layer."""
        return self._features(tokens, self._zero_state(tokens.shape[0]), seeds)[0]

    def outputs_until(self, tokens: Tensor, seeds: Tensor | None, lengths: Tensor) -> Tensor:
        """(rows, length, embedding) of the words that count; see `StopsAtEnds`."""
        return self._features(tokens, self._zero_state(tokens.shape[0]), seeds, lengths)[0]

    def output_layer(self) -> OutputLayer:
        """The shared embedding; see `NextTokenModule`."""
        return OutputLayer(self.embedding, self.output_bias)

    def token_embedding(self) -> Tensor:
        """The shared embedding; see `EmbedsTokens`."""
        return self.embedding

    def prefix_state(self, tokens: Tensor) -> State:
        """State after the tokens (1, length), for `resume`."""
        return self._features(tokens, self._zero_state(1), None)[1]

    def resume(self, tokens: Tensor, state: State) -> Tensor:
        """Logits of tokens (rows, length) that all follow the prefix of `state`."""
        rows = tokens.shape[0]
        many = tuple((a.expand(rows, -1), b.expand(rows, -1)) for a, b in state)
        return self._logits(self._features(tokens, many, None)[0])

    def tree_logits(self, start: Tensor, tree: TokenTree, queried: BoolArray) -> NodeLogits:
        """See `TreeNetwork`: one step for each node, from the state of its parent."""
        size = max(1, numbers_per_call(LOGITS_AT_ONCE, start.device) // self.shape.vocabulary)
        values, state = self._features(start, self._zero_state(1), None)
        if queried[0]:
            yield (
                np.zeros(1, dtype=np.int64),
                product(values[:, -1], self.embedding, self.output_bias),
            )
        first, levels = 0, tree.levels()
        for level in levels:
            ends = []
            for at in range(level.start, level.stop, size):
                nodes = np.arange(at, min(at + size, level.stop))
                parents = torch.from_numpy(tree.parents[nodes - 1] - first).to(start.device)
                tokens = torch.from_numpy(tree.tokens[nodes - 1]).to(start.device)
                before = tuple((a[parents], b[parents]) for a, b in state)
                values, end = self._features(tokens[:, None], before, None)
                if level is not levels[-1]:
                    ends.append(end)
                wanted = queried[nodes]
                if wanted.any():
                    rows = torch.from_numpy(np.flatnonzero(wanted)).to(start.device)
                    outputs = values[:, 0][rows]
                    yield nodes[wanted], product(outputs, self.embedding, self.output_bias)
            if ends:
                first, state = level.start, _joined(ends)

    def _layers(self) -> list[RecurrentLayer]:
        return [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]

    def _zero_state(self, rows: int) -> State:
        return tuple(layer.zero_state(rows) for layer in self._layers())

    def _features(
        self, tokens: Tensor, state: State, seeds: Tensor | None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        rates = self.shape.dropout
        values = lookup(tokens, self.embedding)
        words = word_mask(seeds, tokens, rates.embedding)
        values = values if words is None else values * words
        after = []
        for number, layer in enumerate(self._layers()):
            mask = row_mask(seeds, 2 + number, layer.shape.outputs, rates.recurrent)
            values, end = layer(values, state[number], mask, lengths)
            after.append(end)
        mask = row_mask(seeds, 1, self.shape.embedding, rates.output)
        return values if mask is None else values * mask[:, None, :], tuple(after)

    def _logits(self, features: Tensor) -> Tensor:
        return nn.functional.linear(features, self.embedding, self.output_bias)


def _joined(states: list[State]) -> State:
    """The states of some rows and of others as those of all rows."""
    return tuple(
        (torch.cat([a for a, _ in layer]), torch.cat([b for _, b in layer]))
        for layer in zip(*states, strict=True)
    )
