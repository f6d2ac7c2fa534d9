"""Networks behind pretrained encoders: pooled transformers, and layers trained on vectors."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.model import Vocabulary
from uedp_bench.corpus import FeatureArray
from uedp_bench.text.full_batches import full_batches
from uedp_bench.text.pretrained import no_progress_bars


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
    embeddings = getattr(network, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
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
