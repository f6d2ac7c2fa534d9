"""Tagging by an encoder that has learnt private text before, as a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from uedp_bench.api import InputError, SourceRef
from uedp_bench.api.networks import Learner, Reader, Role, Schedule, take_over
from uedp_bench.tasks.masked_language.masked_language_model import (
    MaskedLanguageModelling,
    MaskedLanguageModelParams,
)
from uedp_bench.tasks.tagging.tagging import Tagging, TaggingParams
from uedp_bench.tasks.tokens.reader import SupervisedLearner

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Vocabulary


class PretrainedTaggingParams(TaggingParams):
    """Parameters of tagging, of the rows that are tagged, and of training before it."""

    labelled: SourceRef = Field(
        description="source of the annotated rows: the tagger learns its split train, and is "
        "scored on its split test"
    )
    labelled_rows: Literal["downstream", "private"] = Field(
        default="downstream",
        description="'downstream': annotated rows are learnt plainly, and no guarantee speaks of "
        "them; 'private': by a mechanism, whose cost adds up with that of pre-training",
    )
    epochs: int = Field(
        default=10, ge=1, description="passes over annotated rows, where they are learnt plainly"
    )
    learning_rate: float = Field(
        default=1e-3, gt=0, description="learning rate of Adam, on annotated rows"
    )
    batch_size: int = Field(default=32, ge=1, description="annotated rows a step")
    masked: float = Field(
        default=0.15, gt=0, lt=1, description="share of a text's tokens that are hidden at a visit"
    )
    pretraining_epochs: int = Field(
        default=0, ge=0, description="passes over public text, before any private text is seen"
    )
    pretraining_batch_size: int = Field(default=64, ge=1, description="rows a step, as above")


_SHARED = (
    "max_tokens", "masked", "pretraining_epochs", "pretraining_learning_rate",
    "pretraining_batch_size",
)  # fmt: skip
"""Parameters that a masked language model has as well."""


class DownstreamTagger(SupervisedLearner):
    """A tagger whose encoder comes from a masked language model; its head is its own.

    Without a schedule the mechanism trains it.
    """

    def __init__(
        self, reader: Reader, module: nn.Module, corpus: Corpus, schedule: Schedule | None
    ) -> None:
        super().__init__(reader, module, corpus, schedule)
        self.role = "private" if schedule is None else "downstream"

    def start_from(self, module: nn.Module) -> None:
        """See `Learner`: the encoder is shared, and the masked language model's head is left."""
        take_over(self.module, module, "encoder")


class PretrainedTagging(Tagging):
    """Learn private text as a masked language model, and then which words are entities.

    The run's own source is the text that pre-training must protect; `labelled` names the rows that
    are tagged and scored. Stages: public text of the run's source (`pretraining_epochs`), its
    private text by the mechanism, then the annotated rows on top of the same encoder. What the
    first two learn is that of `masked-language-model` with the same parameters; metrics are those
    of `tagging`. The floor `public-only` has the same stages without the private one; with
    `pretraining_epochs: 0` it is a tagger without any pre-training.

    It is a task of its own, not a parameter of `tagging`: everything that `tagging` says of the
    run's own rows (annotations, types, public rows that are annotated) is said of another source
    here, and a table of one must not hold the other.
    """

    name = "pretrained-tagging"
    version = 2
    source = "Hoory et al. 2021, section 4 (entity extraction)"
    Params = PretrainedTaggingParams  # type: ignore[assignment]
    default_model = "bert"
    params: PretrainedTaggingParams

    def reads(self) -> frozenset[str]:
        """Nothing of the run's own source but its text."""
        return frozenset()

    def roles(self) -> tuple[Role, ...]:
        """See `Task`."""
        return (*super().roles(), self.params.labelled_rows)

    def stages(self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run) -> Sequence[Learner]:
        """See `Task`.

        Raises:
            InputError: if a stage has nothing to train on, or the vocabulary has no mask.
        """
        p, labelled = self.params, run.downstream
        if labelled is None:
            raise InputError(f"{self.name} needs the rows of task.labelled")
        shared = {name: getattr(p, name) for name in _SHARED}
        masked = MaskedLanguageModelling(MaskedLanguageModelParams(**shared), self.model)
        before = masked.stages(corpus, vocabulary, run)
        reader = replace(
            self.reader(labelled, vocabulary), device=run.device, score_rows=run.speed.score_rows
        )
        rows = self.learnable(labelled, reader).only("train")
        if not len(rows):
            raise InputError(
                f"task.labelled: {p.layer} annotates no row of the split 'train' completely"
            )
        plan = Schedule(p.epochs, p.batch_size, p.learning_rate)
        module = reader.network(run.shared_seed("init"), run.shared_seed("init", "head"))
        schedule = plan if p.labelled_rows == "downstream" else None
        tagger = DownstreamTagger(reader, module, rows, schedule)
        run.count({"rows_truncated": tagger.truncated})
        return [*before, tagger]
