"""Phrases that many documents share, chosen with differential privacy: a noisy union of sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from uedp_bench.api import CorpusStats, Events
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.mechanisms._noise import Choice, NoisyUnion, UnionRecord, VotingUnit
from uedp_bench.mechanisms.fragments.extraction import (
    PhraseMechanism,
    PhraseParams,
    phrases_of_voters,
)

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.events import PrivacyUnit

ALIGNED_IN_PRIVATE = (
    "trained_on is private: the alignment was learnt from all private rows, so that each of them "
    "decides which phrases the others have; learn it from public text (trained_on=public)"
)

ASSUMPTIONS = (
    "neighbours differ by everything that one voter (a document's user, or a row) has written; "
    "rows of the split public and their translations are public",
    "a voter's phrases depend on its own rows and on the public alignment alone",
    "phrases are published without counts and in the order of the alphabet",
)


class PhraseUnionParams(PhraseParams):
    """Phrases, votes and noise."""

    trained_on: Literal["private", "public"] = Field(
        default="public",
        description="rows that the alignment is learnt from; where they are private, nothing is "
        "proven",
    )
    noise_multiplier: float = Field(
        gt=0.0, description="deviation of the noise on each sum of votes; votes have norm 1"
    )
    most: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="m: different phrases that a document votes for, at most",
    )
    choose: Choice = Field(
        default="frequent",
        description="which phrases a document with more than m votes for: any, or those that it "
        "has most often",
    )
    delta_unseen: float = Field(
        default=5e-6,
        gt=0.0,
        lt=1.0,
        description="part of delta for phrases that one document alone has; sets the threshold",
    )
    unit: VotingUnit = Field(
        default="user", description="what votes: all rows of a user, or each row for itself"
    )


class PhraseUnion(PhraseMechanism[PhraseUnionParams]):
    """Publishes phrases whose noisy votes exceed a threshold, once, in the order of the alphabet.

    A voter with n phrases votes for min(n, m) of them, each with the weight 1 / sqrt(min(n, m)).
    Every phrase with a vote gets Gaussian noise. The threshold is so high that phrases that one
    voter alone has pass with a total probability of `delta_unseen` at most (docs/proofs.md).
    """

    name = "phrase-union"
    unit = "user"
    fresh_noise = True
    source = (
        "Gopi et al. 2020 (arXiv:2002.09745), weighted Gaussian; Korolova et al. 2009 (thresholds)"
    )
    Params = PhraseUnionParams

    @property
    def protects(self) -> PrivacyUnit:
        """Unit that votes."""
        return self.params.unit

    @property
    def union(self) -> NoisyUnion:
        """Bound, weights and noise of votes at these parameters."""
        p = self.params
        return NoisyUnion(p.noise_multiplier, p.most, p.choose, p.delta_unseen)

    def plan(self, stats: CorpusStats) -> Events:
        """A noisy sum of vectors of norm 1, and phrases that only one voter has."""
        return self._events(self.union.planned)

    def _events(self, record: UnionRecord) -> Events:
        p = self.params
        if p.trained_on == "private":
            return (PrivacyEvent(unit=p.unit, event=NonPrivate(reason=ALIGNED_IN_PRIVATE)),)
        return record.events(p.unit, ASSUMPTIONS, "phrases")

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """Phrases of all rows but those of the split `public`, as training rows.

        Raises:
            InputError: if there is nothing to learn an alignment from, or users vote and a row has
                none.
        """
        p = self.params
        voters = phrases_of_voters(corpus, self.phrases(corpus, run), p.unit, self.name)
        passed, record, voted = self.union.released(voters, run)
        run.note(
            phrases_voted_for=voted, voters=len(voters), threshold=record.threshold,
            simulation_only=["phrases_voted_for", "voters"],
        )  # fmt: skip
        return self.of_nobody(corpus, list(passed)), self._events(record)
