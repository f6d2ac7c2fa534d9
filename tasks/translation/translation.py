"""Translation: BLEU and chrF on whole sentences, whatever the mechanism published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import (
    CapabilityError,
    Corpus,
    Estimate,
    FloatArray,
    InputError,
    IntArray,
    Metric,
    Requirement,
    Utility,
)
from uedp_bench.api.capabilities import PairScorer, RowScorer, Tokenised, Translator
from uedp_bench.api.networks import (
    PairVocabulary,
    SupervisedParams,
    SupervisedTask,
    TranslationModel,
)
from uedp_bench.api.statistics import ratio_estimate
from uedp_bench.components.component import SACREBLEU
from uedp_bench.tasks.translation.translator import (
    Lexicon,
    PairReader,
    Translations,
    TranslatorRelease,
    clusters_of,
    metrics,
    translated_rows,
    unseen_terms,
)

if TYPE_CHECKING:
    from uedp_bench.api import Release
    from uedp_bench.api.networks import Vocabulary, WordCounts


_BOOTSTRAP_SEED = 2021


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """Nats a token of test targets, their ends included, with intervals over users.

    Attributes:
        vocabulary: vocabulary of tokens; losses of two vocabularies do not compare.
        most: tokens of a target past this many are left out, as the release leaves them out.
        test: rows with a text and a target.
    """

    vocabulary: PairVocabulary
    most: int
    test: Corpus

    def scores(self, release: PairScorer) -> dict[str, Estimate]:
        """`loss`, and `other_text_loss`: of each target given the text of another row.

        The second is left out of a single row. A translator that looks at its text has a lower
        `loss`; one that only learnt how targets are written has twice the same.
        """
        texts, targets = self.test.texts, self.test.targets or ()
        losses = {"loss": self._mean(release.pair_losses(texts, targets))}
        if len(texts) > 1:
            half = len(texts) // 2
            others = (*texts[half:], *texts[:half])
            losses["other_text_loss"] = self._mean(release.pair_losses(others, targets))
        return losses

    def unigram(self, targets: Sequence[str]) -> Estimate:
        """Loss of a model that knows the frequency of each token in some targets, and nothing else.

        Every entry of the vocabulary is counted once more than it occurs.
        """
        counts = np.ones(self.vocabulary.size)
        for ids in self._ids(targets):
            np.add.at(counts, ids, 1.0)
        nats = -np.log(counts / counts.sum())
        rows = self._ids(self.test.targets or ())
        return self._mean(np.array([nats[ids].sum() for ids in rows]))

    def _mean(self, nats: FloatArray) -> Estimate:
        """The mean a token of sums over the tokens of each row (rows,)."""
        sizes = [len(ids) for ids in self._ids(self.test.targets or ())]
        rng = np.random.default_rng(_BOOTSTRAP_SEED)
        return ratio_estimate(nats, np.array(sizes, dtype=float), rng, clusters_of(self.test))

    def _ids(self, targets: Sequence[str]) -> list[IntArray]:
        end = self.vocabulary.end
        rows = self.vocabulary.encode_targets(targets)
        return [np.array([*ids, end][: self.most], dtype=np.int64) for ids in rows]


_NO_LEXICON = "no public row has a translation: there is no public lexicon to compare with"

LOSSES = (
    Metric("loss", "loss", "nats a token of the test targets, given their texts", "lower", "nats",
           low=0.0),
    Metric("other_text_loss", "loss, other text", "the same, given the text of another test row",
           unit="nats", low=0.0),
    Metric("unigram_loss", "loss of unigrams", "of frequencies of tokens in public targets",
           unit="nats", low=0.0),
    Metric("train_unigram_loss", "loss of training unigrams", "of frequencies of tokens in the "
           "training targets, without privacy", unit="nats", low=0.0),
)  # fmt: skip
"""Metrics of releases that say how likely a translation is; older results have none."""


class TranslationParams(SupervisedParams):
    """Tokens of one vocabulary of both languages, and decoding of translations."""

    max_tokens: int = Field(
        default=128,
        ge=4,
        description="tokens of a text, or of a translation, past this many are left out; the "
        "number of such training rows is in the cost",
    )
    beams: int = Field(
        default=1,
        ge=1,
        le=100,
        description="hypotheses of beam search; 1 takes the most probable token at each step",
    )
    pretraining_learning_rate: float = Field(
        default=2e-3, gt=0, description="learning rate of Adam, on the public pairs"
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The library of the scores."""
        return (*super().requires(), SACREBLEU)


