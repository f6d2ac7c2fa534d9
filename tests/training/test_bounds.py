"""Bounds: one unit's whole influence on a round, the noise on sum and count, what a bound sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat
from torch import Tensor
from toy import ToyLearner, toy_plan, toy_run

from uedp_bench.accounting.events import Gaussian, PoissonSampled, Repeated
from uedp_bench.contracts.run_context import Speed
from uedp_bench.errors import PrivacyError
from uedp_bench.training.bounds import (
    AdaptiveBound,
    Bound,
    Count,
    FlatBound,
    Limits,
    NetworkLayer,
    PerLayerBound,
    Seen,
)
from uedp_bench.training.clipping import layered_sum
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation, Trained
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import PoissonSampler, TakingPart
from uedp_bench.training.server import SgdServer

ROUNDING = 3e-6
ADAPTIVE = AdaptiveBound(total=0.4, quantile=0.5, expected=4.0, rate=0.3, count_noise=1.5)


def _plan(users: Sequence[int], bound: Bound, **changes: Any) -> Federation:
    return toy_plan(users, bound, **{"noise": IndependentGaussian(1.0), **changes})


@dataclass
class Recorder:
    """A noise that adds what it is told to, and keeps what it is given in a list of the test's."""

    vectors: list[tuple[Tensor, float]]
    answer: float | None = None
    multiplier: float = 1.0

    def __deepcopy__(self, memo: Any) -> Recorder:
        return self

    def add(
        self, vector: Tensor, sensitivity: float, step: int, rng: np.random.Generator
    ) -> Tensor:
        self.vectors.append((vector.clone().double(), sensitivity))
        return vector if self.answer is None else torch.full_like(vector, self.answer + step)

    def events(self, samplers: Sequence[Any]) -> tuple[Repeated, ...]:
        return ()


def _vector(learner: ToyLearner, users: Sequence[int], bound: Bound) -> tuple[Tensor, float]:
    """What one round hands to the noise, and how far one unit may move it."""
    vectors: list[tuple[Tensor, float]] = []
    train_federated(_plan(users, bound, noise=Recorder(vectors)), learner, toy_run())
    return vectors[0]


WORST = [1e-3, 0.39, 0.41, 1.0, 1e6, 1e25, math.inf, math.nan]


@pytest.mark.parametrize("size", WORST)
@pytest.mark.parametrize(
    "bound", [ADAPTIVE, PerLayerBound(0.4), FlatBound(0.4)], ids=lambda b: type(b).__name__
)
def test_one_unit_moves_what_the_noise_hides_by_at_most_what_the_noise_is_scaled_to(
    size: float, bound: Bound
) -> None:
    learners = []
    for rows in (8, 6):
        learner = NetworkLearner(8)
        learner.goals[6:] *= size  # user 3 sends whatever hurts most
        learner.points[6:] *= min(size, 1e10)
        learner.corpus = learner.corpus.take(np.arange(rows))
        learners.append(learner)
    users = [0, 0, 1, 1, 2, 2, 3, 3]
    (present, sensitivity), (gone, same) = (
        _vector(learner, users[:rows], bound)
        for learner, rows in zip(learners, (8, 6), strict=True)
    )
    assert sensitivity == same
    assert torch.isfinite(present).all()
    change = float((present - gone).norm())
    assert change <= sensitivity * (1 + ROUNDING)
    if size == 1e6:  # attained: a looser clip, or a count that nobody pays for, would be seen
        least = 0.999 if not isinstance(bound, PerLayerBound) else 0.5
        assert change > least * sensitivity


def test_every_layer_keeps_its_own_bound_and_the_whole_the_root_of_their_squares() -> None:
    rng = np.random.default_rng(4)
    sizes, bounds = (3, 5, 2), (0.3, 1e-3, 2.0)
    updates = torch.as_tensor(rng.normal(size=(6, 10)) * 100, dtype=torch.float32)
    updates[4, 7] = float("nan")
    updates[5] *= 1e-6
    for i in range(6):
        total, norms, over = layered_sum(updates[i : i + 1], sizes, bounds, torch.ones(1))
        parts = [float(part.double().norm()) for part in torch.split(total, sizes)]
        if i == 4:
            assert not total.any()
            assert torch.isinf(norms).all()
            continue
        for part, bound in zip(parts, bounds, strict=True):
            assert part <= bound
        assert bool(over[0]) == (i != 5)
        assert parts == pytest.approx(bounds if i != 5 else parts, rel=1e-5)
    both, _, _ = layered_sum(updates[:2], sizes, bounds, torch.tensor([1.0, 0.25]))
    first, _, _ = layered_sum(updates[:1], sizes, bounds, torch.ones(1))
    second, _, _ = layered_sum(updates[1:2], sizes, bounds, torch.ones(1))
    torch.testing.assert_close(both, first + 0.25 * second)


