"""Word substitution: which words still carry their label once a mechanism has replaced them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.api import CapabilityError, InputError, Metric, Params
from uedp_bench.api.capabilities import Channel
from uedp_bench.api.statistics import fraction_estimate, mean_estimate, ratio_estimate
from uedp_bench.api.text import or_alone
from uedp_bench.tasks.untrained import UntrainedTask
from uedp_bench.text.word_occurrences import (
    Occurrences,
    Substitution,
    Unlabelled,
    draw,
    word_labels,
)

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Estimate, Release
    from uedp_bench.api.capabilities import WordChannel


class WordSubstitutionParams(Params):
    """Words to replace, number of substitutes, and outcome of lost labels."""

    rows: Literal["test", "all"] = Field(
        default="test",
        description="words of the split test, or of all rows that are not public: nothing is "
        "trained here, so that no row was seen before",
    )
    samples: int = Field(default=100, ge=1, description="substitutes drawn for each word")
    unlabelled: Unlabelled = Field(
        default="wrong",
        description="a substitute that carries no label counts as misclassified (wrong), or not "
        "at all (skip)",
    )


class WordSubstitution(UntrainedTask[WordSubstitutionParams]):
    """Replace words and count those that then carry another label; nothing is trained.

    `misclassified` is the expected utility loss of the paper's equation (2), where the loss of a
    pair of words is 1 if their labels differ and the prior is the empirical distribution of the
    words. A word's label is that of most of its occurrences in the corpus; where rows are single
    words, as in a lexicon, it is the row's label. `unchanged` is the share of words replaced by
    themselves, `distance` the mean Euclidean distance between a word's vector and its
    substitute's. Words outside the mechanism's vocabulary have no substitute and are counted by
    `unknown` alone.
    """

    name = "word-substitution"
    source = "Xu et al. 2021 (PrivateNLP), equation (2) and section 4, Product Reviews"
    Params = WordSubstitutionParams
    needs: ClassVar[tuple[type, ...]] = (Channel,)
    metrics = (
        Metric.rate("misclassified", "misclassified", "share of substituted words that a "
                    "classifier of words takes for another class", "lower", main=True),
        Metric.rate("unchanged", "unchanged", "share of words that stayed as they were",
                    main=True),
        Metric("distance", "distance", "mean Euclidean distance of substitutes from their words",
               "lower", low=0.0),
        Metric.rate("unknown", "unknown", "share of words that have no vector"),
    )  # fmt: skip
    scores_original = True

    def score(self, release: Release, corpus: Corpus) -> dict[str, Estimate]:
        """See `Task`; substitutes are fresh draws of the mechanism.

        Raises:
            InputError: if the corpus has no labels, no rows of the split, or no word with a label
                that the mechanism can replace.
        """
        if not isinstance(release, Channel):
            raise CapabilityError("word-substitution scores releases that are Channels")
        p = self.params
        wanted = corpus.where("train", "valid", "test") if p.rows == "all" else corpus.where("test")
        if not wanted.any():
            raise InputError(f"word-substitution: the corpus has no row (task.rows={p.rows})")
        # The published text is a function of the run's seed, which tasks do not know.
        rng = np.random.default_rng(int(release.published.fingerprint, 16))
        rows = corpus.take(np.flatnonzero(wanted))
        return substitute(rows, release.word_channel, p.samples, p.unlabelled, rng, labelled=corpus)


def substitute(
    rows: Corpus,
    channel: WordChannel,
    samples: int,
    unlabelled: Unlabelled,
    rng: np.random.Generator,
    *,
    labelled: Corpus | None = None,
) -> dict[str, Estimate]:
    """The metrics of the task for the words of some rows.

    Args:
        rows: rows whose words are replaced.
        channel: how.
        samples: substitutes drawn for each word.
        unlabelled: see the parameters.
        rng: random generator for substitutes and intervals.
        labelled: rows that say which label a word has; `rows` by default.

    Raises:
        InputError: if there are no labels, or no word with one that the mechanism can replace.
    """
    label = word_labels(rows if labelled is None else labelled, channel)
    every = Occurrences.from_corpus(rows, channel)
    seen = every.in_vocabulary
    if not len(seen.word):
        raise InputError(f"no word of {len(rows)} rows is in the vocabulary of the mechanism")
    words, place = np.unique(seen.word, return_inverse=True)
    drawn = draw(words, samples, channel, rng)
    substitution = Substitution.from_draws(words, drawn, channel, label, unlabelled)
    if not substitution.labelled.any():
        raise InputError("no word of the vocabulary and its substitute carry labels")
    together = or_alone(rows.users)[seen.row]
    return {
        "misclassified": ratio_estimate(
            substitution.wrong[place], substitution.labelled[place], rng, together
        ),
        "unchanged": mean_estimate(substitution.unchanged[place], rng, together),
        "distance": mean_estimate(substitution.distance[place], rng, together),
        "unknown": fraction_estimate(len(every.word) - len(seen.word), len(every.word)),
    }
