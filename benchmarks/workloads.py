"""Networks, rows and users that the benchmarks of speed train, the same for all sides.

`gpt` (4 layers of 128, 2,000 tokens) and `lstm` (embedding and projection of 96, 256 units, 10,000
words) read synthetic rows of 20 tokens whose frequencies fall as 1 / rank; both tie their output.
`default` is the source `embedded` with the model `lstm-small`, both with their default parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.components.registry import models, sources, tasks
from uedp_bench.contracts.learner import Batch, Learner, Losses
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.models.fast import recurrence
from uedp_bench.models.networks import causal_transformer, lstm
from uedp_bench.models.networks.lstm import LayerShape, NetworkShape, RecurrentNetwork
from uedp_bench.models.networks.transformer_encoders import (
    MaskedTransformer,
    Projection,
    WordTransformer,
    fresh_head,
)
from uedp_bench.tasks.language.language_model import LanguageReader
from uedp_bench.tasks.masked_language.masked_model import MaskedReader

MODELS = ("gpt", "lstm", "default")

GPT2_SMALL = "gpt2-small"
"""12 layers of 768 and 50,257 tokens, for a GPU: 124 million weights."""


class Numbers:
    """A vocabulary whose words are the numbers of their ids; 0 and 1 begin and end a row."""

    begin, end, unknown, private = 0, 1, None, False
    origin = fingerprint = "numbers"

    def __init__(self, size: int) -> None:
        self.size = size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[int(word) for word in text.split()] for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens))

    def save(self, folder: Path) -> None:
        raise NotImplementedError("nobody saves it")


class MaskedNumbers(Numbers):
    """Numbers with 0 to 2 for begin, end and mask, which texts do not have."""

    mask, special = 2, (0, 1, 2)

    def literal(self) -> MaskedNumbers:
        return self

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[max(number, 3) for number in row] for row in super().encode(texts)]


class Sizes(NamedTuple):
    """Users of a round, the rows of each and their tokens."""

    users: int = 40
    rows: int = 16
    tokens: int = 20


def numbers_corpus(sizes: Sizes, vocabulary: int) -> Corpus:
    """Rows of `tokens` targets (the end among them), token frequencies as 1 / rank."""
    rng = np.random.default_rng(7)
    share = 1.0 / np.arange(1, vocabulary - 1)
    drawn = rng.choice(np.arange(2, vocabulary), p=share / share.sum(),
                       size=(sizes.users * sizes.rows, sizes.tokens - 1))  # fmt: skip
    return Corpus(
        texts=tuple(" ".join(map(str, row)) for row in drawn),
        groups={"user": np.repeat(np.arange(sizes.users), sizes.rows)},
        split=np.full(len(drawn), SPLITS.index("train")),
    )


def lstm_network(vocabulary: int, embedding: int, units: int) -> RecurrentNetwork:
    """LSTM with a projection to the size of its embedding, which is the output as well."""
    layer = LayerShape(embedding, units, projection=embedding, coupled=False)
    shape = NetworkShape(vocabulary, embedding, (layer,), output_bias=False, embedding_range=0.1)
    return RecurrentNetwork(shape, seed=1)


def language_learner(name: str, sizes: Sizes, small: bool = False) -> Any:
    """The learner of next-word prediction for a model by name.

    Args:
        name: one of `MODELS`, or `GPT2_SMALL`.
        sizes: of a round; of `default` the number of users alone.
        small: networks that only show that a script runs.
    """
    if name == "default":
        return _default(sizes.users)
    if name == "lstm":
        return lstm_learner(sizes, *((200, 16, 24) if small else ()))
    size = "small" if name == GPT2_SMALL else "tiny"
    words = Numbers(200 if small else {"small": 50_257, "tiny": 2_000}[size])
    model = models.create("gpt2", {"configuration": size})
    corpus = numbers_corpus(sizes, words.size)
    return LanguageReader(model, words).learner(model.build(words, seed=1), corpus)


def lstm_learner(
    sizes: Sizes, vocabulary: int = 10_000, embedding: int = 96, units: int = 256
) -> Any:
    """The learner of the model `lstm`, at other sizes too."""
    words = Numbers(vocabulary)
    module = lstm_network(vocabulary, embedding, units)
    corpus = numbers_corpus(sizes, vocabulary)
    return LanguageReader(models.create("cifg-lstm", {}), words).learner(module, corpus)


def _default(users: int) -> Learner:
    corpus = sources.create("embedded", {"users": max(users, 50)}).load()
    task = tasks.create("next-word", {})
    task.model = models.create("lstm-small", {})
    kept = corpus.take(np.flatnonzero((corpus.users < users) & corpus.where("train")))
    vocabulary = task.vocabulary(corpus)
    return task.stages(kept, vocabulary, Run(1, stats_of(kept)))[-1]


def as_one_writes_it() -> None:
    """From now on, networks of this process compute as plain torch does, operation by operation.

    What the engine uses instead (a recurrence with its gradient written out, oneDNN for large
    products) is no part of the loop that one would write, nor of that of peers.
    """
    lstm.recurrence = recurrence.by_steps
    causal_transformer.FasterProducts = nullcontext


def stats_of(corpus: Corpus) -> CorpusStats:
    """Public sizes of a corpus whose rows are all training rows."""
    users = len(np.unique(corpus.users))
    return CorpusStats(users, len(corpus), 0, 0, public=True)


def flat_weights(module: nn.Module) -> Tensor:
    """(d,) all trained weights, in the order of their names in our networks."""
    return torch.cat([p.detach().reshape(-1).cpu() for p in module.parameters() if p.requires_grad])


class BertClassifier(nn.Module):
    """A small BERT and a linear layer on its first token, as one writes it with `transformers`.

    Position ids are those of every row, contiguous: ghost clipping of Opacus 1.6 wants them so.
    """

    def __init__(self, vocabulary: int, tokens: int, classes: int = 4) -> None:
        super().__init__()
        self.encoder = small_bert(vocabulary, tokens)
        self.head = nn.Linear(128, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """(rows, classes) of (rows, tokens)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        positions = positions.expand(tokens.shape[0], -1).contiguous()
        hidden = self.encoder(
            input_ids=tokens, position_ids=positions, token_type_ids=torch.zeros_like(tokens)
        ).last_hidden_state
        return self.head(hidden[:, 0])


