"""The majority baseline: every row is published as the same vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.api import CorpusStats, Events, Params, PublishingMechanism
from uedp_bench.api.events import PrivacyEvent, PureDP

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Run

_EVENTS = (
    PrivacyEvent(
        unit="word",
        adjacency="replace-one",
        event=PureDP(epsilon=0.0),
        assumptions=(
            "labels, users and attributes of rows, and how many rows there are, are not protected",
        ),
    ),
)


class MajorityParams(Params):
    """It has none."""


class Majority(PublishingMechanism[MajorityParams]):
    """Publishes the vector (1) for every row, public and test rows among them.

    What a classifier can still learn is how often each class occurs, so that it predicts the
    majority class; an attacker does the same with a private variable. No mechanism on text has a
    lower utility that is worth having, or a higher empirical privacy.
    """

    name = "majority"
    unit = "word"
    source = "baseline; Lyu, He, Li 2020, Table 4"
    Params = MajorityParams
    rowwise = True
    at_inference = True

    def plan(self, stats: CorpusStats) -> Events:
        """Nothing of the text is published."""
        return _EVENTS

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """Publish all rows with the vector (1)."""
        published = corpus.with_vectors(np.ones((len(corpus), 1)))
        vectors = published.vectors
        constant = vectors is not None and bool((vectors == 1.0).all())
        return published, _EVENTS if constant else ()
