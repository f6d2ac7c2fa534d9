"""Questions about rows, for a release and its shadow models, and scores of their tokens.

Scores of a text from the likelihoods of its tokens are low for members: loss (Yeom et al. 2018),
zlib and ratio (Carlini et al. 2021, "Extracting Training Data from Large Language Models",
section 5.2), Min-K% (Shi et al. 2024), Min-K%++ (Zhang et al. 2025, equation 3).
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.api import CapabilityError, InputError
from uedp_bench.api.capabilities import Classifier, RowScorer, Scorer, ServedRelease, class_labels
from uedp_bench.attacks._true_classes import true_classes
from uedp_bench.attacks.membership.shadow_scores import LEAST_LOGP, logit_confidence, true_logprobs

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Release
    from uedp_bench.api.capabilities import TokenScores

SMALLEST_STD = 1e-6
"""Standard deviations below this (a model certain of one token) count as this, not as zero."""


def check_tokens(scores: Sequence[TokenScores], texts: int) -> None:
    """Refuses scores that are not those of so many texts.

    Raises:
        InputError: if there are more or fewer, or one has no token.
    """
    empty = sum(not len(score.logp) for score in scores)
    if empty or len(scores) != texts:
        raise InputError(
            f"membership: {len(scores)} scores for {texts} texts, {empty} without tokens"
        )


def loss(score: TokenScores) -> float:
    """Mean negative log-likelihood of the tokens, in nats."""
    return float(-np.mean(score.logp))


def zlib_bytes(text: str) -> int:
    """Bytes of the text after zlib: a measure of its complexity that needs no model."""
    return len(zlib.compress(text.encode("utf-8", "surrogatepass")))


def lowest_mean(values: FloatArray, fraction: float) -> float:
    """Mean of the lowest `fraction` of the values, at least one of them."""
    count = max(1, int(np.floor(fraction * len(values) + 1e-9)))
    return float(np.mean(np.partition(values, count - 1)[:count]))


def min_k(score: TokenScores, fraction: float) -> float:
    """Min-K%: minus the mean of the lowest token log-probabilities."""
    return -lowest_mean(score.logp, fraction)


def min_k_plus_plus(score: TokenScores, fraction: float) -> float:
    """Min-K%++: the same of log-probabilities standardised by the model's own next-token law."""
    return -lowest_mean(standardised(score), fraction)


def standardised(score: TokenScores) -> FloatArray:
    """(tokens,) (log p - mean) / standard deviation."""
    return np.asarray((score.logp - score.mean) / np.maximum(score.std, SMALLEST_STD))


def score_texts(
    texts: Sequence[str],
    scores: Sequence[TokenScores],
    reference: Sequence[TokenScores] | None,
    fraction: float,
) -> dict[str, FloatArray]:
    """All membership scores, each (texts,): low means member.

    Args:
        texts: scored texts.
        scores: under the release that is attacked.
        reference: under a model that saw neither members nor non-members; without it there is
            no `ratio`.
        fraction: fraction of the tokens, for Min-K% and Min-K%++.

    Raises:
        InputError: if a score is NaN or a text has no token.
    """
    check_tokens(scores, len(texts))

    def each(measure: Callable[[TokenScores], float], of: Sequence[TokenScores]) -> FloatArray:
        return np.array([measure(score) for score in of], dtype=np.float64)

    losses = each(loss, scores)
    out = {
        "loss": losses,
        "zlib": losses / np.array([zlib_bytes(text) for text in texts]),
        "min_k": each(lambda score: min_k(score, fraction), scores),
        "min_k_plus_plus": each(lambda score: min_k_plus_plus(score, fraction), scores),
    }
    if reference is not None:
        out["ratio"] = losses - each(loss, reference)
    for name, values in out.items():
        bad = np.flatnonzero(np.isnan(values))
        if len(bad):
            raise InputError(f"membership: the score {name!r} of text {bad[0]} is NaN")
    return out


SURE = 0.99
"""Probability of the truth that a right label stands for."""


class Confidences(NamedTuple):
    """Confidence of a release in the truth about rows.

    Attributes:
        logp: (rows,) log-probability (nats) of the truth.
        odds: (rows,) its log odds, log(p / (1 - p)); of text the log-probability.
        tokens: scores of each row's tokens, for text.
    """

    logp: FloatArray
    odds: FloatArray
    tokens: Sequence[TokenScores] = ()

    @property
    def sizes(self) -> FloatArray:
        """(rows,) what the confidence in a row is the mean of: its tokens, or 1."""
        counts = [len(score.logp) for score in self.tokens] or [1] * len(self.logp)
        return np.array(counts, dtype=np.float64)


