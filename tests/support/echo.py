"""A plug-in that returns every text as it is, and says that it is private."""

from __future__ import annotations

from uedp_bench.accounting.events import PrivacyEvent, PureDP
from uedp_bench.components import registry
from uedp_bench.components.component import Params
from uedp_bench.contracts.mechanism import Events, PublishingMechanism
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus


class EchoParams(Params):
    """It has none."""


@registry.mechanisms.register
class Echo(PublishingMechanism[EchoParams]):
    """Publishes every text as it is, at an epsilon of its own invention."""

    name = "echo"
    unit = "user"
    Params = EchoParams
    rowwise = True
    carries = frozenset({"entities", "layers"})

    def plan(self, stats: CorpusStats) -> Events:
        return (PrivacyEvent(unit="user", event=PureDP(epsilon=0.1)),)

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        return corpus, self.plan(run.stats)
