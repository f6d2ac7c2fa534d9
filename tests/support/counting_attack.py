"""A plug-in file of an attack with metrics of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from uedp_bench.api import Attack, Estimate, Leakage, Metric, Params, Planted, attacks
from uedp_bench.api.capabilities import RowScorer


class CountingParams(Params):
    gives: Literal["declared", "undeclared"] = "declared"


@attacks.register
class Counting(Attack[CountingParams]):
    """Counts names, without looking."""

    name = "counting"
    Params = CountingParams
    needs: ClassVar[tuple[type, ...]] = (RowScorer,)
    metrics = (
        Metric.rate("names_told", "names told", "share of planted names that a stranger reads",
                    "lower", no_leak=0.02, main=True),
        Metric("tries_*", "tries for", "questions for such a name", unit="kQ", low=0.0),
    )  # fmt: skip

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        name = "tries_rare" if self.params.gives == "declared" else "attempts_rare"
        share = Estimate(value=0.3, low=0.2, high=0.4)
        return Leakage({"names_told": share, name: Estimate(value=7.0)})