class BertRows(Learner):
    """Rows of random tokens with random labels, and `BertClassifier`."""

    vectorised = False  # as the model `bert` says

    def __init__(self, rows: int, tokens: int, vocabulary: int) -> None:
        rng = np.random.default_rng(7)
        self.module = BertClassifier(vocabulary, tokens)
        self.corpus = numbers_corpus(Sizes(rows, 1, tokens + 1), vocabulary)
        texts = [[int(word) for word in text.split()] for text in self.corpus.texts]
        self._tokens = torch.tensor(texts)
        self._labels = torch.from_numpy(rng.integers(4, size=rows))
        self.row_size = tokens * 512

    def batch(self, rows: Any, seeds: Any) -> Batch:
        chosen = torch.as_tensor(np.asarray(rows))
        return {"tokens": self._tokens[chosen], "targets": self._labels[chosen]}

    def example_batch(self) -> Batch:
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(self._tokens.max() + 1, (3, 5), generator=generator)
        return {"tokens": tokens, "targets": torch.arange(3)}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        logits = module(batch["tokens"])
        nats = nn.functional.cross_entropy(logits, batch["targets"], reduction="none")
        return Losses(nats, torch.ones_like(nats))

    def release(self, module: nn.Module) -> Any:
        raise NotImplementedError("nobody asks for it")


