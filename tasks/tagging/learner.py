"""What mechanisms train in tagging: annotated rows of words, and the loss of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, IntArray
from uedp_bench.learner import Batch, Learner, Losses, Schedule
from uedp_bench.tasks.tagging.targets import annotation_of, word_labels
from uedp_bench.tasks.tagging.words import WordRule, WordTable
from uedp_bench.tasks.tokens.rows import IGNORED

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.model import TokenEncoder, Vocabulary
    from uedp_bench.tasks.tagging.release import TaggerRelease

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
        return annotation.rows & (self.words(corpus).counts > 0)

    def targets(self, corpus: Corpus, words: WordTable) -> IntArray:
        """(words,) labels of the words of a corpus all of whose rows are `learnable`."""
        annotation = annotation_of(corpus, self.layer).of_types(self.types)
        return word_labels(corpus, annotation, words)


class TaggerLearner(Learner):
    """A tagger and the rows that it learns from; see `uedp_bench.learner.Learner`.

    Args:
        reader: reads rows.
        module: a `TaggerNetwork`, or several of them.
        corpus: the rows, numbered from 0, all of them `learnable`.
        score_rows: rows that the release tags at once.
        schedule: of the stage on public rows, how to train it; None for the private stage.
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
        words = reader.words(corpus)
        self._first, self._labels = words.offsets[:-1], reader.targets(corpus, words)
        self._rows = reader.model.read_words(
            words.by_row(), reader.vocabulary, reader.max_tokens, reader.device
        )
        self.row_lengths = self._rows.lengths
        longest = int(self._rows.lengths.max(initial=1))
        self.row_size = max(self._rows.row_size, longest * reader.labels)

    @property
    def truncated(self) -> int:
        """Rows that lost words to a limit."""
        return self._rows.truncated

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """What the encoder reads, `labels` (rows, words) and dropout `seeds` (rows,)."""
        import torch

        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self._rows.lengths[chosen]
        columns = np.arange(lengths.max(initial=1))
        inside = columns < lengths[:, None]
        at = self._first[chosen][:, None] + np.where(inside, columns, 0)
        labels = np.where(inside, self._labels[at], IGNORED)
        return {
            **self._rows.batch(chosen),
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
