"""A bidirectional LSTM over words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from uedp_bench.errors import InputError
from uedp_bench.model import TextEncoder, Vocabulary
from uedp_bench.models.vocabularies.word_model import WordParams, WordText
from uedp_bench.models.vocabularies.words import WordVocabulary

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.lstm_encoder import BidirectionalNetwork

_SIZE = 100  # of word vectors, where neither a number nor a file says otherwise


class BiLSTMParams(WordParams):
    """Sizes, and the vectors that words start from."""

    embedding: Path | None = Field(
        default=None,
        description="file of public word vectors (GloVe or fastText text format, .gz or plain) "
        "that the words of the vocabulary start from; the others start at random",
    )
    embedding_size: int | None = Field(
        default=None,
        ge=1,
        description="size of word vectors (default 100); a file of vectors brings its own",
    )
    units: int = Field(default=64, ge=1, description="memory cells of each direction")
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="fraction of words (each wherever it stands in a text) and of the numbers of "
        "the representation that training drops",
    )

    @model_validator(mode="after")
    def _one_size(self) -> BiLSTMParams:
        if self.embedding is not None and self.embedding_size is not None:
            raise ValueError("embedding brings its own size: leave out embedding_size")
        return self


class BiLSTM(WordText[BiLSTMParams], TextEncoder[BiLSTMParams]):
    """Word vectors, one LSTM layer in both directions, and the last state of each side by side."""

    name = "bilstm"
    source = "Graves and Schmidhuber 2005; classifier of Xu et al. 2021 (Vickrey), section 4"
    Params = BiLSTMParams

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TextEncoder`.

        Raises:
            InputError: if the file of vectors cannot be read, or has none of the words.
        """
        import torch

        words = _words(vocabulary)
        if self.params.embedding is None:
            return self._network(words.size, self.params.embedding_size or _SIZE, seed)
        from uedp_bench.text.word_vectors import read_embedding

        public = read_embedding(self.params.embedding, "bilstm.embedding")
        at = torch.tensor([public.find(word) for word in words.words])
        known = at >= 0
        if not known.any():
            raise InputError(
                f"bilstm.embedding: {self.params.embedding} has none of the vocabulary's words "
                f"({words.words[0]!r}, ...)"
            )
        network = self._network(words.size, public.dimension, seed)
        special = words.size - len(words.words)
        with torch.no_grad():
            network.embedding[special:][known] = torch.from_numpy(public.vectors)[at[known]]
        return network

    def load_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """See `TextEncoder`; the file of vectors is not needed again."""
        import torch

        weights = torch.load(folder / "encoder.pt", weights_only=True)
        words, size = weights["embedding"].shape
        module = self._network(words, size, seed=0)
        module.load_state_dict(weights)
        return module

    def _network(self, words: int, size: int, seed: int) -> BidirectionalNetwork:
        from uedp_bench.models.networks.lstm_encoder import BidirectionalNetwork

        units, dropout = self.params.units, self.params.dropout
        return BidirectionalNetwork(words, size, units, dropout=dropout, seed=seed)


def _words(vocabulary: Vocabulary | None) -> WordVocabulary:
    if not isinstance(vocabulary, WordVocabulary):
        raise TypeError("a bilstm reads a vocabulary of words")
    return vocabulary
