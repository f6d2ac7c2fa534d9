"""Translators, transformers with an encoder and a decoder, and their search for a translation.

`TransformerTranslator` follows Vaswani et al. 2017. Inputs of layers are normalised (pre-norm),
embeddings are shared by both sides and the output, and positions are encoded by rotation in
self-attention (RoPE, Su et al. 2021): a network that is adapted on short pieces of text keeps what
it knew of long ones, because positions have no weights and only distances count. Every weight is
used by a linear map, an embedding or a layer norm, so that `training.ghost` clips rows in one pass.

Rows are searched side by side, and what is found for a row depends on that row alone: each has a
limit of its own, and leaves the batch when it is done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from uedp_bench.models.fast.products import FasterProducts
from uedp_bench.models.networks.modules import OutputLayer

if TYPE_CHECKING:
    from uedp_bench.contracts.model import TranslationModule


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
    return (torch.arange(rows.shape[1], device=rows.device) < lengths[:, None])[:, None, None]


class MarianNetwork(nn.Module):
    """See `TranslationModule`.

    The wrapped network stays in evaluation mode: the library draws dropout for whole batches, and
    the loss of a row must not depend on the rows beside it. Position embeddings are not trained.

    Args:
        network: a `MarianMTModel`.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network: Any = network.eval()
        for part in (network.get_encoder(), network.get_decoder()):
            # They are sinusoids; the library would let them be trained.
            part.embed_positions.weight.requires_grad_(False)

    def train(self, mode: bool = True) -> MarianNetwork:
        """Set the mode of this module, not of the wrapped network."""
        self.training = mode
        return self

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(rows, source length, size); see `TranslationModule`."""
        output = self.network.get_encoder()(input_ids=tokens, attention_mask=_mask(tokens, lengths))
        return output.last_hidden_state  # type: ignore[no-any-return]

    def decode(self, inputs: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """(rows, target length, size); see `TranslationModule`."""
        output = self.network.get_decoder()(
            input_ids=inputs,
            encoder_hidden_states=memory,
            encoder_attention_mask=_mask(memory, lengths),
            use_cache=False,
        )
        return output.last_hidden_state  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor, lengths: Tensor, inputs: Tensor) -> Tensor:
        """(rows, target length, vocabulary) logits of the tokens that follow the inputs."""
        features = self.decode(inputs, self.encode(tokens, lengths), lengths)
        return nn.functional.linear(features, *self.output_layer())

    def output_layer(self) -> OutputLayer:
        """The layer that makes logits; its bias is not trained."""
        return OutputLayer(self.network.lm_head.weight, self.network.final_logits_bias.reshape(-1))

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.network.get_input_embeddings().weight  # type: ignore[no-any-return]


def _mask(rows: Tensor, lengths: Tensor) -> Tensor:
    """(rows, length) 1 where a row has a token."""
    return (torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]).long()


LONGEST = (2, 10)
"""A translation has at most so many times the tokens of its source, and so many more."""


@dataclass(frozen=True)
class Search:
    """Settings of a search for translations.

    Attributes:
        start: id that the decoder begins with.
        end: id that ends a translation.
        never: ids that are in no translation.
        beams: hypotheses of a row; 1 takes the most probable token at each step.
        most: tokens of a translation, at most; see `LONGEST` too.
    """

    start: int
    end: int
    never: tuple[int, ...]
    beams: int = 1
    most: int = 256

    def limits(self, lengths: Tensor) -> Tensor:
        """(rows,) tokens of each translation, its end among them, at most."""
        times, more = LONGEST
        return (times * lengths + more).clamp(max=self.most)


class _Hypothesis(NamedTuple):
    """A finished translation: mean log-probability of its tokens, and these without the end."""

    score: float
    tokens: list[int]


@torch.no_grad()
def translated(
    networks: Sequence[TranslationModule], tokens: Tensor, lengths: Tensor, search: Search
) -> list[list[int]]:
    """Token ids of the translation of each row, without start and end.

    Hypotheses of a beam compare by their mean log-probability a token, end included. A row is done
    when as many are finished as the beam is wide, or at its limit.

    Args:
        networks: networks in evaluation mode; of several, the mean of their probabilities counts.
        tokens: (rows, source length) ids, padded on the right.
        lengths: (rows,) tokens of each row.
        search: settings of the search.
    """
    with FasterProducts():
        sources = _Sources(networks, [each.encode(tokens, lengths) for each in networks], lengths)
        return (_greedy if search.beams == 1 else _beam)(sources, search)


class _Sources(NamedTuple):
    """Networks, what each made of the rows, and the numbers of their tokens (rows,)."""

    networks: Sequence[TranslationModule]
    memories: list[Tensor]
    lengths: Tensor

    def next_logprobs(self, inputs: Tensor, rows: Tensor, search: Search) -> Tensor:
        """(questions, vocabulary) log-probabilities of tokens that may follow the inputs."""
        by_network = []
        for network, memory in zip(self.networks, self.memories, strict=True):
            last = network.decode(inputs, memory[rows], self.lengths[rows])[:, -1]
            logits = functional.linear(last, *network.output_layer()).float()
            logits[:, list(search.never)] = -torch.inf
            by_network.append(torch.log_softmax(logits, dim=-1))
        return (
            by_network[0]
            if len(by_network) == 1
            else torch.stack(by_network).logsumexp(0) - log(len(by_network))
        )


def _greedy(sources: _Sources, search: Search) -> list[list[int]]:
    lengths = sources.lengths
    limits = search.limits(lengths)
    translations: list[list[int]] = [[] for _ in lengths]
    open_rows = torch.arange(len(lengths), device=lengths.device)
    inputs = torch.full((len(lengths), 1), search.start, device=lengths.device)
    while len(open_rows):
        chosen = sources.next_logprobs(inputs, open_rows, search).argmax(dim=-1)
        for row, token in zip(open_rows.tolist(), chosen.tolist(), strict=True):
            if token != search.end:
                translations[row].append(token)
        going = (chosen != search.end) & (inputs.shape[1] < limits[open_rows])
        inputs, open_rows = torch.cat([inputs, chosen[:, None]], dim=1)[going], open_rows[going]
    return translations


def _beam(sources: _Sources, search: Search) -> list[list[int]]:
    lengths = sources.lengths
    rows, width, device = len(lengths), search.beams, lengths.device
    limits = search.limits(lengths).tolist()
    done: list[list[_Hypothesis]] = [[] for _ in range(rows)]
    open_rows = torch.arange(rows, device=device)
    inputs = torch.full((rows, 1, 1), search.start, device=device)
    scores = torch.zeros(rows, 1, device=device)
    while len(open_rows):
        of_row = open_rows.repeat_interleave(inputs.shape[1])
        logp = sources.next_logprobs(inputs.flatten(0, 1), of_row, search)
        total = scores[:, :, None] + logp.view(*scores.shape, -1)
        size = total.shape[-1]
        # Twice as many as are kept: at most one token of each hypothesis ends it.
        best, at = total.flatten(1).topk(min(2 * width, total[0].numel()), dim=1)
        kept_rows, next_inputs, next_scores = [], [], []
        for i, row in enumerate(open_rows.tolist()):
            going = _step(done[row], inputs[i], best[i], at[i], size, search)
            full = len(done[row]) >= width or inputs.shape[2] >= limits[row]
            if inputs.shape[2] >= limits[row] and not done[row]:
                done[row] = [_Hypothesis(s / inputs.shape[2], t[1:]) for s, t in going]
            if not full:
                kept_rows.append(row)
                next_inputs.append([tokens for _, tokens in going])
                next_scores.append([score for score, _ in going])
        open_rows = torch.tensor(kept_rows, dtype=torch.long, device=device)
        inputs = torch.tensor(next_inputs, device=device)
        scores = torch.tensor(next_scores, device=device)
    return [max(each, key=lambda hypothesis: hypothesis.score).tokens for each in done]


def _step(
    done: list[_Hypothesis], inputs: Tensor, best: Tensor, at: Tensor, size: int, search: Search
) -> list[tuple[float, list[int]]]:
    """Hypotheses of a row that go on, with their log-probabilities; finished ones join `done`."""
    going: list[tuple[float, list[int]]] = []
    for score, place in zip(best.tolist(), at.tolist(), strict=True):
        if len(going) == search.beams:
            break
        before, token = divmod(place, size)
        tokens = inputs[before].tolist()
        if token == search.end:
            if len(done) < search.beams:
                done.append(_Hypothesis(score / len(tokens), tokens[1:]))
        else:
            going.append((score, [*tokens, token]))
    return going