class Question(ABC):
    """A question that all releases of one kind answer about rows of a corpus.

    Attributes:
        corpus: the planted corpus.
        has_truth: (rows,) rows with a truth to ask about.
        truth: name of the truth that other rows lack.
        own: name of the score that needs no other model.
    """

    truth: str
    own: str = "loss"

    def __init__(self, corpus: Corpus, has_truth: BoolArray) -> None:
        self.corpus, self.has_truth = corpus, has_truth

    @abstractmethod
    def confidences(self, release: object, rows: IntArray) -> Confidences:
        """Confidence of a release in the truth about these rows, all of which have a truth.

        Raises:
            CapabilityError: if the release is of another kind.
        """


class TokensQuestion(Question):
    """Likelihood of each text: the mean log-probability of its tokens, and its exponential."""

    truth = "text"

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus, np.ones(len(corpus), dtype=bool))

    def confidences(self, release: object, rows: IntArray) -> Confidences:
        """See `Question`; the log odds of a token's probability would only stretch its scale.

        Raises:
            InputError: if a text has no token.
        """
        if not isinstance(release, Scorer):
            raise _other_kind(release, Scorer)
        scores = release.token_logprobs([self.corpus.texts[row] for row in rows.tolist()])
        check_tokens(scores, len(rows))
        logp = np.maximum([-loss(score) for score in scores], LEAST_LOGP)
        return Confidences(logp, logp, scores)


class ClassesQuestion(Question):
    """The true class of each row, of what a classifier was trained to tell apart."""

    truth = "class"

    def __init__(self, release: Release, corpus: Corpus) -> None:
        self._labels = true_classes(release, corpus, "membership")
        super().__init__(corpus, self._labels >= 0)

    def confidences(self, release: object, rows: IntArray) -> Confidences:
        """See `Question`; odds are against all other classes."""
        if not isinstance(release, Classifier):
            raise _other_kind(release, Classifier)
        logprobs, labels = release.class_logprobs(self.corpus.take(rows)), self._labels[rows]
        return Confidences(true_logprobs(logprobs, labels), logit_confidence(logprobs, labels))


class LabelsQuestion(Question):
    """A release that gives labels alone tells only if the label is the true class.

    A right label stands for the probability `SURE` of the truth, and a wrong one for the rest. The
    loss is then the gap attack (Yeom et al. 2018), and scores beside shadow models ask whether the
    record is right more often than under models that never saw it.
    """

    truth = "class"
    own = "gap"

    def __init__(self, release: Release, corpus: Corpus) -> None:
        self._release, self._labels = release, true_classes(release, corpus, "membership")
        super().__init__(corpus, self._labels >= 0)

    def confidences(self, release: object, rows: IntArray) -> Confidences:
        """See `Question`."""
        if isinstance(release, ServedRelease) and release is not self._release:
            release = release.behind  # the attacker trained it, and needs no protocol to ask it
        right = class_labels(release, self.corpus.take(rows)) == self._labels[rows]
        logp = np.log(np.where(right, SURE, 1.0 - SURE))
        return Confidences(logp, logp - np.log(np.where(right, 1.0 - SURE, SURE)))


class LossesQuestion(Question):
    """The loss of each row as in training, taken for the log-probability of the row: exp(-loss)."""

    truth = "target"

    def __init__(self, release: RowScorer, corpus: Corpus) -> None:
        super().__init__(corpus, release.scorable(corpus))

    def confidences(self, release: object, rows: IntArray) -> Confidences:
        """See `Question`.

        Raises:
            InputError: if a loss is NaN or below 0.
        """
        if not isinstance(release, RowScorer):
            raise _other_kind(release, RowScorer)
        losses = np.asarray(release.row_losses(self.corpus.take(rows)), dtype=np.float64)
        bad = np.flatnonzero(~(losses >= 0.0))
        if len(bad):
            raise InputError(
                f"membership: the loss of record {bad[0]} is {losses[bad[0]]}; losses are at least "
                "0, and 0 for a perfect prediction"
            )
        logp = np.maximum(-losses, LEAST_LOGP)
        with np.errstate(divide="ignore"):  # a loss of 0 leaves nothing for other outcomes
            rest = np.maximum(np.log(-np.expm1(logp)), LEAST_LOGP)
        return Confidences(logp, logp - rest)


def _other_kind(release: object, kind: type) -> CapabilityError:
    return CapabilityError(
        f"membership: the shadow model is a {type(release).__name__}, not a {kind.__name__}"
    )
