"""A sampling scheme that the accountant was not told about proves nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from learners import EntityLearner, run_of

from uedp_bench.accounting.events import Gaussian
from uedp_bench.accounting.ledger import check_plan, proven
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.errors import PrivacyError
from uedp_bench.mechanisms.private_training.uedp import UeDP
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.training import sampling

MECHANISMS = [
    UeDP.create({"users_per_round": 2, "rounds": 1}),
    *(
        UeDPSpread.create(
            {
                "users_per_round": 2,
                "rounds": 1,
                "noise_multiplier": 3.0,
                "clipping": clipping,
            }
        )
        for clipping in ("one-level", "two-level")
    ),
    UeDPGroup.create({"sampling_rate": 0.5, "rounds": 1, "noise_multiplier": 3.0}),
]


class Shuffled(sampling.FixedSizeSampler):
    """As most loaders draw: batches of one size."""

    def __init__(self, population: int, rate: float) -> None:
        super().__init__(population, max(1, round(rate * population)))


class Oftener(sampling.PoissonSampler):
    """Independent coins, at twice the rate."""

    def __init__(self, population: int, rate: float) -> None:
        super().__init__(population, min(1.0, 2 * rate))


def _learner() -> EntityLearner:
    points = np.random.default_rng(0).normal(size=(8, 3))
    return EntityLearner(points, [0, 0, 1, 1, 2, 2, 3, 3], ["a", "b", "", "a", "c", "", "d", ""])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("sampler", "message"), [(Shuffled, "fixed-size-sampled"), (Oftener, "event.rate")]
)
def test_another_sampler_than_planned_is_refused(
    mechanism: TrainingMechanism[Any],
    sampler: type,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = _learner()
    run = run_of(learner)
    _, honest = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), honest)
    monkeypatch.setattr("uedp_bench.api.sampling.PoissonSampler", sampler)
    _, events = mechanism.train(learner, learner.corpus, run_of(learner))
    with pytest.raises(PrivacyError, match=message) as caught:
        check_plan(mechanism.plan(run.stats), events)
    results = proven(events, delta=1e-5, refusals=[str(caught.value)])
    assert {g.unit for g in results} >= {"user-entity"}
    for result in results:
        assert (result.status, result.epsilon) == ("refused", math.inf)
        assert message in result.reason


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_fixed_size_rounds_are_refused_without_a_plan_too(
    mechanism: TrainingMechanism[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uedp_bench.api.sampling.PoissonSampler", Shuffled)
    learner = _learner()
    _, events = mechanism.train(learner, learner.corpus, run_of(learner))
    for result in proven(events, delta=1e-5):
        assert (result.status, result.epsilon) == ("refused", math.inf)
        assert "fixed-size" in result.reason
    assert Shuffled(8, 0.5).event(Gaussian(noise_multiplier=1.0)).sample == 4
