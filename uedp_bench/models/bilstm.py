"""A bidirectional LSTM over words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field, model_validator

from uedp_bench.api import InputError, Requirement, equals
from uedp_bench.api.networks import (
    TextEncoder,
    TokenEncoder,
    Vocabulary,
    WordParams,
    WordRows,
    WordText,
    WordVocabulary,
)
from uedp_bench.components.component import of_embedding

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.recurrent_encoders import BidirectionalNetwork, WordEncoder

    N = TypeVar("N", BidirectionalNetwork, WordEncoder)

_SIZE = 100  # of word vectors, where neither a number nor a file says otherwise
_FILTERS = 32  # in token form, where nothing else is said


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
    frozen_embedding: bool = Field(
        default=False,
        description="word vectors stay as they start: give a file of public ones (embedding)",
        exclude_if=equals(False),
    )
    units: int = Field(default=64, ge=1, description="memory cells of each direction")
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="fraction of words (each wherever it stands in a text) and of the numbers of "
        "the representation that training drops",
    )

    character_filters: int | None = Field(
        default=None,
        ge=0,
        exclude_if=equals(None),
        description="in token form, filters of a convolution over the characters of each word "
        "(default 32; 0 for none); a text as one vector has none",
    )

    def requires(self) -> tuple[Requirement, ...]:
        """Packages of the reader of word vectors."""
        embedding = None if self.embedding is None else str(self.embedding)
        return (*super().requires(), *of_embedding(embedding))

    @model_validator(mode="after")
    def _one_size(self) -> BiLSTMParams:
        if self.embedding is not None and self.embedding_size is not None:
            raise ValueError("embedding brings its own size: leave out embedding_size")
        return self


class BiLSTM(WordText[BiLSTMParams], TextEncoder[BiLSTMParams], TokenEncoder[BiLSTMParams]):
    """Word vectors, and one LSTM layer in both directions.

    A text is the last state of each direction, side by side. A word, in token form, is the state of
    each direction there, and what the layer reads of it are its vector, a convolution over its
    characters, and its case.
    """

    name = "bilstm"
    source = (
        "Graves and Schmidhuber 2005; classifier of Xu et al. 2021 (Vickrey), section 4; in token "
        "form, Ma and Hovy 2016"
    )
    Params = BiLSTMParams

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TextEncoder`.

        Raises:
            InputError: if the file of vectors cannot be read, or has none of the words; if features
                of words are asked for.
        """
        if self.params.character_filters:
            raise InputError(
                f"bilstm.character_filters is {self.params.character_filters}: only tasks that "
                "label words read features of words; leave it out"
            )
        words = _words(vocabulary)
        return self._started(words, lambda size: self._network(words.size, size, seed))

    def load_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """See `TextEncoder`; the file of vectors is not needed again."""
        return _loaded(
            folder / "encoder.pt", lambda words, size: self._network(words, size, seed=0)
        )

    def read_words(
        self,
        words: Sequence[Sequence[str]],
        vocabulary: Vocabulary | None,
        max_tokens: int,
        device: str,
    ) -> WordRows:
        """See `TokenEncoder`: words past `max_tokens` are left out.

        A word that the vocabulary does not have as it is written is looked up in lower case.
        """
        from uedp_bench.models.word_rows import read_features

        filters = self._filters
        widest = max(4 * self.params.units, 22 * max(48, filters) if filters else 0)
        return read_features(words, _words(vocabulary), max_tokens, widest)

    def build_token_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TokenEncoder`.

        Raises:
            InputError: if the file of vectors cannot be read, or has none of the words.
        """
        words = _words(vocabulary)
        return self._started(words, lambda size: self._word_encoder(words.size, size, seed))

    def load_token_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """See `TokenEncoder`; the file of vectors is not needed again."""
        file = folder / "token_encoder.pt"
        return _loaded(file, lambda words, size: self._word_encoder(words, size, 0))

    @property
    def _filters(self) -> int:
        """Filters over characters in token form."""
        filters = self.params.character_filters
        return _FILTERS if filters is None else filters

    def _started(self, words: WordVocabulary, build: Callable[[int], N]) -> N:
        """A network built for a size of word vectors, which start from the file if there is one."""
        import torch

        if self.params.embedding is None:
            return build(self.params.embedding_size or _SIZE)
        from uedp_bench.text.word_vectors import read_embedding

        public = read_embedding(self.params.embedding, "bilstm.embedding")
        at = torch.tensor([public.find(word) for word in words.words])
        has_vector = at >= 0
        if not has_vector.any():
            raise InputError(
                f"bilstm.embedding: {self.params.embedding} has none of the vocabulary's words "
                f"({words.words[0]!r}, ...)"
            )
        network = build(public.dimension)
        special = words.size - len(words.words)
        with torch.no_grad():
            network.embedding[special:][has_vector] = torch.from_numpy(public.vectors)[
                at[has_vector]
            ]
        return network

    def _network(self, words: int, size: int, seed: int) -> BidirectionalNetwork:
        from uedp_bench.models.networks.recurrent_encoders import BidirectionalNetwork

        units, dropout = self.params.units, self.params.dropout
        return self._held(BidirectionalNetwork(words, size, units, dropout=dropout, seed=seed))

    def _word_encoder(self, words: int, size: int, seed: int) -> WordEncoder:
        from uedp_bench.models.networks.recurrent_encoders import WordEncoder, WordShape

        p = self.params
        shape = WordShape(words, size, self._filters, p.units, p.dropout)
        return self._held(WordEncoder(shape, seed))

    def _held(self, network: N) -> N:
        """The network, whose word vectors are trained unless `frozen_embedding` is set."""
        network.embedding.requires_grad_(not self.params.frozen_embedding)
        return network


def _loaded(file: Path, build: Callable[[int, int], N]) -> N:
    """A network of as many words, and vectors as large, as the file has."""
    import torch

    weights = torch.load(file, weights_only=True)
    module = build(*weights["embedding"].shape)
    module.load_state_dict(weights)
    return module


def _words(vocabulary: Vocabulary | None) -> WordVocabulary:
    if not isinstance(vocabulary, WordVocabulary):
        raise TypeError("a bilstm reads a vocabulary of words")
    return vocabulary
