"""A mechanism that adds less noise than it reports: what an audit must catch."""

from __future__ import annotations

from pydantic import Field

from uedp_bench.components.registry import mechanisms
from uedp_bench.mechanisms.private_training.user_dp import UserDP, UserDPParams


class LeakyParams(UserDPParams):
    really: float = Field(default=0.0, ge=0, description="share of the noise that is added")


@mechanisms.register
class LeakyUserDP(UserDP):
    """DP-FedAvg whose events speak of `noise_multiplier` and whose training adds a share of it."""

    name = "leaky-user-dp"
    Params = LeakyParams
    params: LeakyParams

    def train(self, learner, corpus, run):
        noise = self.params.noise_multiplier * self.params.really
        values = self.params.model_dump(exclude={"really"}) | {"noise_multiplier": noise}
        module, _ = UserDP.create(values).train(learner, corpus, run)
        return module, self.plan(run.stats)
