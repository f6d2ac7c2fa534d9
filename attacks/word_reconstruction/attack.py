"""Word reconstruction: which word was put in, given the word that came out?

Four adversaries who know the mechanism: two Bayesian ones with the word frequencies of the corpus
as prior, one who looks at neighbours of the published word, and a masked language model that looks
at the published words around it. One who knows nothing but the most frequent word is the floor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import (
    Attack,
    CapabilityError,
    Corpus,
    Estimate,
    Leakage,
    MayBePath,
    Metric,
    Params,
    Planted,
    Sample,
)
from uedp_bench.api.capabilities import (
    Channel,
    Published,
    WordChannel,
    published_of,
    word_channel_of,
)
from uedp_bench.api.statistics import mean_estimate, ratio_estimate
from uedp_bench.api.text import normal_surface, or_alone
from uedp_bench.attacks.word_reconstruction.posterior import (
    Case,
    Posterior,
    guess_errors,
    masked_guesses,
)
from uedp_bench.contracts.results import MOST_SAMPLES
from uedp_bench.text.word_occurrences import Occurrences, Prior, draw

if TYPE_CHECKING:
    from uedp_bench.api import FloatArray, IntArray, Release, Run


Split = Callable[[str], list[str]]


@dataclass(frozen=True)
class AlignedRow:
    """A row whose published words can be told to belong to its original ones.

    Attributes:
        row: row of the original corpus.
        original: words that may be guessed; those that the mechanism does not know are left out.
        at: place of each among the published words.
        published: all published words of the row.
    """

    row: int
    original: list[str]
    at: list[int]
    published: list[str]


def aligned_rows(
    corpus: Corpus, published: Corpus, channel: WordChannel | None
) -> Iterator[AlignedRow]:
    """Private rows with as many published words as original ones, or as the mechanism knows.

    Args:
        corpus: the original rows.
        published: published rows, with `origin`.
        channel: how words were replaced; None where it is not known, and then words are what
            stands between white space.
    """
    origins = zip(corpus.origin.tolist(), corpus.where("public").tolist(), strict=True)
    row_of = {at: row for row, (at, public) in enumerate(origins) if at >= 0 and not public}
    split: Split = str.split if channel is None else channel.split
    for text, origin in zip(published.texts, published.origin.tolist(), strict=True):
        row = row_of.get(origin)
        if row is None or not text:
            continue
        words, shown = split(corpus.texts[row]), text.split(" ")
        replaced = [i for i, word in enumerate(words) if channel is None or channel.find(word) >= 0]
        if channel is None and len(shown) != len(words):
            shown = text.split()  # lines, tabs and several spaces stay as they were
        if len(shown) == len(words):
            yield AlignedRow(row, [words[i] for i in replaced], replaced, shown)
        elif len(shown) == len(replaced):
            yield AlignedRow(row, [words[i] for i in replaced], list(range(len(replaced))), shown)


Guess = Callable[[str], str | None]
"""The word that an adversary takes a published word for; None where it has no guess."""


def itself(published: str) -> str:
    """The guess of one who knows no channel, in the form in which guesses are compared."""
    return normal_surface(published)


def most_likely(posterior: Posterior, channel: WordChannel) -> Guess:
    """The guess of one who knows the channel and how frequent words are."""
    words = posterior.prior.words

    def guess(published: str) -> str | None:
        place = channel.find(published)
        return None if place < 0 else channel.words[int(words[posterior.guess[place]])]

    return guess


def canonical(channel: WordChannel) -> Guess:
    """Map a word to the form in which the channel has it; None for unknown words."""

    def form(word: str) -> str | None:
        place = channel.find(word)
        return None if place < 0 else channel.words[place]

    return form


def rarest_read(
    corpus: Corpus, rows: Sequence[AlignedRow], guess: Guess, form: Guess
) -> tuple[Sample, ...]:
    """The rarest words that the adversary read right, each once, of a row each.

    Args:
        corpus: the private text.
        rows: with the published words.
        guess: guess of the adversary.
        form: how a private word is written where guesses are compared; None for an unknown one.
    """
    count = Counter(word for row in rows for word in row.original)
    right = [
        (count[word], word, row, row.published[at])
        for row in rows
        for word, at in zip(row.original, row.at, strict=True)
        if (read := guess(row.published[at])) is not None and read == form(word)
    ]
    right.sort(key=lambda one: one[:2])
    samples: dict[str, Sample] = {}
    shown: set[int] = set()
    for _, word, row, published in right:
        if word not in samples and row.row not in shown:
            shown.add(row.row)
            samples[word] = Sample(
                private=corpus.texts[row.row],
                seen=" ".join(row.published),
                read=word if word == published else f"{word} (where {published} stands)",
            )
        if len(samples) == MOST_SAMPLES:
            break
    return tuple(samples.values())


NO_CHANNEL = "words were not replaced one by one by a mechanism that can be sampled"
NO_MODEL = "masked_model names no model"
NO_WORDS = "no published text whose words can be told to belong to original ones"


class WordReconstructionParams(Params):
    """Samples from which the adversary learns the channel, and its language model."""

    samples: int = Field(
        default=100,
        ge=2,
        multiple_of=2,
        description="substitutes drawn for each word: one half estimates the channel, the other "
        "half is what the adversary is tested on",
    )
    masked_model: Annotated[str | None, MayBePath()] = Field(
        default=None,
        description="hub id or directory of a masked language model (transformers); none: that "
        "adversary is left out",
    )
    masked_words: int = Field(
        default=500, ge=1, description="words that it guesses, drawn at random, at most"
    )


class WordReconstruction(Attack[WordReconstructionParams]):
    """Expected inference error of adversaries who see the substitute of a word.

    The error of a guess is 1 unless it is the word itself; the expectation is over words as often
    as they occur. Equation (4) is of one who draws the guess from the posterior, which errs more
    than the most likely word, the guess of the optimal adversary of Shokri et al.: where nothing
    leaks, the latter errs as often as the most frequent word, and the former more often.
    Intervals are bootstrapped over words, and over users where published text is looked at.
    """

    name = "word-reconstruction"
    version = 3
    source = (
        "Xu et al. 2021 (PrivateNLP), equations (3) and (4); Shokri et al. 2012 (optimal "
        "adversary); Tong et al. 2023 (masked language model)"
    )
    Params = WordReconstructionParams
    metrics = (
        Metric.share("inference_error_prior", "inference error, prior", "of guessing the most "
                     "frequent word, without the release"),
        Metric.share("inference_error_map", "inference error", "of an attacker who knows the "
                     "mechanism and guesses the most likely word", "higher", main=True),
        Metric.share("inference_error", "inference error, drawn word", "of an attacker who knows "
                     "the mechanism and draws a word from the posterior, which errs more",
                     "higher"),
        Metric.share("inference_error_*", "inference error", "of the attacker named", "higher"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Channel, Published)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Nothing."""
        return corpus, Planted()

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """See the class; which adversary was left out, and why, is in the details."""
        if not isinstance(release, Channel | Published):
            raise CapabilityError(
                f"word-reconstruction needs a Channel or what was Published, not "
                f"{type(release).__name__}"
            )
        rng = run.shared("attack", self.name)
        channel, shown = word_channel_of(release), published_of(release)
        metrics: dict[str, Estimate] = {}
        details: dict[str, Any] = {}
        rows = corpus.only("train", "valid", "test")
        guess: Guess = itself
        form: Guess = itself
        if channel is not None:
            learnt = Learnt.from_samples(rows, channel, self.params.samples, rng)
            metrics, details = learnt.scores(channel, rng)
            guess, form = most_likely(learnt.posterior, channel), canonical(channel)
        else:
            details["bayesian"] = f"left out: {NO_CHANNEL}"
        aligned = [] if shown is None else list(aligned_rows(rows, shown, channel))
        if channel is None and aligned:
            metrics |= _by_position(rows, aligned, rng)
        details["aligned_rows"] = len(aligned)
        masked_metrics, why = self._masked(rows, aligned, run, rng)
        samples = rarest_read(rows, aligned, guess, form)
        return Leakage(metrics | masked_metrics, details | {"masked_lm": why}, samples=samples)

    def _masked(
        self, rows: Corpus, aligned: list[AlignedRow], run: Run, rng: np.random.Generator
    ) -> tuple[dict[str, Estimate], Any]:
        p = self.params
        if p.masked_model is None:
            return {}, f"left out: {NO_MODEL}"
        places = [(row, i) for row in aligned for i in range(len(row.original))]
        if not places:
            return {}, f"left out: {NO_WORDS}"
        chosen = [places[i] for i in rng.permutation(len(places))[: p.masked_words].tolist()]
        cases = [Case(row.published, row.at[i], row.original[i]) for row, i in chosen]
        guesses = masked_guesses(p.masked_model, cases, run.device, f"{self.name}.masked_model")
        together = or_alone(rows.users)[[row.row for row, _ in chosen]]
        error = mean_estimate(~guesses.right, rng, together)
        possible = float(guesses.possible.mean())
        return {"inference_error_masked_lm": error}, {"words": len(cases), "one_token": possible}


