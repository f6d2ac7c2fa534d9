"""Plug-ins for the ledger: an attack that says what it is told to, a sampler nobody was told of."""

from __future__ import annotations

from typing import ClassVar

from uedp_bench.accounting.events import PrivacyUnit
from uedp_bench.components.component import Params
from uedp_bench.components.registry import attacks, mechanisms, sources
from uedp_bench.contracts.capabilities import Scorer
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.contracts.results import Estimate, LowerBound
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.tasks.sources.embedded.source import Embedded


class VerdictParams(Params):
    epsilon: float = 0.5
    strict: float | None = None
    unit: PrivacyUnit = "user"
    spread: int | None = None
    sentences: int | None = None
    delta: float = 1e-5


@attacks.register
class Verdict(Attack[VerdictParams]):
    """Reports the lower bound of its parameters."""

    name = "verdict"
    Params = VerdictParams
    needs: ClassVar[tuple[type, ...]] = (Scorer,)

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        p = self.params
        bound = LowerBound(
            unit=p.unit, epsilon=p.epsilon, delta=p.delta, confidence=0.95, method="told to",
            spread=p.spread, sentences=p.sentences, strict_epsilon=p.strict,
        )  # fmt: skip
        return Leakage({"advantage": Estimate(value=0.5)}, lower_bounds=(bound,))

    def contradictions(self, stored):
        for number, bound in stored.lower_bounds.items():
            if bound.epsilon != self.params.epsilon:
                yield f"lower_bounds.{number}.epsilon", "is not that of the parameters"


class SeerParams(Params):
    auc: float = 0.5


@attacks.register
class Seer(Attack[SeerParams]):
    """Reports the user AUC of its parameters, as if it had judged 800 users."""

    name = "seer"
    Params = SeerParams
    needs: ClassVar[tuple[type, ...]] = (Scorer,)

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        judged = {"members": 400, "non_members": 400, "most_records": 5}
        return Leakage({"auc_user": Estimate(value=self.params.auc)}, {"judged": judged})


@mechanisms.register
class SecretlyFixed(UserDP):
    """DP-FedAvg that plans Poisson rounds and draws rounds of fixed size."""

    name = "secretly-fixed"

    def _sampler(self, users, population):
        from uedp_bench.training.sampling import FixedSizeSampler

        if population is None:
            return super()._sampler(users, population)
        return FixedSizeSampler(population, self.params.users_per_round)


@sources.register
class MixedRows(Embedded):
    """The embedded corpus, whose rows are said to depend on each other."""

    name = "mixed-rows"

    def refusals(self):
        return ("rows of one user depend on those of others",)
