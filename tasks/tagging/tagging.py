"""Sequence tagging: entity-level precision, recall and F1, beside a dictionary of public text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from uedp_bench.api import CapabilityError, Metric, Utility
from uedp_bench.api.capabilities import RowScorer, Tagger
from uedp_bench.api.networks import SupervisedParams, SupervisedTask, TokenEncoder
from uedp_bench.tasks.tagging.scores import F1, F1_LOOSE, PRECISION, score_tagger
from uedp_bench.tasks.tagging.tagger import Reduction, TaggerReader
from uedp_bench.tasks.tagging.targets import ENTITIES, WordRule, annotation_of, chosen_types

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Release
    from uedp_bench.api.networks import Reader, Vocabulary


class TaggingParams(SupervisedParams):
    """Annotation to learn, and decoding of labels."""

    layer: str = Field(
        default=ENTITIES,
        min_length=1,
        description="annotation that is learnt: 'entities' (what counts as entities in the "
        "corpus), or the name of a layer; rows that it does not annotate completely take no part",
    )
    scored_layer: str | None = Field(
        default=None,
        min_length=1,
        description="annotation of the test rows that predictions are compared with; by default "
        "that which is learnt",
    )
    types: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="types of entities that are learnt; by default all"
    )
    words: WordRule = Field(
        default="spaces",
        description="'spaces': a word is what stands between white space; 'signs': signs that are "
        "no letters or digits are words of their own, for text that was not tokenised",
    )
    decoder: Literal["softmax", "crf"] = Field(
        default="softmax",
        description="'softmax': the label of each word by itself; 'crf': all labels of a row "
        "together, by a linear-chain conditional random field",
    )
    reduction: Reduction = Field(
        default="mean",
        description="loss of a row: the mean over its words, so that a bound on gradients means "
        "the same for short and long rows, or their sum",
    )
    max_tokens: int = Field(
        default=128,
        ge=3,
        description="words of a row (or pieces of words, with the first and last special token) "
        "past this many are left out of training, and predicted as outside of all entities; the "
        "number of such rows is in the cost",
    )
    pretraining_batch_size: int = Field(default=32, ge=1, description="rows a step, as above")


class Tagging(SupervisedTask[TaggingParams]):
    """Learn which words are entities, and of what type.

    Words have BIO2 labels. Scores are of whole entities, on the test rows that are completely
    annotated: `f1_strict`, `precision` and `recall` count an entity with the right boundaries and
    type, `f1_exact` with the right boundaries, `f1_partial` half for an overlap, `f1_type` for an
    overlap of the right type (SemEval-2013 task 9); `type_f1_paper` and `partial_f1_paper` are the
    variants of Hathurusinghe et al. 2021. `weighted_token_f1` averages the F1 of each label, "O"
    too, by how often it is true: predicting "O" everywhere scores
    `all_outside_weighted_token_f1` there, and 0 of entities (`all_outside_f1`). `dictionary_f1` is
    that of looking up the entities of public text, the longest first.
    """

    name = "tagging"
    source = (
        "Tjong Kim Sang and De Meulder 2003 (CoNLL-2003); Jana and Biemann 2021; Hathurusinghe, "
        "Nejadgholi and Bolic 2021"
    )
    Params = TaggingParams
    reader_type = TaggerReader
    needs: ClassVar[tuple[type, ...]] = (Tagger,)
    releases: ClassVar[tuple[type, ...]] = (Tagger, RowScorer)
    models = TokenEncoder
    default_model = "bilstm"
    metrics = (
        F1,
        PRECISION,
        Metric.rate("recall", "recall", "share of the entities that are found", "higher"),
        *F1_LOOSE,
        Metric.rate("type_f1_paper", "F1, type (paper)", "of entities, half for an overlap of the "
                    "right type", "higher"),
        Metric.rate("partial_f1_paper", "F1, partial (paper)", "of entities, half for any overlap "
                    "but a right one", "higher"),
        Metric.rate("weighted_token_f1", "token F1", "mean of the F1 of each label by its share of "
                    "the words, words outside of entities among them, which flatters", "higher",
                    main=True),
        Metric.rate("all_outside_weighted_token_f1", "token F1, all outside", "of finding no "
                    "entity at all"),
        Metric.rate("all_outside_f1", "entity F1, all outside", "of finding no entity at all"),
        Metric.rate("dictionary_f1", "dictionary's F1", "entity F1 of looking up the entities of "
                    "public text"),
    )  # fmt: skip
    optional = ("dictionary_f1",)
    floors: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"dictionary": "dictionary_f1", "all-outside": "all_outside_f1"}
    )

    def reads(self) -> frozenset[str]:
        """The annotations that are learnt and scored."""
        named = {self.params.layer, self.params.scored_layer or self.params.layer}
        return frozenset(name if name == ENTITIES else f"layer {name}" for name in named)

    def classes_of(self) -> frozenset[str]:
        """The types of the annotation that is learnt, unless they are named."""
        layer = self.params.layer
        if self.params.types is not None:
            return frozenset()
        return frozenset({layer if layer == ENTITIES else f"layer {layer}"})

    def reader(self, corpus: Corpus, vocabulary: Vocabulary | None) -> Reader:
        """See `SupervisedTask`.

        Raises:
            InputError: if there are no types.
        """
        p = self.params
        return TaggerReader(
            self.text_model(),
            vocabulary,
            layer=p.layer,
            types=chosen_types(annotation_of(corpus, p.layer), p.types),
            rule=p.words,
            max_tokens=p.max_tokens,
            reduction=p.reduction,
            decoder=p.decoder,
        )

    def score(self, release: Release, corpus: Corpus) -> Utility:
        """See `Task`.

        Raises:
            InputError: if no test row is completely annotated, or none of these has an entity.
        """
        if not isinstance(release, Tagger):
            raise CapabilityError("tagging scores releases that are Taggers")
        p = self.params
        return score_tagger(release, corpus, p.scored_layer or p.layer, p.types, p.words)
