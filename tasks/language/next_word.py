"""Next-word prediction: perplexity and accuracy, beside the share of unknown words and floors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import BoolArray, CapabilityError, FloatArray, InputError, Metric
from uedp_bench.api.capabilities import Completer, Generator, RowScorer, Scorer, Tokenised
from uedp_bench.api.networks import LanguageModel, SupervisedParams, SupervisedTask
from uedp_bench.api.text import or_alone
from uedp_bench.tasks.language.language_model import LanguageModelRelease, LanguageReader
from uedp_bench.tasks.language.ngrams import COUNTED, UNKNOWN_WORDS, NGramModel
from uedp_bench.tasks.tokens.rows import (
    Preprocessing,
    TextRows,
    encode_targets,
    perplexity,
    prepare,
    ratio,
    rows_in_parts,
)
from uedp_bench.tasks.tokens.supervised import train_first

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Estimate, Release
    from uedp_bench.api.networks import Vocabulary


class NextWordParams(SupervisedParams):
    """Tokens of text, and training on public text."""

    preprocessing: Preprocessing = Field(
        default="none", description="'paper': lower case without punctuation (Lai et al.)"
    )
    pretraining_learning_rate: float = Field(
        default=5e-3, gt=0, description="learning rate of Adam, on the public split"
    )
    max_tokens: int | None = Field(  # type: ignore[assignment]
        default=None,
        ge=1,
        description="targets of a training row (its end token among them) past this many are left "
        "out; the number of such rows is in the cost",
    )


class NextWord(SupervisedTask[NextWordParams]):
    """Learn to predict each word of a row from those before it.

    Perplexity is exp(sum of nats / words) on the original test rows: words are the
    whitespace-separated words of the preprocessed text and one end per row, so that vocabularies
    compare; nats are summed over all tokens and the end. A word outside the vocabulary is predicted
    by predicting that it is one, which flatters: `oov_rate` is the share of such targets, and
    `perplexity_known` and `accuracy` leave them out. N-grams see the same tokens, share the
    divisor, and are counted on the training rows without privacy; unigrams are the floor that a
    model must beat. The floor of `accuracy` is `constant_accuracy`: the known target that is most
    frequent in training, predicted everywhere.
    """

    name = "next-word"
    version = 2
    source = "Lai et al. 2022 (UeDP), section VI; McMahan et al. 2018"
    Params = NextWordParams
    reader_type = LanguageReader
    needs: ClassVar[tuple[type, ...]] = (Scorer,)
    releases: ClassVar[tuple[type, ...]] = (Scorer, Completer, Generator, RowScorer)
    models = LanguageModel
    default_model = "lstm-small"
    by_vocabulary = True
    metrics = (
        Metric("perplexity", "perplexity", "exp of the mean nats a word of the original test text",
               "lower", low=1.0, main=True),
        Metric.rate("accuracy", "accuracy", "share of predictions that are right, of words among "
                    "those in the vocabulary", "higher", main=True),
        Metric.rate("accuracy_with_unknown", "accuracy with unknown", "the same, where predicting "
                    "an unknown word as unknown is right too", "higher"),
        Metric("perplexity_token", "perplexity a token", "compares within one vocabulary only",
               "lower", low=1.0),
        Metric("perplexity_known", "perplexity of known words", "exp of the mean nats a target in "
               "the vocabulary", "lower", low=1.0),
        UNKNOWN_WORDS,
        *COUNTED,
    )  # fmt: skip
    floors: ClassVar[Mapping[str, str]] = MappingProxyType({"unigrams": "unigram_perplexity"})
    counted = tuple(one.name for one in COUNTED)

    @property
    def preprocessing(self) -> Preprocessing:
        """See `SupervisedTask`."""
        return self.params.preprocessing

    def training_rows(self, corpus: Corpus) -> Corpus:
        """See `SupervisedTask`: rows of `train` come first."""
        return train_first(super().training_rows(corpus))

    def score(self, release: Release, corpus: Corpus) -> dict[str, Estimate]:
        """See `Task`.

        Raises:
            InputError: if the corpus has no test rows.
        """
        if not isinstance(release, Scorer) or not isinstance(release, Tokenised):
            raise CapabilityError("next-word scores releases that are Scorers with a vocabulary")
        vocabulary = release.vocabulary
        test = corpus.only("test")
        if not len(test):
            raise InputError("the corpus has no row in the split 'test' to score")
        preprocessing = self.params.preprocessing
        whole: Any = release
        if isinstance(whole, LanguageModelRelease):
            scores = whole.scores_of_all_targets(test.texts)
        else:
            scores = release.token_logprobs(test.texts)
        rows = TextRows.build(encode_targets(test.texts, vocabulary, preprocessing), vocabulary)
        words = np.array([len(text.split()) + 1.0 for text in prepare(test.texts, preprocessing)])
        users = or_alone(test.users)
        nats = -np.concatenate([score.logp for score in scores])
        right = np.concatenate([score.correct for score in scores])
        outside = -1 if vocabulary.unknown is None else vocabulary.unknown
        in_vocabulary = np.asarray(rows.flat != outside)  # ends of rows are in it

        def share(of: BoolArray, among: BoolArray) -> Estimate:
            return ratio(rows.row_sums(of & among), rows.row_sums(among), users)

        def count() -> tuple[FloatArray, FloatArray, int]:
            model = self.ngrams(2, corpus, vocabulary)
            return model.nats(rows, 1), model.nats(rows), model.most_frequent(outside)

        every, in_rows = np.ones_like(in_vocabulary), rows.row_sums
        unigrams, bigrams, most = self.once(corpus, vocabulary.fingerprint, count)
        return {
            "perplexity": perplexity(in_rows(nats), words, users),
            "accuracy": share(right, in_vocabulary),
            "oov_rate": share(~in_vocabulary, every),
            "perplexity_known": perplexity(
                in_rows(np.where(in_vocabulary, nats, 0.0)), in_rows(in_vocabulary), users
            ),
            "accuracy_with_unknown": share(right, every),
            "perplexity_token": perplexity(in_rows(nats), rows.lengths, users),
            "unigram_perplexity": perplexity(in_rows(unigrams), words, users),
            "bigram_perplexity": perplexity(in_rows(bigrams), words, users),
            "constant_accuracy": share(rows.flat == most, in_vocabulary),
        }

    def ngrams(self, order: int, corpus: Corpus, vocabulary: Vocabulary) -> NGramModel:
        """The floor of an order, counted on the training rows without privacy.

        Without validation rows, every tenth training row chooses the weights instead.
        """
        train, valid = (corpus.only(split).texts for split in ("train", "valid"))
        if not len(valid) and len(train) > 1:
            tenth = np.arange(len(train)) % 10 == 0
            rows = corpus.only("train")
            train, valid = (rows.take(np.flatnonzero(which)).texts for which in (~tenth, tenth))
        preprocessing = self.params.preprocessing
        counted = rows_in_parts(train, vocabulary, preprocessing)
        chosen_on = TextRows.build(encode_targets(valid, vocabulary, preprocessing), vocabulary)
        return NGramModel(order, vocabulary.size, counted, chosen_on)
