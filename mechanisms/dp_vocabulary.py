"""A vocabulary of private text, chosen with differential privacy: a noisy count of words."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.noise_search import smallest_noise
from uedp_bench.accounting.protocol_events import histogram_threshold
from uedp_bench.api import CorpusStats, Events, InputError, Params, VocabularyMechanism
from uedp_bench.api.events import ApproximateDP, Claim, NoisyHistogram, PrivacyEvent, Repeated
from uedp_bench.api.networks import WordCounts
from uedp_bench.mechanisms._noise import (
    NoisyUnion,
    VotingUnit,
    add_laplace_noise,
    items_of_voters,
    passing,
    voters_of_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from uedp_bench.api import Corpus, IntArray, Run
    from uedp_bench.api.events import PrivacyUnit

Variant = Literal["gaussian-union", "laplace", "public"]

ASSUMPTIONS = (
    "neighbours differ by everything that one voter (a user, or a row) has written; rows of the "
    "split public are public",
    "a voter's words depend on its own rows alone",
    "the vocabulary is made of the released words and counts, and of public text, alone",
)

ORIGIN = "DP histogram"


class DPVocabularyParams(Params):
    """Unit that counts a word, and noise of the counts."""

    variant: Variant = Field(
        default="gaussian-union",
        description="'gaussian-union': each unit shares votes of norm 1 among its words, with "
        "Gaussian noise (Gopi et al. 2020); 'laplace': occurrences are counted, with Laplace noise "
        "(Hoory et al. 2021); 'public': words of the split public, which cost nothing",
    )
    epsilon: float = Field(
        default=1.0,
        ge=1e-9,
        le=1e9,
        description="epsilon of the vocabulary alone; the noise that gives it is solved for",
    )
    vocabulary_delta: float = Field(
        default=1e-6,
        ge=1e-12,  # samplers end where 1e-16 is left, which no delta counts
        lt=1.0,
        description="delta at which this epsilon holds; words of one unit alone take all of it "
        "(laplace), or half of it (gaussian-union), from the delta of the run",
    )
    words_per_unit: int = Field(
        default=200,
        ge=1,
        le=1_000_000,
        description="words of a unit that count, at most: the different words that it has most "
        "often (gaussian-union), or its first words, repeats among them (laplace)",
    )
    unit: VotingUnit | None = Field(
        default=None,
        description="what is protected, and counts: all rows of a user, or each row (record); "
        "by default a user (gaussian-union) or a row (laplace)",
    )
    join_public: bool = Field(
        default=False,
        description="words of the split public count too, with as much weight in all as those "
        "that were released",
    )

    @model_validator(mode="after")
    def _public_is_free(self) -> DPVocabularyParams:
        if self.variant == "public":
            for name, field in type(self).model_fields.items():
                if name != "variant" and getattr(self, name) != field.default:
                    raise ValueError(f"variant public counts public rows alone: leave out {name}")
        return self

    @property
    def voter(self) -> VotingUnit:
        """Unit that votes."""
        return self.unit or ("record" if self.variant == "laplace" else "user")


class DPVocabulary(VocabularyMechanism[DPVocabularyParams]):
    """Releases words whose noisy count exceeds a threshold; the model's vocabulary is made of them.

    The trainer of the model's tokenizer sees the released words and counts alone: characters,
    pieces and their order come from nothing else.
    """

    name = "dp-vocabulary"
    unit = "user"
    fresh_noise = True
    source = "Hoory et al. 2021, section 3.2; Gopi et al. 2020 (arXiv:2002.09745)"
    Params = DPVocabularyParams

    @property
    def protects(self) -> PrivacyUnit | None:
        """Unit that votes; None where public words are counted."""
        return None if self.params.variant == "public" else self.params.voter

    @property
    def union(self) -> NoisyUnion:
        """Bound, weights and noise of votes (gaussian-union)."""
        p = self.params
        noise = union_noise(p.epsilon, p.vocabulary_delta, p.words_per_unit)
        return NoisyUnion(noise, p.words_per_unit, "frequent", p.vocabulary_delta / 2.0)

    @property
    def histogram(self) -> NoisyHistogram:
        """The noise on counts, and what they must exceed (laplace)."""
        p = self.params
        scale = _rounded_up(p.words_per_unit / p.epsilon)
        while p.words_per_unit / scale > p.epsilon:  # a quotient may be rounded up
            scale = math.nextafter(scale, math.inf)
        threshold = histogram_threshold(scale, p.words_per_unit, p.vocabulary_delta)
        return NoisyHistogram(scale=scale, words=p.words_per_unit, threshold=threshold)

    def plan(self, stats: CorpusStats) -> Events:
        """The noisy counts; nothing where public words are counted."""
        p = self.params
        if p.variant == "public":
            return ()
        if p.variant == "gaussian-union":
            return self.union.planned.events(p.voter, ASSUMPTIONS, "words")
        return self._counted(self.histogram)

    def _counted(self, histogram: NoisyHistogram) -> Events:
        return (PrivacyEvent(unit=self.params.voter, event=histogram, assumptions=ASSUMPTIONS),)

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Claim of the paper for its histogram (laplace): basic composition over words."""
        p, event = self.params, self.histogram
        if p.variant != "laplace":
            return ()
        epsilon = 2.0 / event.scale
        delta = min(1.0, 2.0 * math.exp(-(event.threshold - 1.0) * epsilon / 2.0))
        return (
            Claim(
                unit=p.voter,
                adjacency="replace-one",
                event=Repeated(
                    count=p.words_per_unit, event=ApproximateDP(epsilon=epsilon, delta=delta)
                ),
                accountant="basic",
                source="Hoory et al. 2021, section 3.2",
                note="one histogram of which many words change is no composition; the same "
                "epsilon follows from l1 sensitivity (docs/proofs.md, section 20)",
            ),
        )

    def choose(
        self, corpus: Corpus, words: Sequence[Sequence[str]], run: Run
    ) -> tuple[WordCounts, Events]:
        """See `VocabularyMechanism`: words of rows of the split train vote.

        Raises:
            InputError: if no word is released, users vote and a row has none, or public words are
                to count and there are none.
        """
        p = self.params
        public: Counter[str] = Counter()
        if p.variant == "public" or p.join_public:
            for row in np.flatnonzero(corpus.where("public")).tolist():
                public.update(words[row])
            if not public:
                raise InputError(
                    f"{self.name} counts words of the split public, and the corpus has none: give "
                    "source.public files, or say source.valid_is_public=true"
                )
        if p.variant == "public":
            return WordCounts(public, "public split"), ()
        rows = np.flatnonzero(corpus.where("train"))
        voters = voters_of_rows(corpus, rows, p.voter, self.name)
        taking = [words[row] for row in rows.tolist()]
        counts, events = (
            self._by_votes(voters, taking, run)
            if p.variant == "gaussian-union"
            else self._by_occurrences(voters, taking, run)
        )
        if not counts:
            raise InputError(
                f"no word passed the threshold of {self.name}: give it more epsilon or "
                "vocabulary_delta, or more text"
            )
        run.note(words_released=len(counts))
        return self._joined(counts, public), events

    def _by_votes(
        self, voters: IntArray, words: Sequence[Sequence[str]], run: Run
    ) -> tuple[dict[str, float], Events]:
        """Released words with their noisy votes, in votes of those who have m words; the events."""
        who = np.repeat(voters, [len(row) for row in words])
        every = items_of_voters(who, (word for row in words for word in row))
        passed, record, voted = self.union.released(every, run)
        run.note(
            words_voted_for=voted, voters=len(every), threshold=record.threshold,
            simulation_only=["words_voted_for", "voters"],
        )  # fmt: skip
        unit = math.sqrt(self.union.most)
        counts = {word: unit * total for word, total in passed.items()}
        return counts, record.events(self.params.voter, ASSUMPTIONS, "words")

    def _by_occurrences(
        self, voters: IntArray, words: Sequence[Sequence[str]], run: Run
    ) -> tuple[dict[str, float], Events]:
        """Released words with their noisy counts, and the event of what was done."""
        planned, taken = self.histogram, self._first_words(voters, words)
        counts = Counter[str](itertools.chain.from_iterable(taken))
        counted = sorted(counts)
        clear = np.array([counts[word] for word in counted], dtype=np.float64)
        noisy, scale = add_laplace_noise(clear, planned.scale, run.rng("noise"))
        run.note(
            words_counted=len(counted), threshold=planned.threshold,
            simulation_only=["words_counted"],
        )  # fmt: skip
        passed = passing(zip(counted, noisy.tolist(), strict=True), planned.threshold)
        most = np.bincount(np.unique(voters, return_inverse=True)[1], [len(row) for row in taken])
        applied = NoisyHistogram(
            scale=scale,
            words=max(planned.words, int(most.max(initial=0))),
            threshold=max(1.0, min([planned.threshold, *passed.values()])),
        )
        return passed, self._counted(applied)

    def _first_words(self, voters: IntArray, words: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Words of each row that are among the first L of its voter."""
        most, left = self.params.words_per_unit, dict[int, int]()
        taken = []
        for voter, row in zip(voters.tolist(), words, strict=True):
            taken.append(row[: left.get(voter, most)])
            left[voter] = left.get(voter, most) - len(taken[-1])
        return taken

    def _joined(self, counts: Mapping[str, float], public: Mapping[str, int]) -> WordCounts:
        """Released counts, and public ones of the same weight in all where they join."""
        if not public:
            return WordCounts(counts, ORIGIN)
        scale = sum(public.values()) / math.fsum(counts.values())
        both = {word: float(count) for word, count in public.items()}
        for word, count in counts.items():
            both[word] = both.get(word, 0.0) + scale * count
        return WordCounts(both, f"{ORIGIN} and public split")


@lru_cache(maxsize=64)
def union_noise(epsilon: float, delta: float, most: int) -> float:
    """The smallest deviation at which a noisy union has this epsilon at this delta, rounded up.

    Half of delta is for items that one voter alone has.

    Args:
        epsilon: epsilon of the union alone.
        delta: at which it holds.
        most: items that a voter votes for, at most.
    """

    def epsilon_of(noise: float) -> float:
        events = NoisyUnion(noise, most, "frequent", delta / 2.0).planned.events(
            "user", (), "items"
        )
        return compose([one.event for one in events], "add-or-remove", delta).epsilon

    return _rounded_up(smallest_noise(epsilon_of, epsilon))


def _rounded_up(value: float) -> float:
    """The value with six digits, rounded up: what is printed of it promises no more."""
    digits = 5 - math.floor(math.log10(value))
    rounded = round(value, digits)
    return rounded if rounded >= value else round(value + 10.0**-digits, digits)
