"""Tagging by an encoder that has learnt private text before, as a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.learner import Learner, Role, Schedule, take_over
from uedp_bench.masked_model import MaskedLanguageModel
from uedp_bench.source import SourceRef
from uedp_bench.tasks.masked_language.learner import MaskedReader, masked_stages, with_mask
from uedp_bench.tasks.tagging.learner import TaggerLearner, TaggerReader
from uedp_bench.tasks.tagging.tagging import Tagging, TaggingParams
from uedp_bench.tasks.tagging.targets import annotation_of, chosen_types
from uedp_bench.tasks.tokens.pretraining import roles_of

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.corpus import Corpus
    from uedp_bench.model import Vocabulary
    from uedp_bench.run_context import Run


class PretrainedTaggingParams(TaggingParams):
    """Those of tagging, the rows that are tagged, and what happens before."""

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


class DownstreamTagger(TaggerLearner):
    """A tagger whose encoder comes from a masked language model; its head is its own.

    Args:
        reader, module, corpus, score_rows, schedule: see `TaggerLearner`; without a schedule the
            mechanism trains it.
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
        super().__init__(reader, module, corpus, score_rows=score_rows, schedule=schedule)
        self.role: Role = "private" if schedule is None else "downstream"

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
        return (*roles_of(self.params), self.params.labelled_rows)

    def stages(self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run) -> Sequence[Any]:
        """See `Task`.

        Raises:
            InputError: if a stage has nothing to train on, or the vocabulary has no mask.
        """
        p, model, labelled = self.params, self._masked_model(), run.downstream
        if labelled is None:
            raise InputError(f"{self.name} needs the rows of task.labelled")
        masked = MaskedReader(model, with_mask(vocabulary), p.max_tokens, p.masked)
        before: list[Learner] = [*masked_stages(masked, p, corpus, run)]
        types = chosen_types(annotation_of(labelled, p.layer), p.types)
        reader = TaggerReader(
            self._model(), vocabulary, p.layer, types, p.words, p.max_tokens, p.reduction,
            run.device,
        )  # fmt: skip
        rows = labelled.take(np.flatnonzero(reader.learnable(labelled))).only("train")
        if not len(rows):
            raise InputError(
                f"task.labelled: {p.layer} annotates no row of the split 'train' completely"
            )
        plan = Schedule(p.epochs, p.batch_size, p.learning_rate)
        tagger = DownstreamTagger(
            reader,
            self._network(reader, run),
            rows,
            score_rows=run.speed.score_rows,
            schedule=plan if p.labelled_rows == "downstream" else None,
        )
        run.count({"rows_truncated": tagger.truncated})
        return [*before, tagger]

    def _masked_model(self) -> MaskedLanguageModel[Any]:
        if not isinstance(self.model, MaskedLanguageModel):
            raise CapabilityError(
                f"{self.name} needs a token encoder that is a masked language model (such as bert)"
            )
        return self.model
