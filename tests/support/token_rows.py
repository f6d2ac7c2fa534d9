"""Rows of token ids for any network of next tokens or of classes, and the networks themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch, Learner, Losses, example_ids
from uedp_bench.contracts.release import Release
from uedp_bench.corpus import Corpus, IntArray
from uedp_bench.models.fast.output_nats import token_nats
from uedp_bench.models.networks.causal_transformer import TransformerNetwork
from uedp_bench.models.networks.lstm import Dropout, LayerShape, NetworkShape, RecurrentNetwork
from uedp_bench.models.networks.transformer_encoders import PooledTransformer, Projection

WORDS = 23

# Rows of different lengths, of one token, and of the same token again and again.
TOKENS = [[3], [4, 4, 4, 4, 4], [5, 6, 7], [8, 9, 8, 10, 8, 11, 3], [12, 13], [22], [7, 7, 3, 4]]
TOKENS += [[14, 15, 16, 4, 17], [3, 18], [19, 20, 21, 22, 4, 4]]


class TokenLearner(Learner):
    """Row i is `TOKENS[i]`, read up to its last token and asked for the next, or for its class.

    Args:
        module: maps tokens (rows, length) and seeds to logits of every token; with `lengths` in
            place of seeds, one vector a row, whose first numbers are the logits of classes.
        classes: 0 for next tokens.
        rows: of tokens; `TOKENS` by default.
    """

    vocabulary = None
    row_size = 1

    def __init__(
        self, module: nn.Module, classes: int = 0, rows: Sequence[Sequence[int]] = TOKENS
    ) -> None:
        self.module, self.vectorised, self._classes = module, False, classes
        self._rows = rows
        self._words = 1 + max(max(row) for row in rows)
        self.corpus = Corpus(
            texts=("x",) * len(rows),
            groups={"user": np.arange(len(rows))},
            split=np.zeros(len(rows), dtype=np.int64),
        )

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        return self._tensors([self._rows[i] for i in np.asarray(rows).tolist()], seeds)

    def example_batch(self) -> Batch:
        ids = example_ids(self._words, 10)
        return self._tensors(ids, np.arange(len(ids)))

    @staticmethod
    def _tensors(chosen: Sequence[Sequence[int]], seeds: IntArray) -> Batch:
        longest = max(map(len, chosen))
        tokens = torch.tensor([[0, *row[:-1], *[1] * (longest - len(row))] for row in chosen])
        targets = torch.tensor([[*row, *[-100] * (longest - len(row))] for row in chosen])
        lengths = torch.tensor([len(row) for row in chosen])
        return {
            "tokens": tokens,
            "targets": targets,
            "lengths": lengths,
            "seeds": torch.from_numpy(np.asarray(seeds)),
        }

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        if self._classes:
            logits = module(batch["tokens"], batch["lengths"])[:, : self._classes]
            labels = batch["targets"][:, 0] % self._classes
            nats = nn.functional.cross_entropy(logits, labels, reduction="none")
            return Losses(nats, torch.ones_like(nats))
        seeds = batch["seeds"] if module.training else None
        nats = token_nats(module(batch["tokens"], seeds), batch["targets"])
        return Losses(nats.sum(dim=1), batch["lengths"].to(nats.dtype))

    def release(self, module: nn.Module) -> Release:
        raise NotImplementedError


class NextWord(nn.Module):
    """Logits that are linear in the last word: gradients of different words are orthogonal."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.eye(words))
        self.out = nn.Linear(words, words, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        logits: Tensor = self.out(self.table[tokens])  # type: ignore[index]
        return logits


def recurrent(
    *, coupled: bool, projection: int | None, bias: bool, rate: float, layers: int = 1
) -> RecurrentNetwork:
    """A small recurrent network, its output tied to its embedding of 5 numbers."""
    width = 5 if projection is None else 8
    shapes = [LayerShape(5, width, projection, coupled) for _ in range(layers)]
    return RecurrentNetwork(
        NetworkShape(
            WORDS, 5, tuple(shapes), output_bias=bias, embedding_range=0.8,
            dropout=Dropout(rate, rate, rate),
        ),
        seed=1,
    )  # fmt: skip


def gpt2() -> nn.Module:
    """Two layers; its output is tied."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(2)
    config = GPT2Config(
        vocab_size=WORDS, n_layer=2, n_embd=8, n_head=2, n_positions=12, initializer_range=0.3,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return TransformerNetwork(GPT2LMHeadModel(config))


def bert() -> nn.Module:
    """Two layers, pooled over all tokens and projected."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=WORDS, num_hidden_layers=2, hidden_size=8, num_attention_heads=2,
        intermediate_size=12, max_position_embeddings=12, initializer_range=0.3, pad_token_id=1,
    )  # fmt: skip
    return PooledTransformer(BertModel(config), "mean", Projection(8, 6, seed=1))


def adapters() -> nn.Module:
    """GPT-2 frozen, but for two small matrices beside the projection of each attention."""

    class Adapted(nn.Module):
        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base = base.requires_grad_(requires_grad=False)
            self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 24, bias=False)

        def forward(self, values: Tensor) -> Tensor:
            out: Tensor = self.base(values) + 2.0 * self.up(self.down(values))
            return out

    module: Any = gpt2().requires_grad_(requires_grad=False)
    for block in module.network.transformer.h:
        block.attn.c_attn = Adapted(block.attn.c_attn)
    return module  # type: ignore[no-any-return]


class Convolutions(nn.Module):
    """Two convolutions over the vectors of tokens, then the largest number of each channel."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embedding = nn.Embedding(WORDS, 5)
        self.first = nn.Conv1d(5, 4, 3, stride=2, padding=1)
        self.second = nn.Conv1d(4, 6, 2, dilation=2, bias=False)
        self.out = nn.Linear(6, 6)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (rows, 6); what lies behind the end of a row is 0, up to 12 tokens for all."""
        inside = torch.arange(tokens.shape[1]) < lengths[:, None]
        values = self.embedding(tokens) * inside[:, :, None]
        values = nn.functional.pad(values, (0, 0, 0, 12 - tokens.shape[1])).transpose(1, 2)
        logits: Tensor = self.out(self.second(self.first(values).tanh()).amax(dim=2))
        return logits


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "lstm": (lambda: recurrent(coupled=False, projection=None, bias=True, rate=0.0), 0),
    "cifg, projection, no output bias": (
        lambda: recurrent(coupled=True, projection=5, bias=False, rate=0.0), 0,
    ),
    "awd-lstm, dropout by row": (
        lambda: recurrent(coupled=False, projection=None, bias=True, rate=0.3, layers=2), 0,
    ),
    "gpt2": (gpt2, 0),
    "bert": (bert, 3),
    "adapters": (adapters, 0),
    "convolutions": (Convolutions, 3),
}  # fmt: skip
