"""Fragments: phrases of the private text and their translations, shuffled, some left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from uedp_bench.api import CorpusStats, Events
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.mechanisms.fragments.extraction import PhraseMechanism, PhraseParams

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Run

EVENTS: Events = tuple(
    PrivacyEvent(
        unit=unit,
        event=NonPrivate(
            reason="fragments of the text are published as they are: a word is published with "
            "every phrase that holds it, unless chance leaves out all of them"
        ),
    )
    for unit in ("user", "record", "word")
)
"""Nothing is hidden; leaving some out is no amplification of anything, for nothing is protected."""


class PhraseFragmentsParams(PhraseParams):
    """Phrases, and how many of them."""

    keep: float = Field(
        default=0.5, gt=0.0, le=1.0, description="share of the occurrences that is published"
    )


class PhraseFragments(PhraseMechanism[PhraseFragmentsParams]):
    """Publishes phrases that are consistent with the alignment of a row and its translation.

    Occurrences of phrases, not their kinds, are drawn and shuffled. Nothing is proven. Fragments
    belong to no user, and their order says nothing. Their `origin` is the row that each was made
    from: whoever judges an attack needs it, and no attacker is given it (`seen_of`).
    """

    name = "phrase-fragments"
    source = "Kim, Bisazza and Turkmen 2021 (PrivateNLP), section 3"
    Params = PhraseFragmentsParams

    def plan(self, stats: CorpusStats) -> Events:
        """No protection, for any unit."""
        return EVENTS

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """Fragments of all rows but those of the split `public`, in their splits.

        Raises:
            InputError: if there is nothing to learn an alignment from.
        """
        every = self.phrases(corpus, run)
        kept = round(self.params.keep * len(every.phrases))
        drawn = run.rng("shuffle").permutation(len(every.phrases))[:kept]
        run.note(
            phrases=len(every.phrases),
            phrases_published=kept,
            simulation_only=["phrases", "phrases_published"],
        )
        chosen = [every.phrases[at] for at in drawn.tolist()]
        return self.published(corpus, every.row[drawn], chosen), EVENTS
