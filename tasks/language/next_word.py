"""Next-word prediction: perplexity and accuracy, beside the share of unknown words and floors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from uedp_bench.component import MayBePath, Params
from uedp_bench.corpus import BoolArray, FloatArray, IntArray, or_alone
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.learner import Role, Schedule
from uedp_bench.model import LanguageModel
from uedp_bench.release import Completer, Generator, RowScorer, Scorer, Tokenised
from uedp_bench.task import Task
from uedp_bench.tasks.language.learner import LanguageModelLearner
from uedp_bench.tasks.language.ngrams import NGramModel
from uedp_bench.tasks.tokens.pretraining import private_rows, public_stage, roles_of
from uedp_bench.tasks.tokens.rows import (
    Preprocessing,
    TextRows,
    encode_targets,
    prepare,
    rows_in_parts,
)
from uedp_bench.tasks.tokens.vocabulary import DESCRIPTION, WORDS, make_vocabulary, words_of

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.corpus import Corpus
    from uedp_bench.model import Vocabulary
    from uedp_bench.release import Release
    from uedp_bench.results import Estimate
    from uedp_bench.run_context import Run
    from uedp_bench.word_counts import WordCounts

_BOOTSTRAP_SEED = 2022


class NextWordParams(Params):
    """How text becomes tokens, and what happens before private training."""

    vocabulary: Annotated[str, MayBePath(words=WORDS)] = Field(
        default="public", description=DESCRIPTION
    )
    preprocessing: Preprocessing = Field(
        default="none", description="'paper': lower case without punctuation (Lai et al.)"
    )
    pretraining_epochs: int = Field(
        default=0, ge=0, description="passes over the public split before private training"
    )
    pretraining_learning_rate: float = Field(
        default=5e-3, gt=0, description="learning rate of Adam, on the public split"
    )
    pretraining_batch_size: int = Field(default=64, ge=1, description="rows a step, as above")
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="targets of a training row (its end token among them) past this many are left "
        "out; the number of such rows is in the cost",
    )


class NextWord(Task[NextWordParams]):
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
    needs: ClassVar[tuple[type, ...]] = (Scorer,)
    releases: ClassVar[tuple[type, ...]] = (Scorer, Completer, Generator, RowScorer)
    models = LanguageModel
    by_vocabulary = True
    utility = (
        "perplexity",
        "accuracy",
        "oov_rate",
        "perplexity_known",
        "accuracy_with_unknown",
        "perplexity_token",
        "unigram_perplexity",
        "bigram_perplexity",
        "constant_accuracy",
    )
    floors: ClassVar[Mapping[str, str]] = MappingProxyType({"unigrams": "unigram_perplexity"})
    counted = ("unigram_perplexity", "bigram_perplexity", "constant_accuracy")

    def __init__(self, params: NextWordParams | None = None, model: Any = None) -> None:
        super().__init__(params, model)
        self._last: tuple[tuple[Corpus, str], tuple[FloatArray, FloatArray, int]] | None = None

    def words(self, corpus: Corpus) -> Sequence[Sequence[str]]:
        """See `Task`."""
        return words_of(self._model(), corpus.texts, self.params.preprocessing)

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary:
        """See `Task`; "private" takes the training split, canaries and all.

        A pretrained model brings its own, whatever the parameter says.

        Raises:
            InputError: if vectors were published in place of text.
        """
        if corpus.vectors is not None:
            raise InputError(
                "next-word learns from text, and the mechanism publishes vectors: use it for "
                "text-classification"
            )
        return make_vocabulary(
            self._model(), self.params.vocabulary, corpus, self.params.preprocessing, words
        )

    def stages(
        self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run
    ) -> Sequence[LanguageModelLearner]:
        """See `Task`.

        Raises:
            InputError: if there is nothing to train on, public pre-training is asked for without
                public text, or the network sees the token that it is to predict.
        """
        if vocabulary is None:
            raise InputError("next-word needs a vocabulary")
        module = self._model().build(vocabulary, run.shared_seed("init"))
        self._check_causal(module, vocabulary)
        stages = []
        missing = "the corpus has no public text: give source.public files, or set it to 0"
        if (before := public_stage(self.params, corpus, missing)) is not None:
            stages.append(self._learner(module, vocabulary, before[0], run, before[1]))
        train = private_rows(corpus)
        stages.append(self._learner(module, vocabulary, train, run))
        return stages

    def roles(self) -> tuple[Role, ...]:
        """See `Task`."""
        return roles_of(self.params)

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
        how = self.params.preprocessing
        scores = release.token_logprobs(test.texts)
        rows = TextRows.build(encode_targets(test.texts, vocabulary, how), vocabulary)
        words = np.array([len(text.split()) + 1.0 for text in prepare(test.texts, how)])
        users = or_alone(test.users)
        nats = -np.concatenate([score.logp for score in scores])
        right = np.concatenate([score.correct for score in scores])
        known = _known(rows, vocabulary)

        def share(of: BoolArray, among: BoolArray) -> Estimate:
            return _ratio(rows.row_sums(of & among), rows.row_sums(among), users)

        every, in_rows = np.ones_like(known), rows.row_sums
        unigrams, bigrams, most = self._counted(corpus, vocabulary, rows)
        return {
            "perplexity": _perplexity(in_rows(nats), words, users),
            "accuracy": share(right, known),
            "oov_rate": share(~known, every),
            "perplexity_known": _perplexity(in_rows(nats * known), in_rows(known), users),
            "accuracy_with_unknown": share(right, every),
            "perplexity_token": _perplexity(in_rows(nats), rows.lengths, users),
            "unigram_perplexity": _perplexity(in_rows(unigrams), words, users),
            "bigram_perplexity": _perplexity(in_rows(bigrams), words, users),
            "constant_accuracy": share(rows.flat == most, known),
        }

    def _counted(
        self, corpus: Corpus, vocabulary: Vocabulary, rows: TextRows
    ) -> tuple[FloatArray, FloatArray, int]:
        """Nats of unigrams and bigrams, and the known target that is most frequent in training.

        A run asks twice where its model saw public text before, and counts once.
        """
        key = corpus, vocabulary.fingerprint
        if self._last is None or self._last[0][0] is not corpus or self._last[0][1] != key[1]:
            model = self.ngrams(2, corpus, vocabulary)
            outside = -1 if vocabulary.unknown is None else vocabulary.unknown
            most = model.most_frequent(outside)
            self._last = key, (model.nats(rows, 1), model.nats(rows), most)
        return self._last[1]

    def load(self, folder: Path) -> Release:
        """See `Task`."""
        from uedp_bench.tasks.language.release import LanguageModelRelease

        return LanguageModelRelease.load(folder)

    def ngrams(self, order: int, corpus: Corpus, vocabulary: Vocabulary) -> NGramModel:
        """The floor of an order, counted on the training rows without privacy.

        Without validation rows, every tenth training row chooses the weights instead.
        """
        train, valid = (corpus.only(split).texts for split in ("train", "valid"))
        if not len(valid) and len(train) > 1:
            tenth = np.arange(len(train)) % 10 == 0
            rows = corpus.only("train")
            train, valid = (rows.take(np.flatnonzero(which)).texts for which in (~tenth, tenth))
        how = self.params.preprocessing
        counted = rows_in_parts(train, vocabulary, how)
        chosen_on = TextRows.build(encode_targets(valid, vocabulary, how), vocabulary)
        return NGramModel(order, vocabulary.size, counted, chosen_on)

    def _model(self) -> LanguageModel[Any]:
        if not isinstance(self.model, LanguageModel):
            raise CapabilityError("next-word needs a language model (such as lstm-small)")
        return self.model

    def _check_causal(self, module: nn.Module, vocabulary: Vocabulary) -> None:
        """Refuses a network that sees the token that it is to predict.

        Raises:
            InputError: if a later token moves its predictions.
        """
        from uedp_bench.models.networks.probes import Probe, log_probabilities

        model = self._model()
        name, limit = f"the network of the model {model.name!r}", model.max_length()
        Probe(name, module, log_probabilities(module), vocabulary, limit).check_causal()

    def _learner(
        self,
        module: nn.Module,
        vocabulary: Vocabulary,
        corpus: Corpus,
        run: Run,
        schedule: Schedule | None = None,
    ) -> LanguageModelLearner:
        learner = LanguageModelLearner(
            self._model(),
            module,
            vocabulary,
            corpus,
            preprocessing=self.params.preprocessing,
            max_tokens=self.params.max_tokens,
            score_rows=run.speed.score_rows,
            schedule=schedule,
        )
        if not self._model().trained_elsewhere:  # whose rows are scored whole
            run.count({"rows_truncated": learner.truncated})
        return learner


def _known(rows: TextRows, vocabulary: Vocabulary) -> BoolArray:
    """(tokens,) True where a target is in the vocabulary; ends of rows are."""
    outside = -1 if vocabulary.unknown is None else vocabulary.unknown
    return np.asarray(rows.flat != outside)


def _ratio(top: ArrayLike, bottom: ArrayLike, users: IntArray) -> Estimate:
    """Every metric sees the same resamples of users."""
    from uedp_bench.statistics.intervals import ratio_estimate

    return ratio_estimate(top, bottom, np.random.default_rng(_BOOTSTRAP_SEED), users)


def _perplexity(nats: ArrayLike, divisor: ArrayLike, users: IntArray) -> Estimate:
    from uedp_bench.results import Estimate

    rate = _ratio(nats, divisor, users)
    with np.errstate(over="ignore"):  # a broken model may be infinitely surprised
        low, high = (None if x is None else float(np.exp(x)) for x in (rate.low, rate.high))
        return Estimate(value=float(np.exp(rate.value)), low=low, high=high)
