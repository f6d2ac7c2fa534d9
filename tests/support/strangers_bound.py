"""A stranger's mechanism: a clip bound that steps up or down by what a noisy count says."""

from uedp_bench.api import Corpus, CorpusStats, Events, Params, Run, TrainingMechanism, mechanisms
from uedp_bench.api.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated
from uedp_bench.api.networks import Learner
from uedp_bench.api.sampling import PoissonSampler
from uedp_bench.api.text import users_of
from uedp_bench.api.training import (
    Count,
    Federation,
    IndependentGaussian,
    Limits,
    LocalTraining,
    Seen,
    SgdServer,
    train_federated,
)


class Stepping:
    """Doubles where fewer than half of the updates fit, and halves where more do."""

    def __init__(self, start: float, expected: float, count_noise: float) -> None:
        self.bound, self.expected, self.count_noise = start, expected, count_noise

    def limits(self, step, layers):
        return Limits(self.bound, count=Count(below=self.bound, noise=self.count_noise))

    def learn(self, step: int, seen: Seen) -> None:
        fit = 0.5 + seen.count / self.expected
        self.bound *= 2.0 if fit < 0.5 else 0.5


class SteppingParams(Params):
    users: int = 60
    users_per_round: int = 12
    rounds: int = 6
    noise_multiplier: float = 1.1
    count_noise: float = 0.9


@mechanisms.register
class SteppingDP(TrainingMechanism[SteppingParams]):
    """DP-FedAvg whose clip bound steps."""

    name = "stepping-dp"
    unit = "user"
    fresh_noise = True
    Params = SteppingParams

    def plan(self, stats: CorpusStats) -> Events:
        p = self.params
        round_ = PoissonSampled(
            rate=p.users_per_round / p.users, event=Gaussian(noise_multiplier=p.noise_multiplier)
        )
        return (PrivacyEvent(unit="user", event=Repeated(count=p.rounds, event=round_)),)

    def train(self, learner: Learner, corpus: Corpus, run: Run):
        p = self.params
        units = users_of(corpus)
        trained = train_federated(
            Federation(
                rounds=p.rounds,
                units=units,
                sampler=PoissonSampler(len(units), p.users_per_round / p.users),
                local=LocalTraining(),
                bound=Stepping(0.3, float(p.users_per_round), p.count_noise),
                noise=IndependentGaussian(p.noise_multiplier),
                denominator=float(p.users_per_round),
                server=SgdServer(),
            ),
            learner,
            run,
        )
        return trained.module, tuple(PrivacyEvent(unit="user", event=e) for e in trained.rounds)
