"""A plug-in file of a mechanism that claims what it does not keep, and an attack that shows it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from uedp_bench.accounting.events import Claim, PureDP
from uedp_bench.components.component import Params
from uedp_bench.components.registry import attacks, mechanisms
from uedp_bench.contracts.capabilities import RowScorer
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.contracts.results import Estimate, LowerBound
from uedp_bench.mechanisms.noiseless import Noiseless


@mechanisms.register
class Boasting(Noiseless):
    """Trains without noise, and claims an epsilon of 1/2 for users."""

    name = "boasting"

    def claims(self, stats):
        event = PureDP(epsilon=0.5)
        return (Claim(unit="user", event=event, accountant="basic", source="nobody"),)


class RefutingParams(Params):
    epsilon: float = Field(default=1.0, ge=0, description="epsilon that it refutes")


@attacks.register
class Refuting(Attack[RefutingParams]):
    """Refutes an epsilon for users."""

    name = "refuting"
    Params = RefutingParams
    needs: ClassVar[tuple[type, ...]] = (RowScorer,)

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        epsilon = self.params.epsilon
        bound = LowerBound(
            unit="user", epsilon=epsilon, strict_epsilon=epsilon, delta=1e-5, confidence=0.95,
            method="by decree",
        )  # fmt: skip
        return Leakage({"advantage": Estimate(value=0.5)}, {}, (bound,))