def test_layers_are_modules_and_shares_are_of_the_square() -> None:
    learner = NetworkLearner(4)
    seen: list[tuple[str, int]] = []

    class Looks(FlatBound):
        def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
            seen.extend((layer.name, layer.size) for layer in layers)
            return super().limits(step, layers)

    train_federated(_plan([0, 1, 2, 3], Looks(1.0)), learner, toy_run())
    assert seen == [("0", 25), ("2", 12)]
    layers = [NetworkLayer("0", 25), NetworkLayer("2", 12)]
    limits = PerLayerBound(2.0, shares=(1.0, 3.0)).limits(0, layers)
    assert limits.layers == pytest.approx((1.0, math.sqrt(3.0)))
    with pytest.raises(PrivacyError, match=r"3 .* 2 layers: 0, 2"):
        PerLayerBound(2.0, shares=(1.0, 3.0, 1.0)).limits(0, layers)


@dataclass
class Counting:
    """A fixed bound that asks for a count and remembers what it saw."""

    seen: list[Seen] = field(default_factory=list)
    count: Count = Count(below=0.5, noise=1.5)  # noqa: RUF009 - frozen

    def __deepcopy__(self, memo: Any) -> Counting:
        return self

    def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
        return Limits(0.7, count=self.count)

    def learn(self, step: int, seen: Seen) -> None:
        self.seen.append(seen)


def test_noise_on_sum_and_count_is_that_of_theorem_1() -> None:
    bound, z, rounds = Counting(), 1.2, 1500
    plan = _plan([0, 1], bound, rounds=rounds, sampler=PoissonSampler(2, 0.0),
                 noise=IndependentGaussian(z))  # fmt: skip
    trained = train_federated(plan, ToyLearner(np.zeros((2, 20)), [0, 1]), toy_run())
    sums = torch.stack([seen.total for seen in bound.seen]).double()
    counts = np.array([seen.count for seen in bound.seen])
    sum_noise = 1.0 / math.sqrt(z**-2 - (2 * 1.5) ** -2)  # equation of the theorem
    assert float(sums.std()) == pytest.approx(0.7 * sum_noise, rel=0.02)
    assert counts.std() == pytest.approx(1.5, rel=0.08)
    assert abs(counts.mean()) < 4 * 1.5 / math.sqrt(rounds)
    assert np.abs(np.corrcoef(np.column_stack([sums.numpy(), counts]).T)[-1, :-1]).max() < 0.12
    round_ = PoissonSampled(rate=0.0, event=Gaussian(noise_multiplier=z))
    assert trained.rounds == (Repeated(count=rounds, event=round_),)


def test_the_count_is_of_units_no_longer_than_asked_and_none_is_half_in() -> None:
    points = np.array([[0.2, 0], [0, 0.5], [0.6, 0], [np.nan, 0]])
    vectors: list[tuple[Tensor, float]] = []
    bound, run = Counting(), toy_run()
    plan = _plan([0, 1, 2, 3], bound, noise=Recorder(vectors))
    train_federated(plan, ToyLearner(points, [0, 1, 2, 3]), run)
    # Two are short, one is long, and one that is no number counts as long: 2/2 - 2/2.
    assert bound.seen[0].count == pytest.approx(0.0, abs=1e-12)
    assert run.diagnostics["dropped_updates"] == 1
    assert bound.seen[0].total.tolist() == pytest.approx([0.8, 0.5], abs=1e-5)
    bound.seen.clear()
    plan = _plan([0, 1], bound, noise=Recorder(vectors))
    train_federated(plan, ToyLearner(points[:2], [0, 1]), toy_run())
    assert bound.seen[0].count == pytest.approx(1.0)


def test_an_adaptive_bound_finds_the_quantile() -> None:
    norms = np.linspace(0.1, 2.0, 20)
    points = np.column_stack([norms, np.zeros(20)])
    bounds = {}
    for quantile in (0.25, 0.75):
        bound = AdaptiveBound(5.0, quantile, expected=20.0, rate=0.2, count_noise=1.0)
        run = toy_run()
        plan = _plan(list(range(20)), bound, rounds=150, server=SgdServer(1e-9),
                     noise=IndependentGaussian(0.5))  # fmt: skip
        train_federated(plan, ToyLearner(points, list(range(20))), run)
        bounds[quantile] = np.mean([value for _, value in run.series["clip_bound"][100:]])
        assert "series.clip_bound" not in run.diagnostics["simulation_only"]
        assert bound.total == 5.0  # a training works on a copy
    assert bounds[0.25] == pytest.approx(np.quantile(norms, 0.25), abs=0.12)
    assert bounds[0.75] == pytest.approx(np.quantile(norms, 0.75), abs=0.12)


