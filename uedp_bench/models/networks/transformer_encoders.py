"""Bidirectional transformers: one vector for a text or a word, and the head of a masked model."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.learner import Batch, on_device
from uedp_bench.corpus import FeatureArray
from uedp_bench.models.word_rows import PieceRows
from uedp_bench.text.pretrained import full_batches, no_progress_bars


class Projection(nn.Module):
    """A trainable linear layer, or nothing: vectors as they are.

    Args:
        size: size of the vectors.
        width: width of the result; None for no layer.
        seed: seed of the initial weights, uniform within 1 / sqrt(size).
    """

    def __init__(self, size: int, width: int | None, seed: int) -> None:
        super().__init__()
        self.width = size if width is None else width
        self.linear: nn.Linear | None = None
        if width is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self.linear = nn.Linear(size, width)

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, width) of (rows, size)."""
        return vectors if self.linear is None else self.linear(vectors)

    def save(self, folder: Path) -> None:
        """Write the weights into a folder that is there."""
        weights = {name: value.cpu() for name, value in self.state_dict().items()}
        torch.save(weights, folder / "projection.pt")


class PaddedTransformer(nn.Module):
    """The last layer of a bidirectional transformer on right-padded rows, and a layer on top.

    The wrapped network stays in evaluation mode, so that no dropout is ever drawn, and attention
    sees the tokens of a row only: a row's vectors depend on that row and the weights. Position ids
    are given for every row: ids of one row for all would give per-example gradients of the
    position embedding a batch of one.

    Args:
        network: an encoder of `transformers`; its own pooling layer, if any, is taken off.
        projection: layer on top.
    """

    def __init__(self, network: Any, projection: Projection) -> None:
        super().__init__()
        self.network: Any = network.eval()
        if hasattr(network, "pooler"):
            network.pooler = None  # weights that the loss never sees would still get noise
        self.projection = projection
        self.width = projection.width
        self._positions = counts_from_zero(network)

    def train(self, mode: bool = True) -> Self:
        """Set the mode of this module, not of the wrapped network."""
        self.training = mode
        return self

    def last_layer(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, length, size) vectors of ids (rows, length), and (rows, length) True inside."""
        rows, longest = tokens.shape
        positions = torch.arange(longest, device=tokens.device).expand(rows, -1)
        inside = positions < lengths[:, None]
        options = {"position_ids": positions} if self._positions else {}
        hidden = self.network(
            input_ids=tokens, attention_mask=inside.long(), **options
        ).last_hidden_state
        return hidden, inside

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.network.get_input_embeddings().weight  # type: ignore[no-any-return]

    def save(self, folder: Path) -> None:
        """Write the network in the library's format, and the weights on top of it."""
        folder.mkdir(parents=True, exist_ok=True)
        with no_progress_bars():
            self.network.save_pretrained(folder / "encoder")
        self.projection.save(folder)


class PooledTransformer(PaddedTransformer):
    """One vector for each row; see `PaddedTransformer`.

    Args:
        network: an encoder of `transformers`; its own pooling layer, if any, is taken off.
        pooling: the vector of the first token, or the mean over all tokens of a row.
        projection: layer on top.
    """

    def __init__(
        self, network: Any, pooling: Literal["cls", "mean"], projection: Projection
    ) -> None:
        super().__init__(network, projection)
        self.pooling = pooling

    def forward(self, tokens: Tensor, lengths: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, width); see `TextEncoder`. Seeds have nothing to do."""
        hidden, inside = self.last_layer(tokens, lengths)
        if self.pooling == "cls":
            return self.projection(hidden[:, 0])  # type: ignore[no-any-return]
        total = hidden.masked_fill(~inside[:, :, None], 0.0).sum(dim=1)
        return self.projection(total / lengths[:, None])  # type: ignore[no-any-return]


def counts_from_zero(network: Any) -> bool:
    """True if the network takes position ids that start at 0 (RoBERTa's start past padding's)."""
    takes = "position_ids" in inspect.signature(network.forward).parameters
    return takes and not starts_past_padding(network)


def starts_past_padding(network: Any) -> bool:
    """True if the positions of a network's rows begin after the one that padding has."""
    table = getattr(getattr(network, "embeddings", None), "position_embeddings", None)
    return getattr(table, "padding_idx", None) is not None


@torch.no_grad()
def pooled_features(
    module: PooledTransformer, vocabulary: Vocabulary, texts: list[str], limit: int | None,
    *, alone: bool = True,
) -> FeatureArray:  # fmt: skip
    """(texts, width) vectors of texts.

    Args:
        module: network on the device where it is to run.
        vocabulary: vocabulary of the network.
        texts: texts, at least one.
        limit: largest number of tokens of a row, begin and end included.
        alone: vectors do not depend on each other; see `full_batches`.
    """
    room = None if limit is None else limit - 2
    rows = [[vocabulary.begin, *ids[:room], vocabulary.end] for ids in vocabulary.encode(texts)]
    lengths = np.array([len(row) for row in rows])
    device = next(module.parameters()).device
    vectors = np.empty((len(rows), module.width), dtype=np.float32)
    for some, wanted in full_batches(lengths, device.type, alone=alone):
        tokens = np.zeros((len(some), lengths[some].max()), dtype=np.int64)
        for into, row in zip(tokens, some, strict=True):
            into[: lengths[row]] = rows[row]
        pooled = module(
            torch.from_numpy(tokens).to(device), torch.from_numpy(lengths[some]).to(device)
        )
        vectors[some[:wanted]] = pooled[:wanted].cpu().numpy()
    return vectors


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