class Translation(SupervisedTask[TranslationParams]):
    """Learn to translate texts into the targets of a corpus.

    Scores are of the original test rows, whole sentences without tags, whatever was published:
    `bleu` and `chrf` by sacrebleu (0 to 100, signatures are in the details), `length_ratio` of all
    tokens, BLEU's `brevity_penalty`, and `term_recall`, the share of words that no public target
    has and that are translated. Intervals are over users (documents); rows without a user are
    resampled by distinct pair. Floors are the text as it is (`copy_bleu`) and its words by a
    lexicon of public pairs (`lexicon_bleu`). `train_lexicon_bleu` has the lexicon of the training
    pairs, counted without protection: what a dictionary of private words is worth.

    `loss` (nats a token of the test targets, given their texts) tells systems apart where BLEU is
    near 0. Beside it stand the loss given the text of another row, and those of frequencies of
    tokens in public and in training targets.
    """

    name = "translation"
    source = "Kim, Bisazza and Turkmen 2021, sections 3.2 and 4; Post 2018 (sacrebleu)"
    Params = TranslationParams
    reader_type = PairReader
    needs: ClassVar[tuple[type, ...]] = (Translator,)
    releases: ClassVar[tuple[type, ...]] = (Translator, PairScorer, RowScorer)
    models = TranslationModel
    default_model = "transformer-small"
    metrics = (
        Metric("bleu", "BLEU", "corpus BLEU of whole sentences, 0 to 100", "higher", low=0.0,
               high=100.0, main=True),
        Metric("chrf", "chrF", "n-grams of characters, 0 to 100", "higher", low=0.0, high=100.0,
               main=True),
        Metric("length_ratio", "length", "tokens of translations by those of references", low=0.0),
        Metric.share("brevity_penalty", "brevity penalty", "what BLEU takes off for short "
                     "translations"),
        Metric.rate("term_recall", "term recall", "of words that no public translation has",
                    "higher", main=True),
        Metric("copy_bleu", "BLEU of copies", "floor: the text itself", low=0.0, high=100.0),
        Metric("lexicon_bleu", "BLEU of a public lexicon", "floor: word by word", low=0.0,
               high=100.0),
        Metric("train_lexicon_bleu", "BLEU of a training lexicon", "word by word, without privacy",
               low=0.0, high=100.0, baseline="training lexicon"),
        *LOSSES,
    )  # fmt: skip
    optional = ("term_recall", "lexicon_bleu", *(one.name for one in LOSSES))
    floors: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"copy": "copy_bleu", "lexicon": "lexicon_bleu"}
    )
    counted = ("train_lexicon_bleu", "train_unigram_loss")
    scores_original = True

    def reads(self) -> frozenset[str]:
        """The translations of texts."""
        return frozenset({"targets"})

    def words(self, corpus: Corpus) -> Sequence[Sequence[str]]:
        """See `Task`: those of a text and of its translation."""
        both = (corpus.texts, corpus.targets or [""] * len(corpus))
        sides = (self.words_of(texts) for texts in both)
        return [[*text, *target] for text, target in zip(*sides, strict=True)]

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary | None:
        """See `Task`: of texts and targets, those of the public split by default.

        Raises:
            InputError: if the corpus has no translations.
        """
        if corpus.targets is None:
            raise InputError(
                "translation needs a corpus with targets: use a parallel source, such as "
                "parallel-text"
            )
        # Both languages, one text after the other.
        twice = corpus.take(np.repeat(np.arange(len(corpus)), 2))
        texts = [side for pair in zip(corpus.texts, corpus.targets, strict=True) for side in pair]
        both = replace(twice.with_texts(texts), targets=None)
        return super().vocabulary(both, words)

    def reader(self, corpus: Corpus, vocabulary: Vocabulary | None) -> PairReader:
        """See `SupervisedTask`."""
        model, most = self.text_model(), self.params.max_tokens
        limit = min(most, model.max_length() or most)
        return PairReader(model, vocabulary, max_tokens=limit, beams=self.params.beams)

    def training_rows(self, corpus: Corpus) -> Corpus:
        """See `SupervisedTask`.

        Raises:
            InputError: if no training row has a translation.
        """
        if not corpus.where("train").any():
            raise InputError(
                "translation: no row of the split 'train' has a text and a target; a mechanism "
                "that publishes phrases publishes none where none passes its threshold"
            )
        return super().training_rows(corpus)

    def public_rows(self, corpus: Corpus) -> Corpus:
        """See `SupervisedTask`: without what a translator does not read, such as entities.

        Publishers lose that of public rows too, and what is trained on them shall be found again.
        """
        rows = super().public_rows(corpus)
        users = {"user": rows.users}
        return Corpus(rows.texts, users, rows.split, origin=rows.origin, targets=rows.targets)

    def score(self, release: Release, corpus: Corpus) -> Utility:
        """See `Task`.

        Raises:
            InputError: if no test row has a text and a target.
        """
        # A saved release is scored without the folder that its model was read from.
        own = release.reader if isinstance(release, TranslatorRelease) else None
        if not isinstance(release, Translator):
            raise CapabilityError("translation scores releases that are Translators")
        test = corpus.only("test")
        test = test.take(np.flatnonzero(translated_rows(test)))
        if not len(test) or test.targets is None:
            raise InputError("translation: no row of the split 'test' has a text and a target")
        metric, outputs = metrics(), release.translate(test.texts)
        translations = Translations(outputs, test.targets, clusters_of(test))
        utility = translations.scores(metric)
        floors = self.once(corpus, "floors", lambda: _floors(corpus, test))
        terms = unseen_terms(corpus)
        if corpus.where("public").any() and (recall := translations.recall(terms)) is not None:
            utility["term_recall"] = recall
        if isinstance(release, PairScorer) and isinstance(release, Tokenised):
            read: PairVocabulary = release.vocabulary  # type: ignore[assignment]
            losses = TokenLosses(read, (own or self.reader(corpus, read)).max_tokens, test)
            loss_floors = self.once(corpus, read.fingerprint, lambda: _frequencies(corpus, losses))
            utility.update({**losses.scores(release), **loss_floors})
        details = {
            "signatures": metric.signatures(),
            "test_rows": len(test),
            "distinct_test_pairs": len({*zip(test.texts, test.targets, strict=True)}),
            "empty_translations": sum(not text for text in outputs),
            "unseen_terms": len(terms),
            **floors[1],
        }
        return Utility({**utility, **floors[0]}, details)