@pytest.mark.parametrize("bound", [ADAPTIVE, PerLayerBound(0.4)], ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("vectorised", [True, False])
def test_how_many_train_side_by_side_changes_nothing(bound: Bound, vectorised: bool) -> None:
    users = [0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3, 0]
    local = LocalTraining(epochs=2, batch_size=2, learning_rate=0.3)
    plan = _plan(users, bound, rounds=4, local=local, sampler=PoissonSampler(4, 0.7))
    trainings = []
    for chunk in (1, 2, 32):
        run = replace(toy_run(), speed=Speed(chunk=chunk))
        module = train_federated(plan, NetworkLearner(12, vectorised), run).module
        trainings.append((flat(module), run.series.get("clip_bound")))
    for weights, bounds in trainings[1:]:
        torch.testing.assert_close(weights, trainings[0][0], rtol=1e-4, atol=1e-5)
        assert bounds == trainings[0][1]  # counts are whole numbers, and their noise is the same


def test_a_user_that_is_no_number_is_dropped_alone_and_counted() -> None:
    users = [0, 0, 1, 2, 3]
    for bound in (ADAPTIVE, PerLayerBound(0.4)):
        broken, run = NetworkLearner(5), toy_run()
        broken.points[2] = float("nan")
        vector, _ = _vector(broken, users, bound)
        assert torch.isfinite(vector).all()
        others = NetworkLearner(5)
        others.corpus = others.corpus.take(np.array([0, 1, 3, 4]))
        others.points, others.goals = others.points[[0, 1, 3, 4]], others.goals[[0, 1, 3, 4]]
        alone, _ = _vector(others, [0, 0, 1, 2], bound)
        size = sum(layer.size for layer in [NetworkLayer("0", 25), NetworkLayer("2", 12)])
        torch.testing.assert_close(vector[:size], alone[:size], rtol=1e-5, atol=1e-6)
        train_federated(_plan(users, bound), broken, run)
        assert run.diagnostics["dropped_updates"] == 1


def test_a_bound_sees_noisy_numbers_alone() -> None:
    assert {each.name for each in fields(Seen)} == {"total", "count"}
    histories: list[Any] = []
    # Noise that covers all of the data: whatever they are, the bound must do the same.
    for points in (np.zeros((4, 3)), 100 * np.ones((4, 3)), np.full((4, 3), np.nan)):
        bound, run = Counting(), toy_run()
        users = [0, 1, 2, 3]
        hidden = Recorder([], answer=0.25)
        train_federated(_plan(users, bound, rounds=3, noise=hidden), ToyLearner(points, users), run)
        again = toy_run()
        plan = _plan(users, ADAPTIVE, rounds=3, noise=hidden)
        train_federated(plan, ToyLearner(points, users), again)
        counts = [(seen.total.tolist(), seen.count) for seen in bound.seen]
        histories.append((counts, again.series["clip_bound"]))
    assert histories[0] == histories[1] == histories[2]
    assert len({value for _, value in histories[0][1]}) == 3


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(0.0), r"clip bound.* 0\.0"),
        (Limits(math.nan), "clip bound.* nan"),
        (Limits(1.0, layers=(1.0,)), r"layers are \(1\.0.* 2 "),
        (Limits(1.0, layers=(1.0, math.nan)), r"layers are \(1\.0.* 2 "),
        (Limits(1.0, layers=(0.8, 0.7)), r"layers.*1\.06.*total 1"),
        (Limits(1.0, count=Count(1.0, 0.5)), r"0\.5 .*noise multiplier 1"),
        (Limits(1.0, count=Count(0.0, 5.0)), "count below 0"),
        (Limits(math.inf, count=Count(1.0, 5.0)), "clip bound inf"),
        (Limits(1.0, layers=(0.6, 0.6), rows=0.1), "layers.*two-level|two-level.*layers"),
    ],
)
def test_limits_that_nothing_can_be_proven_of_are_refused(limits: Limits, message: str) -> None:
    class Says(FlatBound):
        def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
            return limits

    with pytest.raises(PrivacyError, match=message):
        train_federated(_plan([0, 1, 2, 3], Says(1.0)), NetworkLearner(4), toy_run())


def test_a_round_that_bounds_nothing_makes_all_of_it_unprotected() -> None:
    class Sometimes(FlatBound):
        def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
            return Limits(math.inf if step == 1 else 1.0)

    plan = _plan([0, 1], Sometimes(1.0), rounds=3)
    trained: Trained = train_federated(plan, ToyLearner(np.ones((2, 2)), [0, 1]), toy_run())
    assert [event.kind for event in trained.rounds] == ["non-private"]


class Oftener:
    """Doubles its rate after the first round, and tells it."""

    rate = 0.4

    def draw(self, rng: np.random.Generator) -> TakingPart:
        drawn = PoissonSampler(2, self.rate).draw(rng)
        self.rate = 0.8
        return drawn

    def event(self, gaussian: Gaussian) -> PoissonSampled:
        return PoissonSampler(2, 0.4).event(gaussian)


def test_rounds_that_differ_are_told_apart() -> None:
    plan = _plan([0, 1], FlatBound(1.0), rounds=3, sampler=Oftener())
    trained = train_federated(plan, ToyLearner(np.ones((2, 2)), [0, 1]), toy_run())
    noise = Gaussian(noise_multiplier=1.0)
    assert trained.rounds == tuple(
        Repeated(count=count, event=PoissonSampled(rate=rate, event=noise))
        for count, rate in ((1, 0.4), (2, 0.8))
    )