@dataclass(frozen=True, eq=False)
class Halves:
    """Substitutes of the words of a prior.

    Attributes:
        learnt: (support, draws) from which the adversary learns the channel.
        tested: (support, draws) on which it is tested.
    """

    learnt: IntArray
    tested: IntArray


@dataclass(frozen=True, eq=False)
class Learnt:
    """Prior and channel, as the adversaries learn them.

    What an adversary learnt from samples is right about those samples more often than about
    others, so it is tested on others: then the error is one that an adversary attains. On the
    samples that it learnt from, the error is too small; the truth of one who knows the channel
    exactly lies between (`plug_in` in the details).

    Attributes:
        every: the words of the rows.
        halves: substitutes that it learnt from, and those that it is tested on.
        posterior: posterior learnt from the first half.
    """

    every: Occurrences
    halves: Halves
    posterior: Posterior

    @staticmethod
    def from_samples(
        rows: Corpus, channel: WordChannel, samples: int, rng: np.random.Generator
    ) -> Learnt:
        """Learns the channel by sampling it.

        Args:
            rows: private rows; how often words occur in them is the prior.
            channel: replacement of words.
            samples: even number of substitutes of each word.
            rng: random generator for the substitutes.

        Raises:
            InputError: if no word of the rows is in the vocabulary.
        """
        every = Occurrences.from_corpus(rows, channel)
        prior = Prior.from_occurrences(every)
        drawn = draw(prior.words, samples, channel, rng)
        halves = Halves(drawn[:, : samples // 2], drawn[:, samples // 2 :])
        return Learnt(every, halves, Posterior.estimate(prior, halves.learnt, len(channel.words)))

    def scores(
        self, channel: WordChannel, rng: np.random.Generator
    ) -> tuple[dict[str, Estimate], dict[str, Any]]:
        """Errors of the adversaries, and details; `rng` draws the intervals."""
        posterior, halves = self.posterior, self.halves
        prior = posterior.prior
        error, error_map = posterior.errors(halves.tested)
        plug_in, plug_in_map = posterior.errors(halves.learnt)
        guess, chosen = _nearest_guess(prior, halves, channel)

        def mean(values: FloatArray) -> Estimate:
            return ratio_estimate(values * prior.weight, prior.weight, rng)

        metrics = {
            "inference_error": mean(error),
            "inference_error_map": mean(error_map),
            "inference_error_nearest": mean(guess_errors(prior, halves.tested, guess)),
            "inference_error_prior": Estimate(value=float(1.0 - prior.weight.max())),
        }
        details = {
            "words": len(prior.words),
            "occurrences": len(self.every.word),
            "unknown": int((self.every.word < 0).sum()),
            "substitutes_seen": float(posterior.seen[halves.tested].mean(axis=1) @ prior.weight),
            "plug_in": {
                "inference_error": float(plug_in @ prior.weight),
                "inference_error_map": float(plug_in_map @ prior.weight),
            },
            "nearest_guesses": chosen,
        }
        return metrics, details


def _nearest_guess(prior: Prior, halves: Halves, channel: WordChannel) -> tuple[IntArray, str]:
    """(vocabulary,) the published word or its nearest other one, whichever is right more often.

    The choice looks at the samples that the adversary knows, not at those that test it.
    """
    from uedp_bench.text.word_vectors import Nearest

    itself = np.arange(len(channel.words))
    if len(itself) < 2:
        return itself, "the published word"
    shown = np.unique(np.concatenate([halves.learnt, halves.tested], axis=None))
    other = itself.copy()
    vectors = channel.vectors.astype(np.float64)
    other[shown] = Nearest(vectors)(vectors[shown], excluded=shown)[0][:, 0]
    wrong = [guess_errors(prior, halves.learnt, guess) @ prior.weight for guess in (itself, other)]
    if wrong[0] <= wrong[1]:
        return itself, "the published word"
    return other, "its nearest neighbour"


def _by_position(
    rows: Corpus, aligned: list[AlignedRow], rng: np.random.Generator
) -> dict[str, Estimate]:
    """Without a channel: the guess is the published word in the same place."""
    wrong = [
        normal_surface(word) != normal_surface(row.published[at])
        for row in aligned
        for word, at in zip(row.original, row.at, strict=True)
    ]
    row_of = np.repeat([row.row for row in aligned], [len(row.original) for row in aligned])
    every = (normal_surface(word) for row in aligned for word in row.original)
    common = Counter(every).most_common(1)[0][1]
    return {
        "inference_error_nearest": mean_estimate(wrong, rng, or_alone(rows.users)[row_of]),
        "inference_error_prior": Estimate(value=1.0 - common / len(wrong)),
    }
