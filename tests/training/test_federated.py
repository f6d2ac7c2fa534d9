"""The rounds: sensitivity measured on adversarial users, noise, empty rounds, the event."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import Linear, ToyLearner, toy_plan, toy_run

from uedp_bench.accounting.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from uedp_bench.errors import PrivacyError
from uedp_bench.training.bounds import FlatBound, Unbounded
from uedp_bench.training.federated import train_federated
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import PoissonSampler
from uedp_bench.training.server import AdamServer, SgdServer


def _weights(points: np.ndarray, users: list[int], **changes: object) -> torch.Tensor:
    learner = ToyLearner(points, users)
    trained = train_federated(toy_plan(users, **changes), learner, toy_run())
    return trained.module.weight.detach()  # type: ignore[union-attr,return-value]


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e20])
@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_adversarial_user_moves_the_sum_by_at_most_the_clip_bound(
    size: float, epochs: int, optimizer: str
) -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(12, 6))
    points[9:] = size * rng.normal(size=(3, 6))  # user 3 sends whatever hurts most
    users = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    local = LocalTraining(epochs=epochs, batch_size=2, learning_rate=0.5, optimizer=optimizer)  # type: ignore[arg-type]
    bound = 0.7
    with_user = _weights(points, users, bound=FlatBound(bound), local=local, denominator=1.0)
    alone = [
        _weights(points[3 * u : 3 * u + 3], [0, 0, 0], bound=FlatBound(bound), local=local)
        for u in range(4)
    ]
    for update in alone:
        assert float(update.norm()) <= bound * (1 + 1e-5)
    assert torch.isfinite(with_user).all()
    assert float(with_user.norm()) <= 4 * bound * (1 + 1e-5)


def test_unit_weights_scale_contributions() -> None:
    points = 100 * np.ones((2, 4))
    half = _weights(points, [0, 1], unit_weights=np.array([0.5, 0.0]))
    assert float(half.norm()) == pytest.approx(0.5, rel=1e-4)


def test_noise_scales_with_the_largest_weight_and_larger_weights_are_refused() -> None:
    points, light = np.zeros((2, 20_000)), np.array([0.25, 0.1])
    weights = _weights(
        points, [0, 1], unit_weights=light, weight_bound=0.25, noise=IndependentGaussian(2.0)
    )
    assert float(weights.std()) == pytest.approx(2.0 * 0.25, rel=0.03)
    with pytest.raises(PrivacyError, match=r"bound 0\.2"):
        _weights(points, [0, 1], unit_weights=light, weight_bound=0.2)


def test_a_round_in_which_nobody_takes_part_still_adds_noise() -> None:
    points = np.ones((4, 1_000))
    nobody = PoissonSampler(4, 0.0)
    weights = _weights(points, [0, 1, 2, 3], sampler=nobody, noise=IndependentGaussian(1.0))
    assert float(weights.std()) == pytest.approx(1.0, rel=0.15)


def test_the_event_states_the_noise_that_was_added_over_the_bound_that_was_enforced() -> None:
    learner = ToyLearner(np.ones((2, 3)), [0, 1])
    plan = toy_plan([0, 1], bound=FlatBound(0.2), noise=IndependentGaussian(1.7), rounds=3)
    trained = train_federated(plan, learner, toy_run())
    gaussian = Gaussian(noise_multiplier=1.7)
    assert trained.rounds == (Repeated(count=3, event=PoissonSampled(rate=1.0, event=gaussian)),)
    unclipped = train_federated(replace(plan, bound=Unbounded()), learner, toy_run())
    assert unclipped.rounds == (NonPrivate(reason="nothing was clipped"),)


def test_row_weights_choose_rows_and_rows_per_unit_caps_them() -> None:
    points = np.zeros((4, 2))
    points[0] = [1.0, 0.0]
    points[1:] = [0.0, 1.0]
    weights = _weights(points, [0, 0, 0, 0], row_weights=lambda rng: np.array([1.0, 0.0, 0.0, 0.0]))
    assert weights.tolist() == pytest.approx([1.0, 0.0], abs=1e-5)
    learner = ToyLearner(points, [0, 0, 0, 0])
    run = toy_run()
    train_federated(toy_plan([0] * 4, rows_per_unit=2, rounds=5), learner, run)
    assert run.counts["rows_trained"] == 10
    assert run.counts["weights_trained"] == 2


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    learner = ToyLearner(np.ones((4, 8)), [0, 1, 2, 3])
    plan = toy_plan([0, 1, 2, 3], noise=IndependentGaussian(1.0), rounds=3,
                 sampler=PoissonSampler(4, 0.5))  # fmt: skip
    first, again, other = (
        train_federated(plan, learner, toy_run(seed)).module.weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_server_optimisers() -> None:
    points = 5 * np.ones((3, 4))
    users = [0, 1, 2]
    sgd = _weights(points, users, rounds=2, denominator=3.0, server=SgdServer(0.5))
    momentum = _weights(
        points, users, rounds=2, denominator=3.0, server=SgdServer(0.5, momentum=0.9)
    )
    adam = _weights(points, users, rounds=2, denominator=3.0, server=AdamServer(0.1))
    assert sgd.tolist() == pytest.approx([0.5] * 4, rel=1e-3)  # two steps of 0.5 * 1 / sqrt(4)
    assert (momentum > sgd).all()
    assert adam.tolist() == pytest.approx([0.2] * 4, rel=1e-2)


class _KeepsInputs(Linear):
    """Remembers the last row it saw, as batch normalisation remembers means."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.register_buffer("seen", torch.zeros(size))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        self.seen.copy_(points.reshape(-1, points.shape[-1])[-1])  # type: ignore[operator]
        return super().forward(points)


def test_a_network_that_keeps_statistics_of_its_inputs_is_refused() -> None:
    learner = ToyLearner(np.ones((3, 4)), [0, 1, 2], vectorised=False)
    learner.module = _KeepsInputs(4)
    plan = toy_plan([0, 1, 2])
    with pytest.raises(PrivacyError, match="'seen'"):
        train_federated(plan, learner, toy_run())
    train_federated(replace(plan, bound=Unbounded()), learner, toy_run())  # promises nothing


def test_counts_of_private_rows_are_marked_as_simulation_only() -> None:
    run = toy_run()
    train_federated(toy_plan([0, 1, 2]), ToyLearner(np.ones((3, 4)), [0, 1, 2]), run)
    counted = set(run.counts) - {"weights_trained"}  # which says nothing of rows
    assert {f"cost.{name}" for name in counted} <= set(run.diagnostics["simulation_only"])
