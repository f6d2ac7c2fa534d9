"""Embedding inversion: which words of a text does its released representation give away?

The multi-label attack of Song and Raghunathan 2020 (section 3), judged against what the label of
a text says about its words, for the label is what the representation is there to tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import (
    Attack,
    BoolArray,
    CapabilityError,
    FloatArray,
    InputError,
    IntArray,
    Leakage,
    Metric,
    Planted,
    Sample,
)
from uedp_bench.api.capabilities import Encoder
from uedp_bench.api.statistics import mean_estimate, ratio_estimate
from uedp_bench.api.text import normal_surface, or_alone
from uedp_bench.attacks._true_classes import true_classes
from uedp_bench.attacks.representations.perceptron import (
    Examples,
    PerceptronParams,
    Seen,
    blocks,
    check_splits,
    fit,
    see,
)
from uedp_bench.contracts.results import MOST_SAMPLES

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Estimate, Release, Run

Predictor = Callable[[IntArray], FloatArray]

_BINS = 200
"""Thresholds on a probability that are compared: multiples of 1 / 200."""


@dataclass(frozen=True, eq=False)
class WordScores:
    """Scores of a predictor for each row.

    Attributes:
        bits: (rows,) code length of the row's set of words, a coin for each word.
        average_precision: (rows,) of the words ranked by probability; 0 for a row without words.
        hits: (rows,) its words among the `top` most likely ones.
        chosen, right: (rows,) words that are predicted at the threshold, and those that are there.
        words: (rows,) size of the set.
    """

    bits: FloatArray
    average_precision: FloatArray
    hits: IntArray
    chosen: IntArray
    right: IntArray
    words: IntArray


def score_words(predict: Predictor, targets: Any, top: int, threshold: float) -> WordScores:
    """Scores all rows.

    Args:
        predict: logits of rows.
        targets: sparse (rows, words) of zeros and ones; words in an order that breaks ties.
        top: words that are guessed for `hits`.
        threshold: a word at least as likely as this is predicted.
    """
    parts = []
    for block in blocks(targets.shape[0]):
        present = targets[block].toarray() > 0
        logits = predict(np.arange(targets.shape[0])[block])
        predicted = _probability(logits) >= threshold
        ranked = np.take_along_axis(present, np.argsort(-logits, axis=1, kind="stable"), axis=1)
        parts.append(
            (
                _bits(logits, present),
                _average_precision(ranked),
                ranked[:, :top].sum(axis=1),
                predicted.sum(axis=1),
                (predicted & present).sum(axis=1),
                present.sum(axis=1),
            )
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return WordScores(*columns)


def best_threshold(predict: Predictor, targets: Any) -> float:
    """The probability from which on words are predicted for the best pooled F1 of these rows."""
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    every, right = np.zeros(_BINS), np.zeros(_BINS)
    for block in blocks(targets.shape[0]):
        present = targets[block].toarray() > 0
        likely = _probability(predict(np.arange(targets.shape[0])[block]))
        every += np.histogram(likely, edges)[0]
        right += np.histogram(likely[present], edges)[0]
    # At threshold edges[k], what lies in bin k and above is predicted.
    chosen, hits = (np.cumsum(counts[::-1])[::-1] for counts in (every, right))
    f1 = 2.0 * hits / np.maximum(chosen + right.sum(), 1.0)
    return float(edges[int(np.argmax(f1))])


def _probability(logits: FloatArray) -> FloatArray:
    from scipy.special import expit

    return expit(logits)


def _bits(logits: FloatArray, present: BoolArray) -> FloatArray:
    nats = np.logaddexp(0.0, logits) - np.where(present, logits, 0.0)
    out: FloatArray = nats.sum(axis=1) / math.log(2.0)
    return out


def _average_precision(ranked: BoolArray) -> FloatArray:
    """Mean, over the words present, of the precision down to each; `ranked` by rank."""
    hits = np.cumsum(ranked, axis=1)
    precision = hits / np.arange(1, ranked.shape[1] + 1)
    out: FloatArray = (precision * ranked).sum(axis=1) / np.maximum(hits[:, -1], 1)
    return out


_WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
"""Rows that all training text counts for in each label's frequencies."""


class LabelledWords(NamedTuple):
    """Sets of words with labels.

    Attributes:
        targets: sparse (rows, words) of zeros and ones.
        labels: (rows,) from 0.
    """

    targets: Any
    labels: IntArray


class LabelPrior(NamedTuple):
    """Log-odds of words.

    Attributes:
        overall: (words,) whatever the label.
        by_label: (labels, words) given the label.
        weight: by how many rows of all text each label's frequencies are smoothed.
    """

    overall: FloatArray
    by_label: FloatArray
    weight: float


