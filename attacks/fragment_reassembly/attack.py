"""Fragment reassembly: how much of the sentences can be put together from published phrases?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import Attack, CapabilityError, Estimate, Leakage, Metric, Params, Planted
from uedp_bench.api.capabilities import Published, published_of, seen_of
from uedp_bench.api.networks import TranslationModel
from uedp_bench.api.statistics import mean_estimate
from uedp_bench.api.text import or_alone
from uedp_bench.attacks.fragment_reassembly.assembly import (
    Fragment,
    Rules,
    Words,
    assemble,
    words_of,
)
from uedp_bench.statistics.intervals import RESAMPLES, percentiles

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Release, Run


class CommonRuns:
    """A suffix automaton of sequences of words (Blumer et al. 1985), one after the other.

    States are classes of substrings; memory and time to build it grow with the number of words.

    Args:
        sequences: sequences to search.
    """

    def __init__(self, sequences: Iterable[Sequence[str]]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        for words in sequences:
            state = 0
            for word in words:
                state = self._extended(state, word)

    def ending(self, words: Sequence[str]) -> list[int]:
        """For each place, how many words up to it, it included, stand in a row in a sequence."""
        state, length, out = 0, 0, []
        for word in words:
            while state and word not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            if word in self._next[state]:
                state = self._next[state][word]
                length += 1
            else:
                length = 0
            out.append(length)
        return out

    def _extended(self, last: int, word: str) -> int:
        """The state after one more word; several sequences share states."""
        if (follower := self._next[last].get(word)) is not None:
            if self._length[follower] == self._length[last] + 1:
                return follower
            return self._split(last, word, follower)
        state = self._new({}, 0, self._length[last] + 1)
        before = last
        while before >= 0 and word not in self._next[before]:
            self._next[before][word] = state
            before = self._link[before]
        if before >= 0:
            follower = self._next[before][word]
            whole = self._length[follower] == self._length[before] + 1
            self._link[state] = follower if whole else self._split(before, word, follower)
        return state

    def _split(self, before: int, word: str, state: int) -> int:
        """A state of the shorter substrings of `there`, those that follow `before`."""
        twin = self._new(dict(self._next[state]), self._link[state], self._length[before] + 1)
        self._link[state] = twin
        while before >= 0 and self._next[before].get(word) == state:
            self._next[before][word] = twin
            before = self._link[before]
        return twin

    def _new(self, following: dict[str, int], link: int, length: int) -> int:
        self._next.append(following)
        self._link.append(link)
        self._length.append(length)
        return len(self._next) - 1


LONG_RUN = 8
"""Words of a run whose precision is measured, at least."""


@dataclass(frozen=True)
class Sentences:
    """Different sentences of private rows, in the order of their first row.

    Attributes:
        words: words of each sentence.
        document: (sentences,) what is resampled together: the user of its first row.
        facts: for each, the (first, last) places of two entities that it mentions, apart by more
            words than a fragment has; both ends inclusive.
    """

    words: tuple[Words, ...]
    document: IntArray
    facts: tuple[tuple[tuple[int, int], ...], ...]

    @classmethod
    def from_rows(
        cls, rows: Corpus, texts: Sequence[str], documents: IntArray, longest: int
    ) -> Sentences:
        """The sentences of rows.

        Args:
            rows: private rows; their entities are facts, where `texts` are their texts.
            texts: text of each row, or its translation.
            documents: (rows,) document of each row.
            longest: largest number of words in a fragment.
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
    runs: Sequence[Words], sentences: Sentences, every: CommonRuns, rng: np.random.Generator
) -> dict[str, Estimate]:
    """Score assembled runs against sentences, with intervals over documents.

    Args:
        runs: assembled.
        sentences: those that are looked for; each is longer than any fragment.
        every: all sentences, those of few words too: a run is right if it stands in one of them.
        rng: random generator for the resampling.
    """
    assembled = CommonRuns(runs)
    ending = [assembled.ending(words) for words in sentences.words]
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
            joined.append(any(end - lengths[end] + 1 <= start for end in range(last, len(lengths))))
            owner.append(at)
    return joined, owner


def _mentioned(rows: Corpus) -> dict[int, list[tuple[int, int]]]:
    """First and last word of every mention, by row; none where annotations were lost."""
    word_spans: dict[int, list[tuple[int, int]]] = {}
    for row, start, end, _ in rows.entities.mentions():
        text = rows.texts[row]
        begun = start > 0 and not text[start - 1].isspace()  # within a word
        first = len(words_of(text[:start])) - begun
        word_spans.setdefault(row, []).append((first, len(words_of(text[:end])) - 1))
    return word_spans


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


NO_ORIGIN = "left out: no published row says which row it was made from"
ONE_DOCUMENT = "left out: there is one document"
WITH_A_FLOOR = ("sentences_recovered", "longest_run_median", "facts_joined")


class FragmentReassemblyParams(Params):
    """Conditions for joining fragments."""

    overlap: int = Field(
        default=2,
        ge=1,
        description="words that two fragments share where they are joined, at least",
    )
    bilingual: bool = Field(
        default=True, description="translations of fragments that are joined must overlap, too"
    )


