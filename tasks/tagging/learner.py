"""What mechanisms train in tagging: annotated rows of words, and the loss of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, IntArray, some_texts
from uedp_bench.files.row_vectors import RowVectors
from uedp_bench.learner import (
    Batch,
    Learner,
    LengthsOnDemand,
    Losses,
    RowLengths,
    Schedule,
    example_ids,
    row_seeds,
)
from uedp_bench.models.word_pieces import VectorRows
from uedp_bench.models.word_rows import Padding
from uedp_bench.tasks.tagging.targets import Annotation, annotation_of, word_labels
from uedp_bench.tasks.tagging.words import WordRule, WordTable, with_words
from uedp_bench.tasks.tokens.rows import IGNORED, Held, OnDemand, encoded_rows

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.model import FeatureArray, TokenEncoder, Vocabulary, WordRows
    from uedp_bench.tasks.tagging.release import TaggerRelease

FEW, VECTORS_AT_ONCE = 64, 256
"""Rows that tell how long rows are, where vectors are dear; and rows that a frozen encoder reads
together, at most."""

AT_ONCE = 4096
"""Rows of a text in a file whose spans are compared with their words together."""

Reduction = Literal["mean", "sum"]
"""The loss of a row: the mean over its words, or their sum."""


@dataclass(frozen=True, eq=False)
class TaggerReader:
    """How a tagger reads rows, in training and when it is asked.

    Attributes:
        model: the encoder.
        vocabulary: its tokens; None for a frozen encoder.
        layer: which annotation it learns.
        types: of entities that it tells apart.
        rule: what a word is.
        max_tokens: words (or pieces of words) of a row past this many are left out.
        reduction: of the losses of a row's words.
        device: on which a frozen encoder computes.
    """

    model: TokenEncoder[Any]
    vocabulary: Vocabulary | None
    layer: str
    types: tuple[str, ...]
    rule: WordRule
    max_tokens: int
    reduction: Reduction
    device: str

    @property
    def labels(self) -> int:
        """How many labels there are, "O" among them."""
        return 1 + 2 * len(self.types)

    def words(self, corpus: Corpus) -> WordTable:
        """The words of all rows."""
        return WordTable.of(corpus.texts, self.rule)

    def learnable(self, corpus: Corpus) -> BoolArray:
        """(rows,) True for rows that have a word and are completely annotated.

        A corpus whose annotation has other types has none.
        """
        from uedp_bench.tasks.tagging.targets import ENTITIES

        if self.layer != ENTITIES and self.layer not in corpus.layers:
            return np.zeros(len(corpus), dtype=bool)
        annotation = annotation_of(corpus, self.layer)
        if not {*self.types} <= {*annotation.types}:
            return np.zeros(len(corpus), dtype=bool)
        there = np.fromiter(with_words(corpus.texts, self.rule), dtype=bool, count=len(corpus))
        learnable: BoolArray = annotation.rows & there
        return learnable

    def labelled(self, asked: Learnable, rows: IntArray) -> tuple[WordTable, IntArray]:
        """The words of some rows, and (words,) their labels.

        Raises:
            InputError: see `word_labels`.
        """
        words = WordTable.of(some_texts(asked.texts, rows), self.rule)
        return words, word_labels(asked.origin[rows], asked.annotation.take(rows), words)

    def read(self, asked: Learnable, rows: IntArray) -> TaggedRows:
        """Inputs of the encoder for some rows, and the labels of their words.

        Raises:
            InputError: see `word_labels`.
        """
        words, labels = self.labelled(asked, rows)
        read = self.model.read_words(words.by_row(), self.vocabulary, self.max_tokens, self.device)
        return TaggedRows(read, words.offsets[:-1], labels)

    def examples(self) -> TaggedRows:
        """Made-up rows, for `Learner.example_batch`."""
        size = 100 if self.vocabulary is None else self.vocabulary.size
        words = [[self._example_word(at) for at in ids] for ids in example_ids(size)]
        read = self.model.read_words(words, self.vocabulary, self.max_tokens, self.device)
        lengths = [len(row) for row in words]
        labels = np.random.default_rng(0).integers(self.labels, size=sum(lengths))
        return TaggedRows(read, np.cumsum([0, *lengths])[:-1], labels)

    def _example_word(self, token: int) -> str:
        text = "" if self.vocabulary is None else self.vocabulary.decode([token])
        return next(iter(text.split()), f"word{token}")

    def lengths(self, asked: Learnable, rows: IntArray) -> IntArray:
        """(rows,) words that the encoder reads of some rows."""
        return self._read_words(asked, rows).lengths

    def vectors(self, asked: Learnable, rows: IntArray) -> tuple[IntArray, FeatureArray]:
        """(rows,) words that a frozen encoder reads of some rows, and the vectors of all words."""
        read = self._read_words(asked, rows)
        padded = read.batch(np.arange(len(rows)))["vectors"].numpy()
        return read.lengths, padded[np.arange(padded.shape[1]) < read.lengths[:, None]]

    def _read_words(self, asked: Learnable, rows: IntArray) -> WordRows:
        words = WordTable.of(some_texts(asked.texts, rows), self.rule).by_row()
        return self.model.read_words(words, self.vocabulary, self.max_tokens, self.device)


class Learnable(NamedTuple):
    """Texts and annotation of rows that `TaggerReader.learnable` has chosen.

    Attributes:
        texts: of the rows.
        origin: (rows,) see `Corpus.origin`.
        annotation: what is learnt of them.
    """

    texts: Sequence[str]
    origin: IntArray
    annotation: Annotation

    @staticmethod
    def of(corpus: Corpus, reader: TaggerReader) -> Learnable:
        """All rows of a corpus."""
        annotation = annotation_of(corpus, reader.layer).of_types(reader.types)
        return Learnable(corpus.texts, corpus.origin, annotation)


class TaggedRows(NamedTuple):
    """Rows of words with their labels.

    Attributes:
        words: as the encoder reads them.
        first: (rows,) number of each row's first word in `labels`.
        labels: (words of all rows,).
    """

    words: WordRows
    first: IntArray
    labels: IntArray

    @property
    def lengths(self) -> IntArray:
        """(rows,) words that the encoder reads."""
        return self.words.lengths


class FrozenWords(OnDemand[TaggedRows]):
    """Rows in a file whose words a frozen encoder reads: the vectors of each are computed once.

    Args:
        rows: how many there are.
        reader: reads them.
        asked: the rows.

    Attributes:
        row_lengths: words of each that have a vector.
    """

    def __init__(self, rows: int, reader: TaggerReader, asked: Learnable) -> None:
        self._reader, self._asked = reader, asked
        self._kept = RowVectors(rows, partial(reader.vectors, asked), VECTORS_AT_ONCE)
        super().__init__(rows, self._labelled, FEW)
        longest = int(self.known.lengths.max(initial=0))
        self.row_lengths = LengthsOnDemand(rows, longest, self._kept.counts)

    def _labelled(self, rows: IntArray) -> TaggedRows:
        words, labels = self._reader.labelled(self._asked, rows)
        lengths, vectors = self._kept.some(rows)
        longest = int(lengths.max(initial=1))
        every = np.arange(len(vectors))
        read = VectorRows(vectors, every, Padding(lengths), 0, longest * vectors.shape[1])
        return TaggedRows(read, words.offsets[:-1], labels)


class TaggerLearner(Learner):
    """A tagger and the rows that it learns from; see `uedp_bench.learner.Learner`.

    Args:
        reader: reads rows.
        module: a `TaggerNetwork`, or several of them.
        corpus: the rows, numbered from 0, all of them `learnable`.
        score_rows: rows that the release tags at once.
        schedule: of the stage on public rows, how to train it; None for the private stage.

    Attributes:
        truncated: rows that lost words to a limit; None for texts in a file, which nobody counts.
    """

    def __init__(
        self,
        reader: TaggerReader,
        module: nn.Module,
        corpus: Corpus,
        *,
        score_rows: int = 512,
        schedule: Schedule | None = None,
    ) -> None:
        self.module = module if schedule is None else reader.model.on_public_text(module)
        self.corpus, self.vocabulary = corpus, reader.vocabulary
        self.role = "private" if schedule is None else "public"
        self.schedule = schedule
        self.vectorised = reader.model.vectorised
        self._reader, self._score_rows = reader, score_rows
        asked = Learnable.of(corpus, reader)
        if corpus.stored:
            _check_spans(reader, asked)
        self._rows: Held[TaggedRows] | OnDemand[TaggedRows]
        self.row_lengths: RowLengths
        if corpus.stored and reader.model.frozen():
            self._rows = frozen = FrozenWords(len(corpus), reader, asked)
            self.row_lengths = frozen.row_lengths
        else:
            read, find = partial(reader.read, asked), partial(reader.lengths, asked)
            self._rows, self.row_lengths = encoded_rows(corpus, read, find)
        known = self._rows.known.words
        self.truncated = None if corpus.stored else known.truncated
        self.row_size = max(known.row_size, int(self.row_lengths.max(initial=1)) * reader.labels)

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """What the encoder reads, `labels` (rows, words) and dropout `seeds` (rows,)."""
        return self._tensors(*self._rows.some(np.asarray(rows, dtype=np.int64)), seeds)

    def example_batch(self) -> Batch:
        """See `Learner`: made-up words with random labels."""
        rows = self._reader.examples()
        every = np.arange(len(rows.lengths))
        return self._tensors(rows, every, row_seeds(np.random.default_rng(0), every.shape))

    def _tensors(self, found: TaggedRows, place: IntArray, seeds: IntArray) -> Batch:
        import torch

        lengths = found.words.lengths[place]
        columns = np.arange(lengths.max(initial=1))
        inside = columns < lengths[:, None]
        at = found.first[place][:, None] + np.where(inside, columns, 0)
        labels = np.where(inside, found.labels[at], IGNORED)
        return {
            **found.words.batch(place),
            "labels": torch.from_numpy(labels),
            "seeds": torch.from_numpy(seeds),
        }

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Nats of all labels of each row, beside the number of words by which they are divided."""
        from uedp_bench.models.networks.tagger import row_nats

        nats = row_nats(module, batch)
        if self._reader.reduction == "sum":
            return Losses(nats, nats.new_ones(nats.shape))
        return Losses(nats, batch["lengths"].to(nats.dtype))

    def release(self, module: nn.Module) -> TaggerRelease:
        """The tagger as its users, and anybody with its weights, can ask it."""
        from uedp_bench.tasks.tagging.release import TaggerRelease

        return TaggerRelease(self._reader, module, score_rows=self._score_rows)


def _check_spans(reader: TaggerReader, asked: Learnable) -> None:
    """Refuses spans that do not fit the words, before any row trains; few rows are in memory.

    Raises:
        InputError: see `word_labels`.
    """
    if asked.annotation.found:
        return  # nobody answers for them
    rows = np.unique(asked.annotation.spans.row)
    for first in range(0, len(rows), AT_ONCE):
        reader.labelled(asked, rows[first : first + AT_ONCE])
