"""What a classifier reads of a row: token ids, vectors of a frozen encoder, published vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import Corpus, IntArray, some_texts
from uedp_bench.errors import InputError
from uedp_bench.files.row_vectors import RowVectors
from uedp_bench.learner import EXAMPLE_LENGTHS, Batch, example_ids
from uedp_bench.model import FeatureArray
from uedp_bench.tasks.tokens.rows import OnDemand, Preprocessing, prepare

if TYPE_CHECKING:
    from uedp_bench.model import TextEncoder, Vocabulary


VECTORS_AT_ONCE = 4096
"""Rows of a text in a file whose vectors a frozen encoder computes together, at most."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs of many rows: `vectors` (rows, size), or tokens one row after the other.

    Attributes:
        flat: (tokens,) ids; row i has `flat[offsets[i]:offsets[i + 1]]`.
        offsets: (rows + 1,).
        truncated: rows that lost tokens to the limit.
    """

    vectors: FeatureArray | None = None
    flat: IntArray | None = None
    offsets: IntArray | None = None
    truncated: int = 0

    @property
    def fixed(self) -> bool:
        """True for vectors that no encoder is trained to make."""
        return self.vectors is not None

    def __len__(self) -> int:
        if self.vectors is not None:
            return len(self.vectors)
        return 0 if self.offsets is None else len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """(rows,) tokens, or 1 for a vector."""
        return np.ones(len(self), dtype=np.int64) if self.offsets is None else np.diff(self.offsets)

    def batch(self, rows: IntArray, padding: int) -> Batch:
        """`vectors` (rows, size), or `tokens` (rows, longest), padded, and `lengths` (rows,)."""
        import torch

        if self.vectors is not None:
            return {"vectors": torch.from_numpy(self.vectors[rows])}
        if self.flat is None or self.offsets is None:
            raise RuntimeError("rows have neither vectors nor tokens")
        lengths = self.lengths[rows]
        columns = np.arange(lengths.max(initial=1))
        inside = columns < lengths[:, None]
        at = self.offsets[rows][:, None] + np.where(inside, columns, 0)
        tokens = np.where(inside, self.flat[at], padding)
        return {"tokens": torch.from_numpy(tokens), "lengths": torch.from_numpy(lengths)}


class RowsOnDemand:
    """Inputs of texts that stay in a file; see `uedp_bench.tasks.tokens.rows.OnDemand`.

    Attributes:
        lengths: of the rows that were looked at.
        truncated: None: nobody counts them.
    """

    fixed = False
    truncated: None = None

    def __init__(self, rows: int, read: Callable[[IntArray], Rows]) -> None:
        self._rows = OnDemand(rows, read)
        self.lengths = self._rows.known.lengths

    def batch(self, rows: IntArray, padding: int) -> Batch:
        """See `Rows`."""
        found, place = self._rows.some(rows)
        return found.batch(place, padding)


class VectorsOnDemand:
    """Vectors that a frozen encoder makes of texts that stay in a file, of each once.

    Attributes:
        lengths: (1,) the 1 that stands for every row: a vector has no tokens.
        truncated: 0: a frozen encoder cuts texts by a limit of its own, and counts nothing.
    """

    fixed = True
    truncated = 0

    def __init__(self, rows: int, read: Callable[[IntArray], Rows]) -> None:
        self._kept = RowVectors(rows, partial(_one_a_row, read), VECTORS_AT_ONCE)
        self.lengths = np.ones(1, dtype=np.int64)

    def batch(self, rows: IntArray, padding: int) -> Batch:
        """See `Rows`."""
        import torch

        return {"vectors": torch.from_numpy(self._kept.some(rows)[1])}


def _one_a_row(read: Callable[[IntArray], Rows], rows: IntArray) -> tuple[IntArray, FeatureArray]:
    vectors = read(rows).vectors
    if vectors is None:
        raise RuntimeError("a frozen encoder gives vectors")
    return np.ones(len(rows), dtype=np.int64), vectors


class InputReader:
    """Turns rows of a corpus into inputs of a network.

    Args:
        model: the encoder.
        vocabulary: its tokens; None for a frozen encoder and for published vectors.
        preprocessing: what is done to every text.
        max_tokens: tokens of a row past this many are left out, begin and end among them.
        device: torch device on which a frozen encoder computes.
    """

    def __init__(
        self,
        model: TextEncoder[Any],
        vocabulary: Vocabulary | None,
        preprocessing: Preprocessing,
        max_tokens: int | None,
        device: str,
    ) -> None:
        self.model, self.vocabulary, self.preprocessing = model, vocabulary, preprocessing
        self.max_tokens, self.device = max_tokens, device
        limits = [value for value in (max_tokens, model.max_length()) if value is not None]
        self._limit = min(limits, default=None)

    @property
    def padding(self) -> int:
        """Token id that fills rows up; networks do not look at it."""
        return 0 if self.vocabulary is None else self.vocabulary.end

    def read(self, corpus: Corpus) -> Rows:
        """Inputs of all rows."""
        if corpus.vectors is not None:
            return Rows(vectors=np.ascontiguousarray(corpus.vectors, dtype=np.float32))
        return self._texts(prepare(corpus.texts, self.preprocessing), cache=True)

    def read_on_demand(self, corpus: Corpus) -> Rows | RowsOnDemand | VectorsOnDemand:
        """Inputs of rows of which few may be asked for: texts in a file are not all encoded."""
        if not corpus.stored or corpus.vectors is not None:
            return self.read(corpus)
        on_demand = VectorsOnDemand if self.model.frozen() else RowsOnDemand
        return on_demand(len(corpus), partial(self._some, corpus.texts))

    def examples(self, corpus: Corpus) -> Rows:
        """Inputs of made-up rows, for `Learner.example_batch`.

        Args:
            corpus: the size of published vectors is that of its own.
        """
        if corpus.vectors is not None or self.model.frozen() or self.vocabulary is None:
            given = corpus.vectors
            size = self.model.feature_size() if given is None else given.shape[1]
            shape = len(EXAMPLE_LENGTHS), size
            vectors = np.random.default_rng(0).normal(size=shape) / np.sqrt(size)
            return Rows(vectors=vectors.astype(np.float32))
        return self._framed(example_ids(self.vocabulary.size, self._room), self.vocabulary)

    def _some(self, texts: Sequence[str], rows: IntArray) -> Rows:
        return self._texts(prepare(some_texts(texts, rows), self.preprocessing), cache=True)

    def masked(self, corpus: Corpus, rate: float, rngs: Sequence[np.random.Generator]) -> Rows:
        """Inputs of all rows with words dropped by independent coins: row i's from `rngs[i]`.

        Generators may be the same one, which then tosses the coins of the rows in order. Words are
        those of the text as it is, so that one that preprocessing removes has its coin as well: a
        dropped word leaves the mask whatever it was.

        Raises:
            InputError: for published vectors, which have no words.
        """
        if corpus.vectors is not None:
            raise InputError("word_dropout: published vectors have no words; leave it at 0")
        texts = [
            self._dropped(text.split(), rng, rate)
            for text, rng in zip(corpus.texts, rngs, strict=True)
        ]
        return self._texts(texts, cache=False)

    def _dropped(self, words: list[str], rng: np.random.Generator, rate: float) -> str:
        dropped = rng.random(len(words)) < rate
        shown = zip(prepare(words, self.preprocessing), dropped, strict=True)
        kept = [self.model.mask if gone else word for word, gone in shown]
        return " ".join(word for word in kept if word)

    def _texts(self, texts: Sequence[str], *, cache: bool) -> Rows:
        if self.model.frozen():
            return Rows(vectors=self.model.features(texts, self.device, cache=cache))
        if self.vocabulary is None:
            raise InputError(f"{self.model.name} needs a vocabulary")
        return self._framed(self.vocabulary.encode(texts), self.vocabulary)

    @property
    def _room(self) -> int | None:
        """Tokens of a row between its begin and its end; None for any number."""
        return None if self._limit is None else self._limit - 2

    def _framed(self, ids: Sequence[Sequence[int]], vocabulary: Vocabulary) -> Rows:
        """Rows of token ids, each with its begin and its end."""
        room = self._room
        rows = [[vocabulary.begin, *row[:room], vocabulary.end] for row in ids]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        return Rows(
            flat=np.array([token for row in rows for token in row], dtype=np.int64),
            offsets=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
            truncated=sum(room is not None and len(row) > room for row in ids),
        )
