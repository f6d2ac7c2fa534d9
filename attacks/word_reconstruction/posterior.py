"""Inference of a Bayesian adversary about a word from its substitute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.text.word_occurrences import Prior


class WordErrors(NamedTuple):
    """Inference errors by word: how often the adversary is wrong where the word was put in.

    Attributes:
        posterior: (support,) of one that draws its guess from the posterior (equation 4).
        best: (support,) of one that guesses the most likely word.
    """

    posterior: FloatArray
    best: FloatArray


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior g of equation (3), with the channel f estimated by sampling it.

    g(w | v) = pi(w) f(v | w) / sum of pi(u) f(v | u) over all words u; the numerator that is
    printed has v and w in each other's place. The adversary knows nothing of a
    substitute that no sample had: the posterior is the prior.

    Attributes:
        prior: pi.
        key: (pairs,) substitute * support + place of the word in the support, rising.
        probability: (pairs,) g.
        seen: (vocabulary,) True where a sample had the substitute.
        guess: (vocabulary,) place of the most likely word.
    """

    prior: Prior
    key: IntArray
    probability: FloatArray
    seen: np.ndarray[tuple[int], np.dtype[np.bool_]]
    guess: IntArray

    @staticmethod
    def estimate(prior: Prior, drawn: IntArray, vocabulary: int) -> Posterior:
        """From substitutes (support, draws) of the words of the prior, equally many of each."""
        support, draws = drawn.shape
        key, count = np.unique(drawn * support + np.arange(support)[:, None], return_counts=True)
        substitute, place = np.divmod(key, support)
        joint = prior.weight[place] * count / draws
        total = np.bincount(substitute, weights=joint, minlength=vocabulary)
        probability = joint / total[substitute]
        # The best word of each substitute comes last among its pairs; the first wins a tie.
        order = np.lexsort((-place, probability, substitute))
        last = np.flatnonzero(np.diff(substitute[order], append=-1))
        guess = np.full(vocabulary, int(prior.weight.argmax()), dtype=np.int64)
        guess[substitute[order][last]] = place[order][last]
        return Posterior(prior, key, probability, total > 0, guess)

    def errors(self, drawn: IntArray) -> WordErrors:
        """Errors on substitutes (support, draws) of the words of the prior."""
        support = len(self.prior.words)
        place = np.arange(support)[:, None]
        wanted = drawn * support + place
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        probability_of_truth = np.where(self.key[at] == wanted, self.probability[at], 0.0)
        right = np.where(self.seen[drawn], probability_of_truth, self.prior.weight[:, None])
        return WordErrors(
            posterior=(1.0 - right).mean(axis=1), best=(self.guess[drawn] != place).mean(axis=1)
        )


def guess_errors(prior: Prior, drawn: IntArray, guess: IntArray) -> FloatArray:
    """(support,) errors of one who guesses the word `guess[v]` for the substitute v."""
    wrong: FloatArray = (guess[drawn] != prior.words[:, None]).mean(axis=1)
    return wrong
