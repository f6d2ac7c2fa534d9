"""A plug-in file: training that emits the event of another plug-in beside its own."""

from __future__ import annotations

from uedp_bench.api import mechanisms
from uedp_bench.api.events import PrivacyEvent, events
from uedp_bench.mechanisms.private_training.user_dp import UserDP


@mechanisms.register
class CoinDP(UserDP):
    """Is user-dp, and releases one noisy bit of every user."""

    name = "coin-dp"

    def plan(self, stats):
        return (*super().plan(stats), _coin())

    def train(self, learner, corpus, run):
        release, happened = super().train(learner, corpus, run)
        return release, (*happened, _coin())


def _coin():
    coin = events.create("randomized-response", {"truth": 0.75})
    return PrivacyEvent(unit="user", event=coin)
