"""What mechanisms train in next-word prediction: rows of text, and the loss of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import Corpus, IntArray
from uedp_bench.learner import Batch, Learner, Losses, Schedule, example_ids, row_seeds
from uedp_bench.model import FeatureModule, StopsAtEnds
from uedp_bench.tasks.tokens.rows import (
    IGNORED,
    Preprocessing,
    RowsOnDemand,
    TextRows,
    encode_targets,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.model import LanguageModel, Vocabulary
    from uedp_bench.tasks.language.release import LanguageModelRelease


class LanguageModelLearner(Learner):
    """A language model and the rows that it learns from; see `uedp_bench.learner.Learner`.

    Args:
        model: made `module`.
        module: the network.
        vocabulary: its tokens.
        corpus: the rows, numbered from 0.
        preprocessing: what is done to every text, in training and when the release is asked.
        max_tokens: targets of a row after the first so many are left out of training, its end
            token among them; None for no limit but the model's own.
        score_rows: rows that the release scores at once.
        schedule: of the stage on public rows, how to train it; None for the private stage.

    Attributes:
        truncated: rows that lost targets to `max_tokens` or to the model's own limit; None where
            nobody counts them, for rows that stay in a file are encoded when they are asked for.
    """

    def __init__(
        self,
        model: LanguageModel[Any],
        module: nn.Module,
        vocabulary: Vocabulary,
        corpus: Corpus,
        *,
        preprocessing: Preprocessing = "none",
        max_tokens: int | None = None,
        score_rows: int = 512,
        schedule: Schedule | None = None,
    ) -> None:
        self.model, self.corpus = model, corpus
        self.module = module if schedule is None else model.on_public_text(module)
        self.vocabulary: Vocabulary | None = vocabulary
        self.vectorised: bool = model.vectorised
        self.role = "private" if schedule is None else "public"
        self.schedule = schedule
        self._vocabulary, self._preprocessing = vocabulary, preprocessing
        self._score_rows, self._max_tokens = score_rows, max_tokens
        # A row's inputs are as many as its targets; the model's limit counts begin and end.
        limits = [max_tokens, None if (own := model.max_length()) is None else own - 1]
        limit = min((value for value in limits if value is not None), default=None)
        self.truncated: int | None = None if limit else 0
        self._limit = limit
        self._rows: TextRows | RowsOnDemand
        if corpus.stored:
            self._rows = RowsOnDemand(corpus.texts, vocabulary, preprocessing, limit)
            longest = self._rows.longest
        else:
            rows = encode_targets(corpus.texts, vocabulary, preprocessing)
            train = corpus.where("train").tolist()
            self.truncated = sum(
                own and limit is not None and len(row) > limit
                for own, row in zip(train, rows, strict=True)
            )
            self._rows = TextRows.build([row[:limit] for row in rows], vocabulary)
            longest = int(self._rows.lengths.max(initial=1))
        self.row_size = longest * vocabulary.size

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """`tokens` and `targets` (rows, longest of these rows) and dropout `seeds` (rows,)."""
        return self._tensors(*self._rows.padded(np.asarray(rows, dtype=np.int64)), seeds)

    def example_batch(self) -> Batch:
        """See `Learner`: random targets."""
        ids = example_ids(self._vocabulary.size, self._limit)
        rows = TextRows.build(ids, self._vocabulary)
        seeds = row_seeds(np.random.default_rng(0), (len(ids),))
        return self._tensors(*rows.padded(np.arange(len(ids))), seeds)

    def _tensors(self, tokens: IntArray, targets: IntArray, seeds: IntArray) -> Batch:
        import torch

        return {
            "tokens": torch.from_numpy(tokens),
            "targets": torch.from_numpy(targets),
            "seeds": torch.from_numpy(seeds),
        }

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of each row; dropout acts where the module is in training mode."""
        from uedp_bench.models.fast.cross_entropy import token_nats
        from uedp_bench.models.fast.output_nats import output_nats
        from uedp_bench.models.networks.output_layer import OutputLayer

        targets = batch["targets"]
        seeds = batch["seeds"] if module.training else None
        network: Any = module
        layer = network.output_layer() if isinstance(network, FeatureModule) else None
        if layer is None:
            nats = token_nats(module(batch["tokens"], seeds), targets)
        else:
            features = _features(network, batch["tokens"], seeds, targets)
            nats = output_nats(features, OutputLayer(*layer), targets)
        return Losses(nats.sum(dim=1), (targets != IGNORED).sum(dim=1).to(nats.dtype))

    def release(self, module: nn.Module) -> LanguageModelRelease:
        """The model as anybody with its weights can ask it."""
        from uedp_bench.tasks.language.release import LanguageModelRelease

        return LanguageModelRelease(
            self.model,
            module,
            self._vocabulary,
            preprocessing=self._preprocessing,
            max_tokens=self._max_tokens,
            score_rows=self._score_rows,
        )


def _features(network: Any, tokens: Tensor, seeds: Tensor | None, targets: Tensor) -> Tensor:
    """What the output layer reads; what stands after the last target of a row may be anything."""
    if not isinstance(network, StopsAtEnds):
        found: Tensor = network.outputs(tokens, seeds)
        return found
    import torch

    places = torch.arange(1, targets.shape[1] + 1, device=targets.device)
    lengths = torch.where(targets == IGNORED, 0, places).amax(dim=1)
    return network.outputs_until(tokens, seeds, lengths)
