"""Phrases that at least k documents have: common practice, and no guarantee."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pydantic import Field

from uedp_bench.api import CorpusStats, Events
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.mechanisms._noise import VotingUnit
from uedp_bench.mechanisms.fragments.extraction import (
    PhraseMechanism,
    PhraseParams,
    phrases_of_voters,
)

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Run

EVENTS: Events = tuple(
    PrivacyEvent(
        unit=unit,
        event=NonPrivate(
            reason="a phrase is published for certain where k documents have it: who knows k - 1 "
            "of them sees for certain that another one has it"
        ),
    )
    for unit in ("user", "record")
)


class KDocumentParams(PhraseParams):
    """Phrases, and how many documents must have them."""

    documents: int = Field(default=3, ge=1, description="k: documents that have a phrase, at least")
    unit: VotingUnit = Field(
        default="user", description="what is a document: all rows of a user, or each row"
    )


class KDocument(PhraseMechanism[KDocumentParams]):
    """Publishes every phrase that at least k documents have, once, in the order of the alphabet.

    No number of documents makes it differentially private, for no noise hides who is the k-th.
    """

    name = "k-document"
    source = "thresholds of document frequency, common practice; no guarantee"
    Params = KDocumentParams

    def plan(self, stats: CorpusStats) -> Events:
        """No protection."""
        return EVENTS

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """Phrases of all rows but those of the split `public`, as training rows.

        Raises:
            InputError: if there is nothing to learn an alignment from, or a document is a user and
                a row has none.
        """
        voters = phrases_of_voters(corpus, self.phrases(corpus, run), self.params.unit, self.name)
        counts = Counter(phrase for phrases in voters.values() for phrase in phrases)
        shared = sorted(p for p, n in counts.items() if n >= self.params.documents)
        run.note(
            phrases=len(counts),
            phrases_published=len(shared),
            simulation_only=["phrases", "phrases_published"],
        )
        return self.of_nobody(corpus, shared), EVENTS