def fit_prior(train: LabelledWords, test: LabelledWords, labels: int) -> LabelPrior:
    """Frequencies of words in training rows of each label, drawn towards those of all rows.

    How far is chosen in favour of the prior, by the test rows themselves: then it is not beaten by
    an attacker who learned nothing, whatever labels say about words.
    """
    overall = (np.asarray(train.targets.sum(axis=0)).ravel() + 0.5) / (len(train.labels) + 1.0)
    seen, rows = _counts(train, labels)
    held, held_rows = _counts(test, labels)

    def smoothed(weight: float) -> FloatArray:
        return (seen + weight * overall) / (rows + weight)[:, None]

    def loss(weight: float) -> float:
        p = smoothed(weight)
        missing = held_rows[:, None] - held
        return float(-(held * np.log(p) + missing * np.log1p(-p)).sum())

    weight = min(_WEIGHTS, key=loss)
    return LabelPrior(_logits(overall), _logits(smoothed(weight)), weight)


def _counts(words: LabelledWords, labels: int) -> tuple[FloatArray, FloatArray]:
    """(labels, words) rows of a label that have a word, and (labels,) rows of it."""
    from scipy.sparse import csr_matrix

    rows = len(words.labels)
    of_label = csr_matrix((np.ones(rows), (words.labels, np.arange(rows))), shape=(labels, rows))
    counts = np.asarray((of_label @ words.targets).todense(), dtype=np.float64)
    return counts, np.bincount(words.labels, minlength=labels).astype(np.float64)


def _logits(p: FloatArray) -> FloatArray:
    return np.log(p) - np.log1p(-p)


_WORD = r"(?u)\b\w+\b"


class EmbeddingInversionParams(PerceptronParams):
    """Parameters of `embedding-inversion`."""

    words: int = Field(
        default=1000, ge=2, description="words that are predicted: the most frequent of train text"
    )
    top: int = Field(
        default=10, ge=1, description="words that are guessed for each text (precision, recall)"
    )