class FragmentReassembly(Attack[FragmentReassemblyParams]):
    """Puts sentences together from published phrases by overlap.

    The attacker sees the published rows without the rows that they were made from. Sentences that
    it looks for have more words than any published phrase: shorter ones may be published as they
    are. A half of the documents, drawn at random, is looked for; the floor is the same attack
    on the fragments of the other half alone.
    """

    name = "fragment-reassembly"
    version = 2
    source = "Galle and Tealdi 2015 (KDD), with translations that must agree"
    Params = FragmentReassemblyParams
    metrics = (
        Metric.rate("sentences_recovered", "sentences reassembled", "share of sentences that "
                    "published phrases give back whole", "lower", main=True),
        Metric.rate("sentences_recovered_floor", "of other documents", "the same of phrases of "
                    "other documents alone"),
        Metric("longest_run_median", "words in a row, median", "of a sentence, put together from "
               "published phrases", "lower", low=0.0),
        Metric("longest_run_90", "words in a row, 90th percentile", "the same of the tenth of "
               "sentences that are put together best", "lower", low=0.0),
        Metric("longest_run_median_floor", "words in a row of other documents", "the median, of "
               "phrases of other documents alone", low=0.0),
        Metric.rate("run_precision", "right runs", "share of runs of eight words or more that "
                    "stand in a sentence", "lower"),
        Metric.rate("facts_joined", "facts joined", "share of pairs of entities of a sentence that "
                    "one run has both of", "lower"),
        Metric.rate("facts_joined_floor", "facts joined of other documents", "the same of phrases "
                    "of other documents alone"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Published,)

    def reads(self) -> frozenset[str]:
        """Translations."""
        return frozenset({"targets"})

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """Says so where nothing was published that is shorter than what it was made from."""
        shown = published_of(release)
        if shown is None or shown.targets is None:
            return "fragment-reassembly reads published translations, and there are none"
        if not len(_private(shown)):
            return "fragment-reassembly joins published phrases, and none was published"
        return None

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Nothing."""
        return corpus, Planted()

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """See the class; metrics of the translations are in the details.

        Metrics are left out where no sentence has more words than the longest published phrase.
        """
        seen, shown = seen_of(release), published_of(release)
        if seen is None or shown is None or corpus.targets is None:
            raise CapabilityError(f"{self.name} needs what was published, with translations")
        fragments = _fragments(_private(seen))
        origin = _private(shown).origin
        rows = corpus.only("train", "valid")
        documents = or_alone(rows.users)
        every = np.unique(documents)
        drawn = run.shared(self.name, "half").permutation(every)[: max(1, len(every) // 2)]
        sought = np.isin(documents, drawn)
        # Fragments of no row that is looked for, where fragments have origins.
        others = None if (origin < 0).all() else ~np.isin(origin, rows.origin[sought])
        metrics_by_side: dict[str, dict[str, Estimate]] = {}
        search_details: dict[str, Any] = {"floor": ONE_DOCUMENT if sought.all() else NO_ORIGIN}
        for number, side in enumerate(("text", "target")):
            run.progress(f"reassemble: {side}", number, 2)
            turned = fragments if side == "text" else [(b, a) for a, b in fragments]
            longest = max(len(words) for words, _ in turned)
            looked = _sentences(rows, sought, side, longest)
            if not looked[0].words:
                search_details[f"{side}s_looked_for"] = (
                    f"left out: none has more words than {longest}"
                )
                metrics_by_side[side] = {}
                continue
            search_details[f"{side}s_looked_for"] = len(looked[0].words)
            search_details[f"longest_fragment_of_{side}"] = longest
            if side == "text":
                search_details["facts_looked_for"] = sum(map(len, looked[0].facts))
            metrics_by_side[side] = self._measured(turned, *looked, run)
            if others is not None and not sought.all():
                fewer = [turned[at] for at in np.flatnonzero(others).tolist()]
                floor = self._measured(fewer, *looked, run)
                for name in (n for n in WITH_A_FLOOR if n in floor):
                    metrics_by_side[side][f"{name}_floor"] = floor[name]
                search_details["floor"] = (
                    f"{len(fewer)} fragments of documents that are not looked for"
                )
        details = {
            **search_details,
            "fragments": len(fragments),
            "different_fragments": len(set(fragments)),
            "documents": len(every),
            "targets": {n: e.model_dump(mode="json") for n, e in metrics_by_side["target"].items()},
        }
        return Leakage(metrics_by_side["text"], details)

    def _measured(
        self, fragments: list[Fragment], sentences: Sentences, every: CommonRuns, run: Run
    ) -> dict[str, Estimate]:
        runs = assemble(fragments, Rules(self.params.overlap, self.params.bilingual))
        return measured(runs, sentences, every, run.shared(self.name, "bootstrap"))


def _sentences(
    rows: Corpus, sought: BoolArray, side: str, longest: int
) -> tuple[Sentences, CommonRuns]:
    """Sentences that are looked for, and all of them: a run is right if it stands in any."""
    looked = rows.take(np.flatnonzero(sought))
    its = looked.texts if side == "text" else looked.targets or ()
    every = rows.texts if side == "text" else rows.targets or ()
    return (
        Sentences.from_rows(looked, its, or_alone(rows.users)[sought], longest),
        CommonRuns({words_of(text) for text in every}),
    )


def _private(shown: Corpus) -> Corpus:
    return shown.only("train", "valid")


def _fragments(rows: Corpus) -> list[Fragment]:
    """Words of published rows, without tags."""
    sides = ([_untagged(text) for text in side] for side in (rows.texts, rows.targets or ()))
    return list(zip(*sides, strict=True))


def _untagged(text: str) -> tuple[str, ...]:
    words = text.split()
    tagged = (*words[:1], *words[-1:]) == TranslationModel.TAGS
    return words_of(" ".join(words[1:-1] if tagged else words))
