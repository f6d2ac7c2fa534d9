"""What mechanisms train in text classification: labelled rows, and the loss of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.corpus import Corpus, IntArray
from uedp_bench.learner import Batch, Losses, Schedule, SplitLearner, row_seeds
from uedp_bench.tasks.classification.inputs import InputReader

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.model import Vocabulary
    from uedp_bench.tasks.classification.release import ClassifierRelease


class ClassifierLearner(SplitLearner):
    """A classifier and the labelled rows that it learns from; see `learner.SplitLearner`.

    Args:
        reader: turns rows into inputs.
        module: the network, a `ClassifierNetwork` or several of them.
        corpus: the rows, numbered from 0, each with a label; rows of `valid` are there for
            mechanisms that choose a checkpoint.
        score_rows: rows that the release classifies at once.
        schedule: of the stage on public rows, how to train it; None for the private stage.

    Attributes:
        target: whose classes the labels are: "label", or the name of an attribute.
    """

    target: str = "label"

    def __init__(
        self,
        reader: InputReader,
        module: nn.Module,
        corpus: Corpus,
        *,
        score_rows: int = 512,
        schedule: Schedule | None = None,
    ) -> None:
        if corpus.labels is None:
            raise RuntimeError("text-classification checks that the corpus has labels")
        self.module = module if schedule is None else reader.model.on_public_text(module)
        self.corpus, self.width = corpus, int(module.width)  # type: ignore[arg-type]
        self.vocabulary: Vocabulary | None = reader.vocabulary
        self.role = "private" if schedule is None else "public"
        self.schedule = schedule
        self._reader, self._labels = reader, corpus.labels
        self._score_rows = score_rows
        self._rows = reader.read_on_demand(corpus)
        # Vectors go through few plain layers alone, whatever the model is.
        self.vectorised = self._rows.fixed or reader.model.vectorised
        width = max(self.width, len(corpus.label_names))
        tokens = int(self._rows.lengths.max(initial=1))
        given = corpus.vectors is not None
        self.row_size = width if given else reader.model.row_numbers(tokens, width)

    @property
    def truncated(self) -> int | None:
        """Rows that lost tokens to the limit; None for texts in a file, which nobody counts."""
        return self._rows.truncated

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """`vectors`, or `tokens` and `lengths`; `labels` and dropout `seeds` (rows,)."""
        chosen = np.asarray(rows, dtype=np.int64)
        return self._labelled(self._rows.batch(chosen, self._reader.padding), chosen, seeds)

    def example_batch(self) -> Batch:
        """See `Learner`: random tokens, or vectors, and random classes."""
        import torch

        rng = np.random.default_rng(0)
        rows = self._reader.examples(self.corpus)
        every = np.arange(len(rows))
        labels = rng.integers(max(1, len(self.corpus.label_names)), size=len(rows))
        return {
            **rows.batch(every, self._reader.padding),
            "labels": torch.from_numpy(labels),
            "seeds": torch.from_numpy(row_seeds(rng, every.shape)),
        }

    def masked_batch(
        self, rows: Sequence[int] | IntArray, rng: np.random.Generator, rate: float
    ) -> Batch:
        """See `SplitLearner`; a frozen encoder encodes the masked texts anew."""
        chosen = np.asarray(rows, dtype=np.int64)
        masked = self._reader.masked(self.corpus.take(chosen), rate, [rng] * len(chosen))
        every = np.arange(len(chosen))
        seeds = row_seeds(rng, chosen.shape)
        return self._labelled(masked.batch(every, self._reader.padding), chosen, seeds)

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of each row's label."""
        return self._cross_entropy(module(batch), batch)

    def encode(self, module: nn.Module, batch: Batch) -> Tensor:
        """(rows, d) representations."""
        represented: Tensor = module.represent(batch)  # type: ignore[operator]
        return represented

    def head_losses(self, module: nn.Module, z: Tensor, batch: Batch) -> Losses:
        """Cross-entropy of each row's label given its representation."""
        seeds = batch["seeds"] if module.training else None
        return self._cross_entropy(module.classify(z, seeds), batch)  # type: ignore[operator]

    def release(self, module: nn.Module) -> ClassifierRelease:
        """The classifier as its users, and anybody with its weights, can ask it."""
        from uedp_bench.tasks.classification.release import ClassifierRelease

        names = self.corpus.label_names
        release = ClassifierRelease(self._reader, module, names, score_rows=self._score_rows)
        release.target, release.takes_vectors = self.target, self.corpus.vectors is not None
        return release

    def _labelled(self, batch: Batch, rows: IntArray, seeds: IntArray) -> Batch:
        import torch

        labels = torch.from_numpy(self._labels[rows])
        return {**batch, "labels": labels, "seeds": torch.from_numpy(seeds)}

    @staticmethod
    def _cross_entropy(logits: Tensor, batch: Batch) -> Losses:
        import torch

        nats = torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="none")
        return Losses(nats, torch.ones_like(nats))