class EmbeddingInversion(Attack[EmbeddingInversionParams]):
    """Predicts the set of words of a text by a perceptron on its released representation.

    It is fitted on the released train split, whose text the attacker knows, chosen by the valid
    split and scored on the released test split, where the words are those of the original text.
    """

    name = "embedding-inversion"
    source = "Song and Raghunathan 2020, Information Leakage in Embedding Models, section 3"
    Params = EmbeddingInversionParams
    metrics = (
        Metric("gain_bits", "inversion gain", "bits a text that the representation tells beyond "
               "the label", "lower", "bits", no_leak=0.0, main=True),
        Metric("gain_average_precision", "inversion gain AP", "average precision beyond the "
               "label's", "lower", low=-1.0, high=1.0, no_leak=0.0, main=True),
        Metric.share("average_precision", "inversion AP", "average precision of the words that are "
                     "predicted", "lower", main=True),
        Metric.share("average_precision_prior", "prior's AP", "the same of the label alone"),
        Metric("bits", "inversion bits", "cross-entropy of a text's words given the "
               "representation", "higher", "bits", low=0.0),
        Metric("bits_prior", "prior's bits", "the same given the label alone", unit="bits",
               low=0.0),
        Metric.share("f1", "inversion F1", "of the words that are predicted", "lower"),
        Metric.share("f1_prior", "prior's F1", "the same of the label alone"),
        Metric.rate("precision_at_*_prior", "prior's precision at", "the same of the label alone"),
        Metric.rate("precision_at_*", "inversion precision at", "share of so many guessed words "
                    "that are right", "lower"),
        Metric.rate("recall_at_*_prior", "prior's recall at", "the same of the label alone"),
        Metric.rate("recall_at_*", "recall at", "as named", "lower"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Encoder,)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Plants nothing; refuses before training what could not be attacked after it.

        Raises:
            InputError: for a source without train, valid or test rows.
        """
        check_splits(corpus, self.name)
        return corpus, Planted()

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """Fits the attacker and the label prior, and sets their scores side by side.

        Raises:
            InputError: if there are no words to predict, or none in the test split.
        """
        if not isinstance(release, Encoder):
            raise CapabilityError(f"{self.name} needs an Encoder, not {type(release).__name__}")
        most = self.params.train_rows
        sample = None if most is None else (most, run.shared(self.name, "sample"))
        train = see(release, corpus, "train", self.name, sample)
        valid, test = (see(release, corpus, split, self.name) for split in ("valid", "test"))
        targets, words = self._words(corpus, (train, valid, test))
        labels, count = self._classes(release, corpus)
        sides = [
            LabelledWords(words, labels[seen.rows])
            for words, seen in zip(targets, (train, valid, test), strict=True)
        ]
        prior = fit_prior(sides[0], sides[2], count)
        run.progress(self.name, 0, 1)
        examples = (Examples(train.inputs, targets[0]), Examples(valid.inputs, targets[1]))
        model = fit(examples, prior.overall, self.params, run, self.name)

        def by_inputs(side: Seen) -> Predictor:
            return lambda rows: model.logits(side.inputs[rows])

        def by_label(side: LabelledWords) -> Predictor:
            return lambda rows: prior.by_label[side.labels[rows]]

        attacker, of_prior = (
            score_words(on_test, targets[2], self.params.top, best_threshold(on_valid, targets[1]))
            for on_valid, on_test in (
                (by_inputs(valid), by_inputs(test)),
                (by_label(sides[1]), by_label(sides[2])),
            )
        )
        users = or_alone(corpus.users[test.rows])
        details = {
            "words": targets[0].shape[1],
            "rows": {"train": len(train), "valid": len(valid), "test": len(test)},
            "rows_without_words": int((attacker.words == 0).sum()),
            "label_prior_weight": prior.weight,
            "epoch": model.epoch,
            "valid_loss": list(model.losses),
        }
        rng = run.shared(self.name, "bootstrap")
        metrics = _metrics((attacker, of_prior), self.params.top, users, rng)
        texts = [corpus.texts[row] for row in test.rows.tolist()]
        gained = attacker.hits - of_prior.hits
        samples = self._samples(gained, by_inputs(test), targets[2], words, texts)
        return Leakage(metrics, details, samples=samples)

    def _samples(
        self,
        gained: IntArray,
        guess: Predictor,
        targets: Any,
        words: Sequence[str],
        texts: Sequence[str],
    ) -> tuple[Sample, ...]:
        """The rows of which most was read beyond what the label says, with the words read right.

        Args:
            gained: (rows,) right guesses more than those of the label prior.
            guess: logits of rows.
            targets: sparse (rows, words), nonzero where a row has the word.
            words: words to predict.
            texts: texts of the rows.
        """
        rows = np.argsort(-gained, kind="stable")[:MOST_SAMPLES]
        rows = rows[gained[rows] > 0]
        if not len(rows):
            return ()
        top = np.argsort(-guess(rows), axis=1, kind="stable")[:, : self.params.top]
        has_word = targets[rows].toarray() > 0
        return tuple(
            Sample(
                private=texts[row],
                seen="the representation of the text",
                read=", ".join(words[at] for at in guessed if present[at]),
            )
            for row, guessed, present in zip(rows.tolist(), top.tolist(), has_word, strict=True)
        )

    def _classes(self, release: Release, corpus: Corpus) -> tuple[IntArray, int]:
        """Classes (rows,) that the representation is there to tell, and how many there are.

        Rows without one are a class of their own, the first.
        """
        if release.target == "label" and corpus.labels is None:
            return np.zeros(len(corpus), np.int64), 1
        classes = true_classes(release, corpus, self.name) + 1
        return classes, 1 + int(classes.max(initial=0))

    def _words(self, corpus: Corpus, sides: tuple[Seen, ...]) -> tuple[list[Any], list[str]]:
        """Sparse (rows, words) of each side, and the words.

        The most frequent word comes first, for that breaks ties.
        """
        from sklearn.feature_extraction.text import CountVectorizer

        texts = [[corpus.texts[row] for row in side.rows.tolist()] for side in sides]
        counter = CountVectorizer(
            binary=True,
            max_features=self.params.words,
            preprocessor=normal_surface,
            token_pattern=_WORD,
            dtype=np.float32,
        )
        try:
            first = counter.fit_transform(texts[0])
        except ValueError as error:
            raise InputError(
                f"{self.name}: the text of the train split has no words to predict"
            ) from error
        targets = [first, *(counter.transform(side) for side in texts[1:])]
        if not targets[2].nnz:
            raise InputError(
                f"{self.name}: no text of the test split has one of the {first.shape[1]} words "
                "that are predicted; raise words"
            )
        order = np.argsort(-np.asarray(first.sum(axis=0)).ravel(), kind="stable")
        return [side[:, order] for side in targets], counter.get_feature_names_out()[order].tolist()


def _metrics(
    scores: tuple[WordScores, WordScores], top: int, users: IntArray, rng: np.random.Generator
) -> dict[str, Estimate]:
    """Gains first; then the attacker's numbers and those of the label prior."""
    attacker, prior = scores
    some = attacker.words > 0
    gained = (attacker.average_precision - prior.average_precision)[some]
    metrics = {
        "gain_bits": mean_estimate(prior.bits - attacker.bits, rng, users),
        "gain_average_precision": mean_estimate(gained, rng, users[some]),
    }
    for score, end in ((attacker, ""), (prior, "_prior")):
        guesses, marked = np.full(len(users), float(top)), score.chosen + score.words
        ap = score.average_precision[some]
        metrics |= {
            f"bits{end}": mean_estimate(score.bits, rng, users),
            f"average_precision{end}": mean_estimate(ap, rng, users[some]),
            f"precision_at_{top}{end}": ratio_estimate(score.hits, guesses, rng, users),
            f"recall_at_{top}{end}": ratio_estimate(score.hits, score.words, rng, users),
            f"f1{end}": ratio_estimate(2 * score.right, marked, rng, users),
        }
    return metrics