_FILE = "head.pt"


class _Layout(NamedTuple):
    """Names of the parts of a head in a network of `transformers`."""

    dense: str
    norm: str
    bias: str


_LAYOUTS = (
    _Layout(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
    ),
    _Layout("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
)
"""BERT and RoBERTa have the same layers by other names."""


class MaskedHead(nn.Module):
    """Layers between a transformer's vectors and its logits (Devlin et al. 2019, appendix A).

    A dense layer, an activation and a layer norm; then the table of token vectors and a bias, which
    is all that the head has of the output layer.

    Args:
        size: size of the vectors.
        vocabulary: number of tokens.
        activation: name of the activation in `transformers`.
        eps: epsilon of the layer norm.
    """

    def __init__(self, size: int, vocabulary: int, activation: str, eps: float) -> None:
        from transformers.activations import ACT2FN

        super().__init__()
        self.dense = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size, eps=eps)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self._activation = ACT2FN[activation]

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., size) of vectors (..., size): what the output layer reads."""
        normed: Tensor = self.norm(self._activation(self.dense(vectors)))
        return normed

    def save(self, folder: Path) -> None:
        """Write the weights into a folder that is there."""
        weights = {name: value.cpu() for name, value in self.state_dict().items()}
        torch.save(weights, folder / _FILE)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        self.load_state_dict(torch.load(folder / _FILE, weights_only=True))


class MaskedTransformer(nn.Module):
    """Predicts hidden tokens; see `MaskedModule`. There is no dropout.

    The output layer is the table of token vectors: one weight, whose gradient comes from both uses.
    Vectors of hidden places are gathered before the head, so that the table of logits has as many
    rows as there are hidden tokens, and places are by row: clipping in one pass applies.

    Args:
        encoder: makes the vectors.
        head: head of hidden places.
    """

    def __init__(self, encoder: WordTransformer, head: MaskedHead) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def outputs(self, tokens: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """(rows, places, size) inputs of the output layer; see `MaskedModule`."""
        hidden, _ = self.encoder.last_layer(tokens, lengths)
        values: Tensor = self.head(torch.take_along_dim(hidden, places[:, :, None], dim=1))
        return values

    def output_layer(self) -> tuple[Tensor, Tensor]:
        """See `HasOutputLayer`."""
        return self.token_embedding(), self.head.bias

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.encoder.token_embedding()

    def forward(self, tokens: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """(rows, places, vocabulary) logits; see `MaskedModule`."""
        return functional.linear(self.outputs(tokens, lengths, places), *self.output_layer())


def fresh_head(config: Any, seed: int) -> MaskedHead:
    """A head with weights as `transformers` draws them.

    Args:
        config: config of the transformer.
        seed: seed of the dense layer; biases are 0.
    """
    head = _empty_head(config)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head.dense.weight.normal_(0.0, config.initializer_range)
        head.dense.bias.zero_()
    return head


def of_library(network: Any) -> MaskedTransformer | None:
    """The module of a masked language model of `transformers`, with its weights.

    None where its head is of another kind than BERT's, or has a table of its own.
    """
    layout = _layout(network)
    if layout is None:
        return None
    head = _empty_head(network.config)
    head.dense.load_state_dict(network.get_submodule(layout.dense).state_dict())
    head.norm.load_state_dict(network.get_submodule(layout.norm).state_dict())
    with torch.no_grad():
        head.bias.copy_(network.get_parameter(layout.bias))
    size = network.config.hidden_size
    encoder = WordTransformer(network.base_model, Projection(size, None, seed=0))
    return MaskedTransformer(encoder, head)


def save_library(module: MaskedTransformer, folder: Path) -> None:
    """Write a module without adapters as a masked language model of `transformers`."""
    from transformers import AutoModelForMaskedLM

    inner = module.encoder.network
    network: Any = AutoModelForMaskedLM.from_config(inner.config)
    layout = _layout(network)
    if layout is None:
        raise RuntimeError(f"{type(network).__name__} was built without a head of BERT's kind")
    network.base_model.load_state_dict(inner.state_dict(), strict=False)
    network.get_submodule(layout.dense).load_state_dict(module.head.dense.state_dict())
    network.get_submodule(layout.norm).load_state_dict(module.head.norm.state_dict())
    with torch.no_grad():
        network.get_parameter(layout.bias).copy_(module.head.bias)
    network.tie_weights()
    with no_progress_bars():
        network.save_pretrained(folder)


def _layout(network: Any) -> _Layout | None:
    names = dict(network.named_parameters(remove_duplicate=False))
    tied = network.get_output_embeddings()
    if tied is None or tied.weight is not network.get_input_embeddings().weight:
        return None
    return next(
        (each for each in _LAYOUTS if {f"{each.dense}.weight", each.bias} <= {*names}), None
    )


def _empty_head(config: Any) -> MaskedHead:
    # RoBERTa's head has this activation whatever the configuration says, and its default says so.
    return MaskedHead(
        config.hidden_size, config.vocab_size, config.hidden_act, config.layer_norm_eps
    )
