"""Masked language modelling: pseudo-perplexity and accuracy by frequency, beside floors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from uedp_bench.component import MayBePath, Params
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.learner import Role
from uedp_bench.mask_filler import MaskFiller
from uedp_bench.masked_model import MaskedLanguageModel
from uedp_bench.release import Completer, RowScorer, Scorer, Tokenised
from uedp_bench.task import Task, Utility
from uedp_bench.tasks.masked_language.learner import (
    MaskedLearner,
    MaskedReader,
    masked_stages,
    with_mask,
)
from uedp_bench.tasks.masked_language.scores import score_masked
from uedp_bench.tasks.tokens.pretraining import roles_of
from uedp_bench.tasks.tokens.vocabulary import DESCRIPTION, WORDS, make_vocabulary, words_of

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus
    from uedp_bench.model import Vocabulary
    from uedp_bench.release import Release
    from uedp_bench.run_context import Run
    from uedp_bench.word_counts import WordCounts


class MaskedLanguageModelParams(Params):
    """How text becomes tokens, how many are hidden, and what happens before private training."""

    vocabulary: Annotated[str, MayBePath(words=WORDS)] = Field(
        default="public", description=DESCRIPTION
    )
    max_tokens: int = Field(
        default=128,
        ge=3,
        description="tokens of a row past this many are left out of training, the first and last "
        "special token among them; the number of such rows is in the cost",
    )
    masked: float = Field(
        default=0.15, gt=0, lt=1, description="share of a row's tokens that are hidden at a visit"
    )
    pretraining_epochs: int = Field(
        default=0, ge=0, description="passes over the public split before private training"
    )
    pretraining_learning_rate: float = Field(
        default=1e-3, gt=0, description="learning rate of Adam, on the public split"
    )
    pretraining_batch_size: int = Field(default=64, ge=1, description="rows a step, as above")
    scored_words: int = Field(
        default=20_000,
        ge=1,
        description="test words that are hidden and predicted, at least, if there are so many: "
        "they are drawn by hash, a share of every row, as many passes as that takes",
    )
    scored_tokens: int | None = Field(
        default=32,
        ge=1,
        description="attackers ask about a text by hiding one token at a time: of longer texts "
        "every k-th one, so that there are at most this many; null: every one",
    )


class MaskedLanguageModelling(Task[MaskedLanguageModelParams]):
    """Learn to predict hidden words of a row from all others.

    In training a share of the tokens of a row is hidden, anew at every visit: by the mask (80 %),
    by a token drawn at random (10 %), or by itself (10 %).

    The test rows are scored by whole words: each is hidden once, all of its pieces together, beside
    other words of the row, in as many passes as hide a share of `masked` each; which words are
    hidden together depends on the row alone. Of a large test split (`scored_words`), words are
    drawn by hash, and only so many passes are made.

    `pseudo_perplexity` is exp(sum of nats / words): words are those between white space, and nats
    are summed over the pieces of a word, of which the model is told the number.
    `pseudo_perplexity_piece` divides by pieces. A word with an unknown piece is predicted by
    predicting that it is unknown, which flatters: `oov_rate` is the share of such words,
    `pseudo_perplexity_known` and all accuracies leave them out, and `pseudo_perplexity_open` adds
    what it takes to spell them, ln 256 nats a byte and its end, so that vocabularies compare. A
    word is right if all of its pieces are. Accuracies by frequency go by the rank of a word in
    public text, lower-cased: up to 100, up to 1,000, and all others.

    Floors are counted on the training rows without privacy, on the same pieces:
    `unigram_perplexity`, `bigram_perplexity` of pieces given the one before (which is shown to them
    even where it is hidden from the model), and the accuracy of the most frequent word everywhere.
    """

    name = "masked-language-model"
    version = 2
    source = "Devlin et al. 2019 (BERT), section 3.1; Hoory et al. 2021, section 4"
    Params = MaskedLanguageModelParams
    needs: ClassVar[tuple[type, ...]] = (MaskFiller,)
    releases: ClassVar[tuple[type, ...]] = (MaskFiller, Scorer, Completer, RowScorer)
    models = MaskedLanguageModel
    default_model = "bert"
    by_vocabulary = True
    utility = (
        "pseudo_perplexity",
        "accuracy",
        "frequent_accuracy",
        "middle_accuracy",
        "rare_accuracy",
        "oov_rate",
        "pseudo_perplexity_open",
        "pseudo_perplexity_known",
        "pseudo_perplexity_piece",
        "unigram_perplexity",
        "bigram_perplexity",
        "constant_accuracy",
    )
    optional = (
        "accuracy",
        "frequent_accuracy",
        "middle_accuracy",
        "rare_accuracy",
        "pseudo_perplexity_known",
        "constant_accuracy",
    )
    floors: ClassVar[Mapping[str, str]] = MappingProxyType({"unigrams": "unigram_perplexity"})
    counted = ("unigram_perplexity", "bigram_perplexity", "constant_accuracy")

    def words(self, corpus: Corpus) -> Sequence[Sequence[str]]:
        """See `Task`."""
        return words_of(self._model(), corpus.texts, "none")

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary:
        """See `Task`; a pretrained model brings its own, whatever the parameter says.

        Raises:
            InputError: if vectors were published in place of text, or the model is frozen.
        """
        if corpus.vectors is not None:
            raise InputError(
                f"{self.name} learns from text, and the mechanism publishes vectors: use it for "
                "text-classification"
            )
        if self._model().frozen():
            raise InputError(
                f"{self.name} trains the encoder, and {self._model().name} is frozen: leave out "
                "frozen"
            )
        return make_vocabulary(self._model(), self.params.vocabulary, corpus, "none", words)

    def stages(
        self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run
    ) -> Sequence[MaskedLearner]:
        """See `Task`.

        Raises:
            InputError: if there is nothing to train on, or public pre-training is asked for
                without public text; if the vocabulary has no mask.
        """
        p = self.params
        reader = MaskedReader(
            self._model(), with_mask(vocabulary), p.max_tokens, p.masked, run.speed.score_rows,
            p.scored_tokens,
        )  # fmt: skip
        return masked_stages(reader, p, corpus, run)

    def roles(self) -> tuple[Role, ...]:
        """See `Task`."""
        return roles_of(self.params)

    def score(self, release: Release, corpus: Corpus) -> Utility:
        """See `Task`.

        Raises:
            InputError: if the corpus has no test rows, or these have no word.
        """
        if not isinstance(release, MaskFiller) or not isinstance(release, Tokenised):
            raise CapabilityError(f"{self.name} scores MaskFillers with a vocabulary")
        reader = MaskedReader(
            self._model(), with_mask(release.vocabulary), self.params.max_tokens, self.params.masked
        )
        return score_masked(release, reader, corpus, self.params.scored_words)

    def load(self, folder: Path) -> Release:
        """See `Task`."""
        from uedp_bench.tasks.masked_language.release import MaskedLanguageModelRelease

        return MaskedLanguageModelRelease.load(folder)

    def _model(self) -> MaskedLanguageModel[Any]:
        if not isinstance(self.model, MaskedLanguageModel):
            raise CapabilityError(f"{self.name} needs a masked language model (such as bert)")
        return self.model
