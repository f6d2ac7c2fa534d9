"""DP-SGD against a loop over rows and against Opacus; its batches, noise and epsilon."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners import NetworkLearner, flat, run_of, sizes
from torch import nn
from toy import ToyLearner

from uedp_bench.accounting.ledger import check_plan, claimed, proven
from uedp_bench.contracts.run_context import Run
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD

ALL = {"batch_size": 8, "steps": 1, "noise_multiplier": 0.0, "optimizer": "sgd"}


def trained(learner: Any, run: Run | None = None, **params: Any) -> torch.Tensor:
    module, _ = DPSGD.create(params).train(learner, learner.corpus, run or run_of(learner))
    return flat(module)


def clipped_gradients(module: nn.Module, learner: NetworkLearner, clip: float) -> list[Any]:
    """The clipped gradient of each record, by one backward pass a record."""
    gradients = []
    for i in range(len(learner.points)):
        module.zero_grad()
        error = (module(learner.points[i]) - learner.goals[i]) ** 2
        torch.autograd.backward(error.mean())
        gradient = torch.cat([p.grad.reshape(-1) for p in module.parameters()])  # type: ignore[union-attr]
        gradients.append(gradient * min(1.0, clip / float(gradient.norm())))
    return gradients


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("clip", [0.5, 5.0, 1e6])
def test_one_step_is_the_sum_of_clipped_gradients(clip: float, vectorised: bool) -> None:
    learner = NetworkLearner(8, vectorised)
    weights = trained(learner, **ALL, clip=clip, learning_rate=0.3)
    gradients = clipped_gradients(copy.deepcopy(learner.module), learner, clip)
    by_hand = flat(learner.module) - 0.3 * torch.stack(gradients).sum(dim=0) / 8
    torch.testing.assert_close(weights, by_hand, rtol=1e-4, atol=1e-5)


def test_several_steps_are_adam_on_the_clipped_mean() -> None:
    learner = NetworkLearner(8)
    by_hand = copy.deepcopy(learner.module)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=0.05)
    for _ in range(3):
        mean = torch.stack(clipped_gradients(by_hand, learner, 0.7)).sum(dim=0) / 8
        at = 0
        for parameter in by_hand.parameters():
            parameter.grad = mean[at : at + parameter.numel()].view_as(parameter).clone()
            at += parameter.numel()
        optimizer.step()
    params = ALL | {"optimizer": "adam", "steps": 3}
    weights = trained(learner, **params, clip=0.7, learning_rate=0.05)
    torch.testing.assert_close(weights, flat(by_hand), rtol=1e-3, atol=1e-4)


def test_clipping_is_that_of_opacus() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer

        learner = NetworkLearner(8)
        module = GradSampleModule(copy.deepcopy(learner.module), loss_reduction="sum")
        optimizer = DPOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.3), noise_multiplier=0.0, max_grad_norm=2.0,
            expected_batch_size=8, loss_reduction="mean",
        )  # fmt: skip
        error = (module(learner.points) - learner.goals) ** 2
        torch.autograd.backward(error.mean(dim=1).sum())
        optimizer.step()
    weights = trained(learner, **ALL, clip=2.0, learning_rate=0.3)
    torch.testing.assert_close(weights, flat(module), rtol=1e-4, atol=1e-5)


def test_a_record_s_contribution_does_not_depend_on_the_batch() -> None:
    learner, first = NetworkLearner(8), NetworkLearner(8, held_out=5)
    params = ALL | {"records": 8, "clip": 0.5, "learning_rate": 1.0}
    whole = trained(learner, **params) - flat(learner.module)
    run = Run(0, sizes(rows=8))
    part = trained(first, run, **params) - flat(first.module)
    gradients = clipped_gradients(copy.deepcopy(learner.module), learner, 0.5)
    torch.testing.assert_close(
        whole - part, -torch.stack(gradients[3:]).sum(dim=0) / 8, rtol=1e-4, atol=1e-6
    )


def test_batches_are_poisson() -> None:
    learner = ToyLearner(np.zeros((60, 2)), [0] * 60)
    run = run_of(learner)
    trained(learner, run, batch_size=15, steps=400)
    drawn = np.array([value for _, value in run.series["units"]])
    rate, steps = 15 / 60, len(drawn)
    assert abs(drawn.mean() - 15) < 4 * math.sqrt(60 * rate * (1 - rate) / steps)
    expected = 60 * rate * (1 - rate)
    assert abs(drawn.var(ddof=1) / expected - 1) < 4 * math.sqrt(2 / steps)


def test_an_empty_batch_still_steps() -> None:
    learner = ToyLearner(np.ones((4, 5_000)), [0, 1, 2, 3])
    run = run_of(learner)
    params = ALL | {"batch_size": 1, "records": 10**9, "noise_multiplier": 2.0}
    weights = trained(learner, run, **params, clip=0.5, learning_rate=0.1)
    assert run.diagnostics["empty_rounds"] == 1
    assert float(weights.std()) == pytest.approx(0.1 * 2.0 * 0.5 / 1, rel=0.06)


@pytest.mark.parametrize(
    ("batch", "records", "noise", "steps", "epsilon"),
    [(100, 10_000, 1.0, 1_000, 1.828244), (100, 10_000, 0.7, 500, 3.596940)],
)
def test_proven_epsilons_of_known_vectors(
    batch: int, records: int, noise: float, steps: int, epsilon: float
) -> None:
    mechanism = DPSGD.create({"batch_size": batch, "noise_multiplier": noise, "steps": steps})
    stats = sizes(rows=records)
    (proof,) = proven(mechanism.plan(stats), delta=1e-5)
    assert proof.epsilon == pytest.approx(epsilon, abs=1e-6)
    (claim,) = claimed(mechanism.claims(stats), 1e-5)
    assert (claim.unit, proof.unit) == ("record", "record")
    assert claim.epsilon > proof.epsilon  # the accountant of the paper is looser


@settings(max_examples=20, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "batch_size": st.integers(1, 8),
            "steps": st.integers(1, 3),
            "noise_multiplier": st.floats(0, 9),
            "clip": st.floats(1e-3, 1e3),
            "optimizer": st.sampled_from(["sgd", "adam"]),
            "records": st.none() | st.integers(8, 99),
        }
    )
)
def test_what_happens_is_what_was_planned(params: dict[str, Any]) -> None:
    learner = ToyLearner(np.ones((8, 2)), [0, 0, 1, 1, 2, 2, 3, 3])
    mechanism, run = DPSGD.create(params), run_of(learner)
    _, events = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), events)


def test_a_private_number_of_records_refuses() -> None:
    assert DPSGD.create({}).refusals(sizes(public=True)) == ()
    assert DPSGD.create({"records": 5_000}).refusals(sizes(public=False)) == ()
    (reason,) = DPSGD.create({}).refusals(sizes(rows=777, public=False))
    assert "mechanism.dp-sgd.records=N" in reason


def test_a_batch_cannot_expect_more_records_than_there_are() -> None:
    with pytest.raises(InputError, match=r"dp-sgd\.batch_size.*9.*8"):
        trained(NetworkLearner(8), batch_size=9)
