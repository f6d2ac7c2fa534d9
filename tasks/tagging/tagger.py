"""A tagger: how it reads annotated rows of words, what it loses on each, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from uedp_bench.api import BoolArray, Corpus, IntArray, Spans
from uedp_bench.api.networks import Batch, Losses, Reader, load_weights, on_device, save_weights
from uedp_bench.contracts.learner import LengthsOnDemand, example_ids
from uedp_bench.data.stored_rows import RowVectors
from uedp_bench.models.word_rows import Padding, VectorRows
from uedp_bench.tasks.tagging.targets import (
    ENTITIES,
    WordRule,
    WordTable,
    annotation_of,
    label_names,
    mentions_of_labels,
    with_words,
    word_labels,
)
from uedp_bench.tasks.tokens.reader import SupervisedRelease, batches_by_length
from uedp_bench.tasks.tokens.rows import IGNORED, Columns, EncodedRows, TextRows

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import FeatureArray
    from uedp_bench.api.networks import WordRows
    from uedp_bench.contracts.learner import RowLengths

FEW, VECTORS_AT_ONCE = 64, 256
"""Rows that tell how long rows are, where vectors are dear; and rows that a frozen encoder reads
together, at most."""

AT_ONCE = 4096
"""Rows of a text in a file whose spans are compared with their words together."""

Reduction = Literal["mean", "sum"]
"""The loss of a row: the mean over its words, or their sum."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TaggerReader(Reader):
    """Reader of a tagger's rows: words, and the labels of those that the encoder reads.

    Attributes:
        layer: annotation to learn.
        types: entity types to tell apart.
        rule: definition of a word.
        max_tokens: words (or pieces of words) of a row past this many are left out.
        reduction: loss of a row, of those of its words.
        decoder: "crf" for labels of a row together, "softmax" for each by itself.
    """

    layer: str
    types: tuple[str, ...]
    rule: WordRule
    max_tokens: int
    reduction: Reduction
    decoder: Literal["softmax", "crf"] = "softmax"

    FILE: ClassVar[str] = "tagger.json"
    needs_vocabulary: ClassVar[bool] = False
    similar: ClassVar[bool] = True
    sized: ClassVar[tuple[str, ...]] = ("words",)

    @property
    def labels(self) -> int:
        """Number of labels, "O" among them."""
        return 1 + 2 * len(self.types)

    def words(self, corpus: Corpus) -> WordTable:
        """The words of all rows."""
        return WordTable.from_texts(corpus.texts, self.rule)

    def word_rows(self, words: WordTable) -> WordRows:
        """Words as the encoder reads them."""
        rows: WordRows = self.model.read_words(
            words.by_row(), self.vocabulary, self.max_tokens, self.device
        )
        return rows

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `Reader`: rows that have a word and are completely annotated.

        A corpus whose annotation has other types has none.
        """
        if self.layer != ENTITIES and self.layer not in corpus.layers:
            return np.zeros(len(corpus), dtype=bool)
        annotation = annotation_of(corpus, self.layer)
        if not {*self.types} <= {*annotation.types}:
            return np.zeros(len(corpus), dtype=bool)
        worded = np.fromiter(with_words(corpus.texts, self.rule), dtype=bool, count=len(corpus))
        learnable: BoolArray = annotation.rows & worded
        return learnable

    def read(self, corpus: Corpus) -> Mapping[str, Any]:
        """See `Reader`.

        Raises:
            InputError: see `word_labels`.
        """
        words = self.words(corpus)
        return self._labelled(corpus, words, self.word_rows(words))

    def examples(self, corpus: Corpus) -> Mapping[str, Any]:
        """See `Reader`: made-up words with random labels."""
        size = 100 if self.vocabulary is None else self.vocabulary.size
        words = [[self._example_word(token) for token in ids] for ids in example_ids(size)]
        read = self.model.read_words(words, self.vocabulary, self.max_tokens, self.device)
        labels = np.random.default_rng(0).integers(self.labels, size=sum(map(len, words)))
        return _columns(read, np.cumsum([0, *map(len, words)]), labels)

    def encoded(self, corpus: Corpus) -> tuple[EncodedRows, RowLengths]:
        """See `Reader`; a frozen encoder reads each row of a file once.

        Raises:
            InputError: see `word_labels`, before any row trains.
        """
        if not corpus.stored:
            return super().encoded(corpus)
        self._check_spans(corpus)
        if not self.model.frozen():
            return super().encoded(corpus)
        vectors = RowVectors(len(corpus), partial(self._vectors, corpus), VECTORS_AT_ONCE)
        rows = EncodedRows(len(corpus), partial(self._frozen, corpus, vectors), FEW)
        longest = int(rows.held.lengths.max(initial=0))
        return rows, LengthsOnDemand(len(corpus), longest, vectors.counts)

    def batch(self, columns: Mapping[str, Any], rows: IntArray, seeds: IntArray) -> dict[str, Any]:
        """See `Reader`: what the encoder reads, `labels` (rows, words) and dropout seeds."""
        labels = columns["labels"].table(rows, IGNORED)
        return {**columns["words"].batch(rows), "labels": labels, "seeds": seeds}

    def row_size(self, columns: Columns, longest: int, module: nn.Module) -> int:
        """See `Reader`."""
        return max(int(columns.columns["words"].row_size), longest * self.labels)

    def network(self, seed: int, head_seed: int) -> nn.Module:
        """See `Reader`."""
        from uedp_bench.models.networks.modules import take_head
        from uedp_bench.tasks.tagging.network import TaggerNetwork

        encoder = self.model.build_token_encoder(self.vocabulary, seed)
        network = TaggerNetwork(encoder, self.labels, crf=self.decoder == "crf", seed=head_seed)
        take_head(encoder, network.output_layer(), label_names(self.types))
        return network

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Nats of all labels of each row, beside the number of words by which they are divided."""
        from uedp_bench.tasks.tagging.network import row_nats

        nats = row_nats(module, batch)
        if self.reduction == "sum":
            return Losses(nats, nats.new_ones(nats.shape))
        return Losses(nats, batch["lengths"].to(nats.dtype))

    def release(self, module: nn.Module) -> TaggerRelease:
        """See `Reader`."""
        return TaggerRelease(self, module)

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """See `Reader`."""
        network: Any = module
        self.model.save_token_encoder(network.encoder, folder / "encoder")
        for name in ("head", "crf"):
            if (part := getattr(network, name)) is not None:
                save_weights(part, folder / f"{name}.pt")

    def load_network(self, folder: Path) -> nn.Module:
        """See `Reader`."""
        from uedp_bench.tasks.tagging.network import TaggerNetwork

        encoder = self.model.load_token_encoder(self.vocabulary, folder / "encoder")
        module = TaggerNetwork(encoder, self.labels, crf=self.decoder == "crf", seed=0)
        for name, part in (("head", module.head), ("crf", module.crf)):
            if part is not None:
                load_weights(part, folder / f"{name}.pt")
        return module

    def _labelled(self, corpus: Corpus, words: WordTable, read: WordRows) -> Mapping[str, Any]:
        annotation = annotation_of(corpus, self.layer).of_types(self.types)
        return _columns(read, words.offsets, word_labels(corpus.origin, annotation, words))

    def _vectors(self, corpus: Corpus, rows: IntArray) -> tuple[IntArray, FeatureArray]:
        """(rows,) words that a frozen encoder reads of some rows, and the vectors of all words."""
        read = self.word_rows(self.words(self.in_memory(corpus, rows)))
        padded = read.batch(np.arange(len(rows)))["vectors"].numpy()
        return read.lengths, padded[np.arange(padded.shape[1]) < read.lengths[:, None]]

    def _frozen(self, corpus: Corpus, kept: RowVectors, rows: IntArray) -> Columns:
        lengths, vectors = kept.some(rows)
        size = int(lengths.max(initial=1)) * vectors.shape[1]
        read = VectorRows(vectors, np.arange(len(vectors)), Padding(lengths), 0, size)
        some = self.in_memory(corpus, rows)
        return Columns(self._labelled(some, self.words(some), read), self.sized)

    def _check_spans(self, corpus: Corpus) -> None:
        """Refuses spans that do not fit the words; few rows are in memory.

        Raises:
            InputError: see `word_labels`.
        """
        annotation = annotation_of(corpus, self.layer).of_types(self.types)
        if annotation.detected:
            return  # nobody answers for them
        rows = np.unique(annotation.spans.row)
        for first in range(0, len(rows), AT_ONCE):
            some = self.in_memory(corpus, rows[first : first + AT_ONCE])
            own = annotation_of(some, self.layer).of_types(self.types)
            word_labels(some.origin, own, self.words(some))

    def _example_word(self, token: int) -> str:
        text = "" if self.vocabulary is None else self.vocabulary.decode([token])
        return next(iter(text.split()), f"word{token}")


