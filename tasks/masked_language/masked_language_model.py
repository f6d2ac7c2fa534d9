"""Masked language modelling: pseudo-perplexity and accuracy by frequency, beside floors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from uedp_bench.api import CapabilityError, InputError, Metric, Utility
from uedp_bench.api.capabilities import Completer, MaskFiller, RowScorer, Scorer, Tokenised
from uedp_bench.api.networks import MaskedLanguageModel, SupervisedParams, SupervisedTask
from uedp_bench.tasks.language.ngrams import COUNTED, UNKNOWN_WORDS
from uedp_bench.tasks.masked_language.masked_model import MaskedReader
from uedp_bench.tasks.masked_language.scores import score_masked
from uedp_bench.tasks.tokens.supervised import train_first

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Release
    from uedp_bench.api.networks import Vocabulary, WordCounts


class MaskedLanguageModelParams(SupervisedParams):
    """Tokens of text, share of hidden tokens, and training on public text."""

    masked: float = Field(
        default=0.15, gt=0, lt=1, description="share of a row's tokens that are hidden at a visit"
    )
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


class MaskedLanguageModelling(SupervisedTask[MaskedLanguageModelParams]):
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
    reader_type = MaskedReader
    needs: ClassVar[tuple[type, ...]] = (MaskFiller,)
    releases: ClassVar[tuple[type, ...]] = (MaskFiller, Scorer, Completer, RowScorer)
    models = MaskedLanguageModel
    default_model = "bert"
    by_vocabulary = True
    metrics = (
        Metric("pseudo_perplexity", "pseudo-perplexity", "exp of the mean nats a word of the "
               "original test text, each word hidden from the model", "lower", low=1.0, main=True),
        Metric.rate("accuracy", "accuracy", "share of predictions that are right, of words among "
                    "those in the vocabulary", "higher", main=True),
        Metric("pseudo_perplexity_known", "pseudo-perplexity of known words", "the same, of words "
               "without an unknown piece", "lower", low=1.0),
        Metric("pseudo_perplexity_open", "open pseudo-perplexity", "the same, where a word with an "
               "unknown piece is spelt as well, at ln 256 nats a byte", "lower", low=1.0,
               main=True),
        Metric("pseudo_perplexity_piece", "pseudo-perplexity a piece", "compares within one "
               "vocabulary only", "lower", low=1.0),
        Metric.rate("frequent_accuracy", "accuracy, frequent words", "of hidden words that are "
                    "among the 100 most frequent ones of public text", "higher"),
        Metric.rate("middle_accuracy", "accuracy, middle words", "of hidden words that are among "
                    "the next 900 of public text", "higher"),
        Metric.rate("rare_accuracy", "accuracy, rare words", "of all other hidden words", "higher"),
        UNKNOWN_WORDS,
        *COUNTED,
    )  # fmt: skip
    optional = (
        "accuracy",
        "frequent_accuracy",
        "middle_accuracy",
        "rare_accuracy",
        "pseudo_perplexity_known",
        "constant_accuracy",
    )
    floors: ClassVar[Mapping[str, str]] = MappingProxyType({"unigrams": "unigram_perplexity"})
    counted = tuple(one.name for one in COUNTED)

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary | None:
        """See `SupervisedTask`.

        Raises:
            InputError: if vectors were published in place of text, or the model is frozen.
        """
        if self.text_model().frozen():
            raise InputError(
                f"{self.name} trains the encoder, and {self.model.name} is frozen: leave out frozen"
            )
        return super().vocabulary(corpus, words)

    def reader(self, corpus: Corpus, vocabulary: Vocabulary | None) -> MaskedReader:
        """See `SupervisedTask`."""
        p = self.params
        return MaskedReader(
            self.text_model(),
            vocabulary,
            max_tokens=p.max_tokens,
            rate=p.masked,
            scored_tokens=p.scored_tokens,
        )

    def training_rows(self, corpus: Corpus) -> Corpus:
        """See `SupervisedTask`: rows of `train` come first."""
        return train_first(super().training_rows(corpus))

    def score(self, release: Release, corpus: Corpus) -> Utility:
        """See `Task`.

        Raises:
            InputError: if the corpus has no test rows, or these have no word.
        """
        if not isinstance(release, MaskFiller) or not isinstance(release, Tokenised):
            raise CapabilityError(f"{self.name} scores MaskFillers with a vocabulary")
        reader = self.reader(corpus, release.vocabulary)
        return score_masked(release, reader, corpus, self.params.scored_words)
