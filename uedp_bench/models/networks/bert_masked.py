"""A bidirectional transformer with the head of a masked language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from uedp_bench.models.networks.pooled_transformer import Projection
from uedp_bench.models.networks.word_transformer import WordTransformer
from uedp_bench.text.pretrained import no_progress_bars

_FILE = "head.pt"


class _Layout(NamedTuple):
    """Names of the parts of a head in a network of `transformers`.

    Attributes:
        dense, norm, bias: dotted names.
    """

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
    table = network.get_input_embeddings().weight
    if tied is None or tied.weight is not table:
        return None
    return next(
        (each for each in _LAYOUTS if {f"{each.dense}.weight", each.bias} <= {*names}), None
    )


def _empty_head(config: Any) -> MaskedHead:
    # RoBERTa's head has this activation whatever the configuration says, and its default says so.
    return MaskedHead(
        config.hidden_size, config.vocab_size, config.hidden_act, config.layer_norm_eps
    )