def small_bert(vocabulary: int, tokens: int) -> Any:
    """The encoder of `BertClassifier`, without dropout."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=vocabulary, num_hidden_layers=2, hidden_size=128, num_attention_heads=4,
        intermediate_size=512, max_position_embeddings=tokens, type_vocab_size=1,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config, add_pooling_layer=False)


def masked_learner(rows: int, tokens: int, vocabulary: int) -> Learner:
    """Rows of random tokens of which 15 % are hidden, and a small BERT with its head tied."""
    encoder = small_bert(vocabulary, tokens)
    transformer = WordTransformer(encoder, Projection(128, None, seed=0))
    module = MaskedTransformer(transformer, fresh_head(encoder.config, seed=1))
    corpus = numbers_corpus(Sizes(rows, 1, tokens - 1), vocabulary)
    model: Any = models.create("bert", {"configuration": "tiny"})
    reader = MaskedReader(model, MaskedNumbers(vocabulary), max_tokens=tokens, rate=0.15)
    return reader.learner(module, corpus)


class TorchMaskedBert(nn.Module):
    """The network of `masked_learner` as one writes it with torch, for rows of the same length.

    Only hidden places go through the head and the output layer, which is the cheaper way to train
    it: the library computes logits of all tokens.

    Args:
        network: the same network.
        places: (rows, hidden) of the batch.
    """

    def __init__(self, network: MaskedTransformer, places: Tensor) -> None:
        super().__init__()
        encoder, head = copy.deepcopy(network.encoder.network), copy.deepcopy(network.head)
        self.encoder, self.dense, self.norm = encoder, head.dense, head.norm
        self.output = nn.Linear(*encoder.embeddings.word_embeddings.weight.shape[::-1])
        self.output.weight = encoder.embeddings.word_embeddings.weight
        self.output.bias = head.bias
        self.register_buffer("places", places)

    def forward(self, tokens: Tensor) -> Tensor:
        """(rows, hidden, vocabulary) of (rows, tokens)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        positions = positions.expand(tokens.shape[0], -1).contiguous()
        hidden = self.encoder(
            input_ids=tokens, position_ids=positions, token_type_ids=torch.zeros_like(tokens)
        ).last_hidden_state
        chosen = torch.take_along_dim(hidden, self.places[:, :, None], dim=1)
        return self.output(self.norm(nn.functional.gelu(self.dense(chosen))))


class TorchGPT(nn.Module):
    """The network of `gpt` as one trains it with torch: in training mode, dropout 0.

    It is made anew by the library, for ours computes its activation in another way.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = type(network)(network.config)
        self.network.load_state_dict(network.state_dict())
        self.network.train()
        network = self.network
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0

    def forward(self, tokens: Tensor) -> Tensor:
        """(rows, length, vocabulary) of (rows, length); position ids are those of every row."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        positions = positions.expand(tokens.shape[0], -1).contiguous()
        return self.network(input_ids=tokens, position_ids=positions, use_cache=False).logits


class TorchLSTM(nn.Module):
    """Embedding, one LSTM layer of the same size, the embedding again as output; torch's own parts.

    Args:
        vocabulary, size: sizes.
        layer: makes the recurrent layer: `nn.LSTM`, or `DPLSTM` of Opacus.
    """

    def __init__(self, vocabulary: int, size: int, layer: Any = nn.LSTM) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(vocabulary, size)
        self.lstm = layer(size, size, batch_first=True)
        self.output = nn.Linear(size, vocabulary, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """(rows, length, vocabulary) of (rows, length)."""
        return self.output(self.lstm(self.embedding(tokens))[0])


def square_lstm(vocabulary: int, size: int) -> RecurrentNetwork:
    """`TorchLSTM` in this project's parts."""
    layer = LayerShape(size, size, projection=None, coupled=False)
    shape = NetworkShape(vocabulary, size, (layer,), output_bias=False, embedding_range=0.1)
    return RecurrentNetwork(shape, seed=1)