def _frequencies(corpus: Corpus, losses: TokenLosses) -> dict[str, Estimate]:
    """Floors of the loss, in tokens of one vocabulary."""
    floors = {}
    for name, split in (("unigram_loss", "public"), ("train_unigram_loss", "train")):
        rows = corpus.only(split)
        rows = rows.take(np.flatnonzero(translated_rows(rows)))
        if len(rows):
            floors[name] = losses.unigram(rows.targets or ())
    return floors


def _floors(corpus: Corpus, test: Corpus) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """BLEU of texts as they are, and word by word; and the sizes of the lexicons.

    A lexicon of a split without pairs is left out.
    """
    metric, references, clusters = metrics(), test.targets or (), clusters_of(test)

    def bleu(texts: Sequence[str]) -> Estimate:
        return Translations(texts, references, clusters).bleu(metric)

    floors, details = {"copy_bleu": bleu(test.texts)}, dict[str, Any]()
    for split, name in (("public", "lexicon"), ("train", "train_lexicon")):
        rows = corpus.only(split)
        rows = rows.take(np.flatnonzero(translated_rows(rows)))
        if not len(rows):
            if split == "public":
                details["notes"] = [_NO_LEXICON]
            continue
        lexicon = Lexicon([*zip(rows.texts, rows.targets or (), strict=True)])
        floors[f"{name}_bleu"] = bleu([lexicon.translate(text) for text in test.texts])
        details[f"{name}_words"] = len(lexicon)
    return floors, details
