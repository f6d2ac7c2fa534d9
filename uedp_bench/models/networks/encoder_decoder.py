"""A transformer with an encoder and a decoder, for translation (Vaswani et al. 2017).

Inputs of layers are normalised (pre-norm), embeddings are shared by both sides and the output, and
positions are encoded by rotation in self-attention (RoPE, Su et al. 2021): a network that is
adapted on short pieces of text keeps what it knew of long ones, because positions have no weights
and only distances count. Every weight is used by a linear map, an embedding or a layer norm, so
that `training.ghost` clips rows in one pass.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from uedp_bench.models.networks.output_layer import OutputLayer


class TranslatorShape(NamedTuple):
    """Sizes of the network.

    Attributes:
        vocabulary: token ids of both sides.
        width: d, of embeddings and layers; a multiple of twice the heads.
        inner: width of the feed-forward layers.
        layers: layers of the encoder; the decoder has as many.
        heads: heads of each attention.
    """

    vocabulary: int
    width: int
    inner: int
    layers: int
    heads: int


class TransformerTranslator(nn.Module):
    """See the module.

    Args:
        shape: sizes.
        seed: seed of the initial weights.
    """

    def __init__(self, shape: TranslatorShape, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(shape.vocabulary, shape.width)
            nn.init.normal_(self.embedding.weight, std=shape.width**-0.5)
            self.encoder = nn.ModuleList(_Layer(shape, False) for _ in range(shape.layers))
            self.decoder = nn.ModuleList(_Layer(shape, True) for _ in range(shape.layers))
            self.encoder_norm = nn.LayerNorm(shape.width)
            self.decoder_norm = nn.LayerNorm(shape.width)

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(rows, source length, d) vectors that the decoder attends to.

        Args:
            tokens: (rows, source length) ids, padded on the right.
            lengths: (rows,) tokens of each row.
        """
        x, seen = self._embedded(tokens), _inside(tokens, lengths)
        for layer in self.encoder:
            x = layer(x, seen)
        memory: Tensor = self.encoder_norm(x)
        return memory

    def decode(self, inputs: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """(rows, target length, d) features of the tokens that follow the inputs.

        Args:
            inputs: (rows, target length) ids of begin token and target, without its end.
            memory: output of `encode`.
            lengths: (rows,) tokens of each source.
        """
        x, size = self._embedded(inputs), inputs.shape[1]
        earlier = torch.ones(size, size, dtype=torch.bool, device=inputs.device).tril()[None, None]
        seen = _inside(memory, lengths)
        for layer in self.decoder:
            x = layer(x, earlier, memory, seen)
        features: Tensor = self.decoder_norm(x)
        return features

    def forward(self, tokens: Tensor, lengths: Tensor, inputs: Tensor) -> Tensor:
        """(rows, target length, vocabulary) logits of the tokens that follow the inputs."""
        features = self.decode(inputs, self.encode(tokens, lengths), lengths)
        return functional.linear(features, *self.output_layer())

    def output_layer(self) -> OutputLayer:
        """The embedding, which makes the logits as well."""
        return OutputLayer(self.embedding.weight, None)

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.embedding.weight

    def _embedded(self, tokens: Tensor) -> Tensor:
        width = self.embedding.embedding_dim
        vectors: Tensor = self.embedding(tokens)
        return vectors * math.sqrt(width)


class _Attention(nn.Module):
    """Multi-head attention; `placed` rotates queries and keys by their positions."""

    def __init__(self, width: int, heads: int, *, placed: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.placed = heads, placed

    def forward(self, x: Tensor, memory: Tensor, seen: Tensor) -> Tensor:
        """(rows, length, d) attention of positions of `x` to the memory where `seen` is True."""
        query, key, value = (
            self._heads(layer(values))
            for layer, values in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        if self.placed:
            query, key = rotated(query), rotated(key)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        outputs: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return outputs

    def _heads(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        return x.view(rows, length, self.heads, width // self.heads).transpose(1, 2)


class _Layer(nn.Module):
    """Self-attention, attention to the source in a decoder, and a feed-forward network."""

    def __init__(self, shape: TranslatorShape, decodes: bool) -> None:
        super().__init__()
        width, heads = shape.width, shape.heads
        self.norm, self.own = nn.LayerNorm(width), _Attention(width, heads, placed=True)
        self.source_norm = nn.LayerNorm(width) if decodes else None
        self.source = _Attention(width, heads, placed=False) if decodes else None
        self.last_norm = nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, shape.inner), nn.Linear(shape.inner, width)

    def forward(
        self, x: Tensor, own: Tensor, memory: Tensor | None = None, seen: Tensor | None = None
    ) -> Tensor:
        """(rows, length, d); `own` and `seen` say where each attention may look."""
        normed = self.norm(x)
        x = x + self.own(normed, normed, own)
        if self.source is not None and self.source_norm is not None:
            x = x + self.source(self.source_norm(x), memory, seen)
        outputs: Tensor = x + self.outer(functional.relu(self.inner(self.last_norm(x))))
        return outputs


def rotated(x: Tensor) -> Tensor:
    """Queries or keys (..., length, size), each pair of numbers rotated by its position.

    The product of a query and a key then depends on how far apart their positions are (Su et al.
    2021, equation 34).
    """
    length, size = x.shape[-2:]
    place = torch.arange(length, device=x.device, dtype=x.dtype)
    speed = 10_000.0 ** (-torch.arange(0, size, 2, device=x.device, dtype=x.dtype) / size)
    angle = place[:, None] * speed
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _inside(rows: Tensor, lengths: Tensor) -> Tensor:
    """(rows, 1, 1, length) True where a row has a token."""
    columns = torch.arange(rows.shape[1], device=rows.device)
    return (columns < lengths[:, None])[:, None, None]