def _columns(read: WordRows, offsets: IntArray, labels: IntArray) -> dict[str, Any]:
    """Words as the encoder reads them, and the labels of these: the first ones of each row."""
    place = np.arange(len(labels)) - np.repeat(offsets[:-1], np.diff(offsets))
    inside = place < np.repeat(read.lengths, np.diff(offsets))
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(read.lengths)])
    return {"words": read, "labels": TextRows(labels[inside], ends, 0, 0)}


class TaggerRelease(SupervisedRelease):
    """Tagger and RowScorer; `events` are set by the harness."""

    reader: TaggerReader

    @property
    def types(self) -> tuple[str, ...]:
        """See `Tagger`."""
        return self.reader.types

    def spans(self, corpus: Corpus) -> Spans:
        """See `Tagger`; words past `max_tokens` are outside of all entities."""
        from uedp_bench.tasks.tagging.network import best_labels

        words = self.reader.words(corpus)
        labels = np.zeros(len(words.words), dtype=np.int64)
        rows, most = self.reader.word_rows(words), self.reader.score_rows
        for chosen in batches_by_length(rows.lengths, lambda _: most, least=1):
            batch = on_device(rows.batch(chosen), str(self.device))
            best = best_labels(self.module, batch).cpu().numpy()
            positions = np.arange(best.shape[1])
            inside = positions < rows.lengths[chosen][:, None]
            at = words.offsets[chosen][:, None] + positions
            labels[at[inside]] = best[inside]
        return Spans.build(corpus.texts, mentions_of_labels(words, labels))
