"""A plug-in file: serving by a protocol between two parties, as far as its guarantee goes."""

from __future__ import annotations

from uedp_bench.api import Params, ServingMechanism, mechanisms
from uedp_bench.api.events import PrivacyEvent, SecureComputation

EVENTS = (
    PrivacyEvent(
        unit="computation",
        adjacency="replace-one",
        event=SecureComputation(
            parties=2, setup="trusted-dealer", truncations=1000, largest=4.0,
            reveals="the probability of the next word",
        ),
    ),
)  # fmt: skip


@mechanisms.register
class SecureServing(ServingMechanism[Params]):
    """Answers as the release does, and says that nobody saw the question."""

    name = "secure-serving"
    unit = "computation"

    def plan(self, stats):
        return EVENTS

    def serve(self, release, run):
        release.events = (*release.events, *EVENTS)
        return release
