"""What assembled runs tell of the sentences that fragments were made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.attacks.fragment_reassembly.assembly import Words, words_of
from uedp_bench.attacks.fragment_reassembly.common_runs import CommonRuns
from uedp_bench.results import Estimate
from uedp_bench.statistics.intervals import mean_estimate
from uedp_bench.statistics.resampling import RESAMPLES, percentiles

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus, FloatArray, IntArray

LONG_RUN = 8
"""Words of a run whose precision is measured, at least."""


@dataclass(frozen=True)
class Sentences:
    """Different sentences of private rows, in the order of their first row.

    Attributes:
        words: of each.
        document: (sentences,) what is resampled together: the user of its first row.
        facts: for each, the (first, last) places of two entities that it mentions, apart by more
            words than a fragment has; both ends inclusive.
    """

    words: tuple[Words, ...]
    document: IntArray
    facts: tuple[tuple[tuple[int, int], ...], ...]

    @classmethod
    def of(cls, rows: Corpus, texts: Sequence[str], documents: IntArray, longest: int) -> Sentences:
        """The sentences of rows.

        Args:
            rows: private rows; their entities are facts, where `texts` are their texts.
            texts: of each row, or its translation.
            documents: (rows,) of each row.
            longest: words of a fragment, at most.
        """
        first: dict[Words, int] = {}
        for row, text in enumerate(texts):
            words = words_of(text)
            if len(words) > longest:
                first.setdefault(words, row)
        at = np.array(list(first.values()), dtype=np.int64)
        mentioned = _mentioned(rows) if texts is rows.texts else {}
        facts = (_apart(mentioned.get(row, []), longest) for row in at.tolist())
        return cls(tuple(first), documents[at], tuple(facts))


def measured(
    runs: Sequence[Words],
    sentences: Sentences,
    every: CommonRuns,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """How much of sentences assembled runs have, with intervals over documents.

    Args:
        runs: assembled.
        sentences: those that are looked for; each is longer than any fragment.
        every: all sentences, those of few words too: a run is right if it stands in one of them.
        rng: of the resampling.
    """
    found = CommonRuns(runs)
    ending = [found.ending(words) for words in sentences.words]
    longest = np.array([max(lengths) for lengths in ending], dtype=np.float64)
    whole = longest == [len(words) for words in sentences.words]
    document = sentences.document
    metrics = {
        "sentences_recovered": mean_estimate(whole, rng, document),
        "longest_run_median": _quantile(longest, 0.5, document, rng),
        "longest_run_90": _quantile(longest, 0.9, document, rng),
    }
    long = [run for run in runs if len(run) >= LONG_RUN]
    if long:
        right = [every.ending(run)[-1] == len(run) for run in long]
        metrics["run_precision"] = mean_estimate(right, rng)
    joined, owner = _joined(ending, sentences)
    if joined:
        metrics["facts_joined"] = mean_estimate(joined, rng, document[owner])
    return metrics


def _joined(ending: Sequence[list[int]], sentences: Sentences) -> tuple[list[bool], list[int]]:
    """True for each pair of facts that one run has, and the sentence of each."""
    joined, owner = [], []
    for at, pairs in enumerate(sentences.facts):
        for start, last in pairs:
            lengths = ending[at]
            ends = range(last, len(lengths))
            joined.append(any(end - lengths[end] + 1 <= start for end in ends))
            owner.append(at)
    return joined, owner


def _mentioned(rows: Corpus) -> dict[int, list[tuple[int, int]]]:
    """First and last word of every mention, by row; none where annotations were lost."""
    found: dict[int, list[tuple[int, int]]] = {}
    for row, start, end, _ in rows.entities.mentions():
        text = rows.texts[row]
        begun = start > 0 and not text[start - 1].isspace()  # within a word
        first = len(words_of(text[:start])) - begun
        last = len(words_of(text[:end])) - 1
        found.setdefault(row, []).append((first, last))
    return found


def _apart(mentions: Sequence[tuple[int, int]], longest: int) -> tuple[tuple[int, int], ...]:
    """(first, last) words of two mentions that no fragment holds both of."""
    spans = (
        (min(one[0], other[0]), max(one[1], other[1])) for one, other in combinations(mentions, 2)
    )
    return tuple((first, last) for first, last in spans if last - first + 1 > longest)


def _quantile(
    values: FloatArray, share: float, clusters: IntArray, rng: np.random.Generator
) -> Estimate:
    """A quantile with its percentile interval over clusters; one cluster has none."""
    value = float(np.quantile(values, share))
    members = [values[clusters == cluster] for cluster in np.unique(clusters)]
    if len(members) < 2:
        return Estimate(value=value)
    draws = [
        np.quantile(np.concatenate([members[at] for at in drawn]), share)
        for drawn in rng.integers(len(members), size=(RESAMPLES, len(members)))
    ]
    return percentiles(value, np.array(draws))
