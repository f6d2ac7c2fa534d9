"""Two-level clipping against arithmetic by hand, and what it refuses to be combined with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners import NetworkLearner, flat
from toy import Linear, ToyLearner, toy_plan, toy_run

from uedp_bench.accounting.events import Gaussian, PoissonSampled, Repeated
from uedp_bench.contracts.run_context import Speed
from uedp_bench.errors import PrivacyError
from uedp_bench.training import clipping
from uedp_bench.training.bounds import FlatBound, TwoLevelBound
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import PoissonSampler


def _plan(users: list[int], **changes: Any) -> Federation:
    return toy_plan(users, **{"bound": TwoLevelBound(1.0, rows=0.3), **changes})


def _moved(points: np.ndarray, users: list[int], **changes: Any) -> torch.Tensor:
    learner = ToyLearner(points, users)
    return flat(train_federated(_plan(users, **changes), learner, toy_run()).module)


def _project(vector: np.ndarray, radius: float) -> np.ndarray:
    return vector * min(1.0, radius / max(np.linalg.norm(vector), 1e-30))


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=9),
    st.integers(0, 99),
    st.sampled_from([0.1, 0.4, 1.0]),
    st.sampled_from([0.1, 1.0, 50.0]),
)
@settings(max_examples=40, deadline=None)
def test_every_row_is_clipped_then_every_user(
    users: list[int], seed: int, row_clip: float, size: float
) -> None:
    points = size * np.random.default_rng(seed).normal(size=(len(users), 3))
    local = LocalTraining(learning_rate=0.5)
    weights = _moved(points, users, bound=TwoLevelBound(1.0, rows=row_clip), local=local)
    by_hand = sum(
        _project(
            sum(_project(0.5 * points[i], row_clip) for i in np.flatnonzero(np.equal(users, user))),
            1.0,
        )
        for user in set(users)
    )
    np.testing.assert_allclose(weights.numpy(), by_hand, rtol=1e-4, atol=1e-5)


def test_one_row_a_user_at_the_user_s_bound_is_one_level_clipping() -> None:
    points = 10 * np.random.default_rng(2).normal(size=(5, 4))
    users = list(range(5))
    two, one = (
        _moved(points, users, bound=bound) for bound in (TwoLevelBound(1.0, 1.0), FlatBound(1.0))
    )
    torch.testing.assert_close(two, one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("vectorised", [True, False])
def test_networks_give_the_same_whatever_trains_side_by_side(
    vectorised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3, 0]
    plan = _plan(
        users, rounds=3, sampler=PoissonSampler(4, 0.7), bound=TwoLevelBound(2.0, rows=0.8)
    )
    weights = []
    for chunk, cached in ((1, 1), (2, 150), (32, 2**23)):
        monkeypatch.setattr(clipping, "CACHED_NUMBERS", cached)  # rows at once: 1, 4, all
        run = replace(toy_run(), speed=Speed(chunk=chunk))
        weights.append(flat(train_federated(plan, NetworkLearner(12, vectorised), run).module))
    assert float(weights[0].norm()) > 0
    for other in weights[1:]:
        torch.testing.assert_close(other, weights[0], rtol=1e-5, atol=1e-6)


def test_a_row_that_is_not_finite_counts_as_nothing_and_the_user_s_others_stay() -> None:
    points = np.array([[np.nan, 0], [np.inf, 0], [0.2, 0], [0, 3e38]])
    run, learner = toy_run(), ToyLearner(points, [0, 0, 0, 1])
    moved = flat(train_federated(_plan([0, 0, 0, 1]), learner, run).module)
    assert moved.tolist() == pytest.approx([0.2, 0.0], abs=1e-5)
    assert run.diagnostics["dropped_rows"] == 3
    assert "dropped_rows" in run.diagnostics["simulation_only"]


def test_the_noise_is_relative_to_the_user_s_bound() -> None:
    learner = ToyLearner(np.zeros((2, 20_000)), [0, 1])
    plan = _plan([0, 1], bound=TwoLevelBound(0.5, rows=0.1), noise=IndependentGaussian(3.0))
    trained = train_federated(plan, learner, toy_run())
    assert float(flat(trained.module).std()) == pytest.approx(1.5, rel=0.03)
    (rounds,) = trained.rounds
    assert rounds == Repeated(
        count=1, event=PoissonSampled(rate=1.0, event=Gaussian(noise_multiplier=3.0))
    )


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("two-level.*: rows", {"bound": TwoLevelBound(float("inf"), rows=0.3)}),
        ("two-level.*: rows", {"bound": TwoLevelBound(1.0, rows=1.5)}),
        ("two-level.*: rows", {"bound": TwoLevelBound(1.0, rows=0.0)}),
        ("two-level.*: rows", {"bound": TwoLevelBound(1.0, rows=float("nan"))}),
        ("epochs", {"local": LocalTraining(epochs=2)}),
        ("batch_size", {"local": LocalTraining(batch_size=1)}),
        ("optimizer", {"local": LocalTraining(optimizer="adam")}),
        ("unit_weights", {"unit_weights": np.array([0.5, 1.0])}),
        ("row_weights", {"row_weights": lambda rng: np.ones(3)}),
        ("rows_per_unit", {"rows_per_unit": 1}),
    ],
)
def test_what_the_analysis_excludes_is_refused(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(PrivacyError, match=field):
        _moved(np.ones((3, 2)), [0, 0, 1], **changes)


class _CountsRows(Linear):
    """Keeps a statistic of its inputs, as batch normalisation does."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        self.mean.add_(points.reshape(-1, points.shape[-1]).mean(0))  # type: ignore[operator]
        return super().forward(points)


def test_statistics_of_the_batch_are_refused() -> None:
    learner = ToyLearner(np.ones((3, 4)), [0, 0, 1], vectorised=False)
    learner.module = _CountsRows(4)
    with pytest.raises(PrivacyError, match="'mean'"):
        train_federated(_plan([0, 0, 1]), learner, toy_run())


def test_every_row_draws_its_own_dropout() -> None:
    drawn: list[np.ndarray] = []

    class Seeded(ToyLearner):
        def batch(self, rows: Any, seeds: Any) -> Any:
            drawn.append(seeds)
            return super().batch(rows, seeds)

    users = [0, 0, 0, 1, 1, 2]
    learner = Seeded(np.arange(12.0).reshape(6, 2), users)
    train_federated(_plan(users, rounds=4), learner, toy_run())
    seeds = np.concatenate(drawn)
    assert len(seeds) == 4 * 6
    assert len(np.unique(seeds)) == len(seeds)
