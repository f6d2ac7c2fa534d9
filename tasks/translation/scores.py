"""BLEU, chrF, lengths and recall of terms, with intervals over documents; and floors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import Estimate
from uedp_bench.api.statistics import ratio_estimate
from uedp_bench.components.component import SACREBLEU
from uedp_bench.corpus import Corpus, FloatArray, IntArray
from uedp_bench.statistics.intervals import RESAMPLES, blocks, percentiles, resample

if TYPE_CHECKING:
    from uedp_bench.text.word_alignment import Words

_BOOTSTRAP_SEED = 2018

_WORD = re.compile(r"\w+")


class Metrics(NamedTuple):
    """The metrics of sacrebleu, as `metrics` makes them."""

    bleu: Any
    chrf: Any

    def signatures(self) -> dict[str, str]:
        """Signatures of the scores, by sacrebleu; a score must have been computed before."""
        return {"bleu": str(self.bleu.get_signature()), "chrf": str(self.chrf.get_signature())}


def metrics() -> Metrics:
    """BLEU (13a, mixed case, exponential smoothing) and chrF2 of sacrebleu, at its defaults.

    Raises:
        MissingExtraError: if sacrebleu is not installed.
    """
    SACREBLEU.check()
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # Tokenised sources end in " .", of which sacrebleu warns unless it is told.
    return Metrics(BLEU(force=True), CHRF())


class Translations(NamedTuple):
    """Translations of test rows beside those that people wrote.

    Attributes:
        outputs: (rows,) translations by the release.
        references: (rows,) translations by people.
        clusters: (rows,) rows of equal numbers are resampled together.
    """

    outputs: Sequence[str]
    references: Sequence[str]
    clusters: IntArray

    def scores(self, metric: Metrics) -> dict[str, Estimate]:
        """`bleu`, `chrf` (0 to 100), `length_ratio` and `brevity_penalty`."""
        bleu = self._statistics(metric.bleu)
        # Counts of translated and reference tokens come first in the statistics of BLEU.
        rng = np.random.default_rng(_BOOTSTRAP_SEED)
        ratio = ratio_estimate(bleu[:, 0], bleu[:, 1], rng, self.clusters)
        return {
            "bleu": self._estimate(bleu, _score_of(metric.bleu)),
            "chrf": self._estimate(self._statistics(metric.chrf), _score_of(metric.chrf)),
            "length_ratio": ratio,
            "brevity_penalty": self._estimate(bleu, _brevity),
        }

    def bleu(self, metric: Metrics) -> Estimate:
        """BLEU alone."""
        return self._estimate(self._statistics(metric.bleu), _score_of(metric.bleu))

    def recall(self, terms: Collection[str]) -> Estimate | None:
        """Share of the occurrences of terms in references that are in translations; None for none.

        A translation that repeats a term gains nothing.
        """
        hits, wanted = np.zeros(len(self.outputs)), np.zeros(len(self.outputs))
        for row, (translation, reference) in enumerate(
            zip(self.outputs, self.references, strict=True)
        ):
            term_counts = Counter(word for word in words(reference) if word in terms)
            word_counts = Counter(words(translation))
            wanted[row] = term_counts.total()
            hits[row] = sum(min(count, word_counts[word]) for word, count in term_counts.items())
        if not wanted.any():
            return None
        return ratio_estimate(hits, wanted, np.random.default_rng(_BOOTSTRAP_SEED), self.clusters)

    def _statistics(self, metric: Any) -> FloatArray:
        """(rows, statistics) of each row: their sums over rows decide the score.

        sacrebleu's own bootstrap resamples rows; documents are resampled here.
        """
        statistics_of_rows = metric._extract_corpus_statistics(
            list(self.outputs), [list(self.references)]
        )
        return np.array(statistics_of_rows, dtype=np.float64)

    def _estimate(self, statistics: FloatArray, score: Callable[[FloatArray], float]) -> Estimate:
        """A score of summed statistics with its percentile interval over clusters."""
        numbers = np.unique(self.clusters, return_inverse=True)[1].reshape(-1)
        sums = np.zeros((int(numbers.max()) + 1, statistics.shape[1]))
        np.add.at(sums, numbers, statistics)
        value, units = score(sums.sum(axis=0)), len(sums)
        if units < 2:
            return Estimate(value=value)
        rng, drawn = np.random.default_rng(_BOOTSTRAP_SEED), np.empty(RESAMPLES)
        at = 0
        for size in blocks(units):
            totals = resample(units, size, rng) @ sums
            drawn[at : at + size] = [score(total) for total in totals]
            at += size
        return percentiles(value, drawn)


def _score_of(metric: Any) -> Callable[[FloatArray], float]:
    def score(statistics: FloatArray) -> float:
        return float(metric._compute_score_from_stats(statistics.tolist()).score)

    return score


def _brevity(statistics: FloatArray) -> float:
    """BLEU's brevity penalty, from the token counts of translations and of references."""
    length, wanted = statistics[:2]
    if length >= wanted:
        return 1.0
    return float(np.exp(1.0 - wanted / length)) if length else 0.0


def clusters_of(corpus: Corpus) -> IntArray:
    """(rows,) the user of each row; rows without one go together where their pairs are equal."""
    pairs = zip(corpus.texts, corpus.targets or corpus.texts, strict=True)
    numbers: dict[tuple[str, str], int] = {}
    of_pair = np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], dtype=np.int64)
    return np.where(corpus.users >= 0, corpus.users, corpus.users.max(initial=-1) + 1 + of_pair)


def words(text: str) -> list[str]:
    """Words of a text without signs, as they are written."""
    return _WORD.findall(text)


def unseen_terms(corpus: Corpus) -> frozenset[str]:
    """Words of the test targets that no public target has, without those that are mere numbers."""
    targets = corpus.targets or ()
    public = {
        word
        for row in np.flatnonzero(corpus.where("public")).tolist()
        for word in words(targets[row])
    }
    test = {w for row in np.flatnonzero(corpus.where("test")).tolist() for w in words(targets[row])}
    return frozenset(word for word in test - public if not word.isnumeric())


class Lexicon:
    """The most probable translation of each word, by alignment of public or training pairs.

    Args:
        pairs: texts and their translations.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        from uedp_bench.text.word_alignment import DirectedModel

        word_pairs: list[tuple[Words, Words]] = [
            (one.split(), other.split()) for one, other in pairs
        ]
        model = DirectedModel.train(word_pairs)
        sources, targets = list(model.sources), list(model.targets)
        source, target = np.divmod(model.keys, len(targets))
        # Ascending: what is written last is the most probable.
        order = np.argsort(model.probabilities, kind="stable")
        self._best = {
            sources[one]: targets[other]
            for one, other in zip(source[order].tolist(), target[order].tolist(), strict=True)
            if one > 0 and other > 0
        }

    def __len__(self) -> int:
        return len(self._best)

    def translate(self, text: str) -> str:
        """Word by word, in the order of the text; unknown words stay as they are."""
        return " ".join(self._best.get(word, word) for word in text.split())
