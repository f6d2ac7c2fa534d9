"""Ordinary training: AdamW on shuffled rows of the training split, and no guarantee."""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of

from uedp_bench.errors import InputError
from uedp_bench.mechanisms.noiseless import Noiseless


def test_one_step_is_adamw_on_the_mean_loss_a_target() -> None:
    learner = NetworkLearner(6)
    mechanism = Noiseless.create(
        {"epochs": 1, "batch_size": 6, "learning_rate": 0.02, "weight_decay": 0.1}
    )
    module, _ = mechanism.train(learner, learner.corpus, run_of(learner))
    by_hand = copy.deepcopy(learner.module)
    optimizer = torch.optim.AdamW(by_hand.parameters(), lr=0.02, weight_decay=0.1)
    torch.autograd.backward(((by_hand(learner.points) - learner.goals) ** 2).mean())
    optimizer.step()
    torch.testing.assert_close(flat(module), flat(by_hand), rtol=1e-5, atol=1e-6)


def test_plain_sgd_is_that_of_torch() -> None:
    learner = NetworkLearner(6)
    mechanism = Noiseless.create(
        {"epochs": 3, "batch_size": 6, "learning_rate": 0.02, "optimizer": "sgd", "momentum": 0.9}
    )
    module, _ = mechanism.train(learner, learner.corpus, run_of(learner))
    by_hand = copy.deepcopy(learner.module)
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.02, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        torch.autograd.backward(((by_hand(learner.points) - learner.goals) ** 2).mean())
        optimizer.step()
    torch.testing.assert_close(flat(module), flat(by_hand), rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match=r"momentum is 0\.5.*'adamw'"):
        Noiseless.create({"momentum": 0.5})
    assert "optimizer" not in Noiseless.create({}).params.model_dump()


def test_every_epoch_sees_each_training_row_once_and_no_other() -> None:
    learner = NetworkLearner(9, held_out=2)
    before = flat(learner.module).clone()
    mechanism = Noiseless.create({"epochs": 3, "batch_size": 4, "keep": "last"})
    run = run_of(learner)
    mechanism.train(learner, learner.corpus, run)
    epochs = [learner.seen[7 * i : 7 * i + 7] for i in range(3)]
    assert [sorted(rows) for rows in epochs] == [list(range(7))] * 3
    assert epochs[0] != epochs[1]
    assert torch.equal(flat(learner.module), before)  # a copy was trained
    losses = [value for _, value in run.series["train_loss"]]
    assert losses[2] < losses[0]


def test_by_user_one_user_comes_after_another_in_an_order_of_every_epoch() -> None:
    learner = NetworkLearner(40, held_out=4)
    users = np.arange(40) % 6
    learner.corpus.groups["user"][:] = users
    params = {"epochs": 4, "batch_size": 5, "order": "by-user", "keep": "last"}
    Noiseless.create(params).train(learner, learner.corpus, run_of(learner))
    epochs = [learner.seen[36 * i : 36 * i + 36] for i in range(4)]
    orders = set()
    for rows in epochs:
        assert sorted(rows) == list(range(36))
        order = [int(users[rows[0]])]
        order += [int(users[b]) for a, b in pairwise(rows) if users[a] != users[b]]
        assert sorted(order) == list(range(6))  # nobody comes twice
        orders.add(tuple(order))
    assert len(orders) > 1
    assert any(epochs[0][i] > epochs[0][i + 1] for i in range(5))  # a user's rows are shuffled


def test_by_user_needs_users() -> None:
    learner = NetworkLearner(6)
    learner.corpus.groups["user"][2] = -1
    with pytest.raises(InputError, match=r"row.*user"):
        Noiseless.create({"order": "by-user"}).train(learner, learner.corpus, run_of(learner))
    assert "order" not in Noiseless.create({}).params.model_dump()


def held_out_loss(module: torch.nn.Module, learner: NetworkLearner) -> float:
    rows = np.flatnonzero(learner.corpus.where("valid"))
    losses = learner.losses(module, learner.batch(rows, rows))
    return float(losses.nats.detach().sum() / losses.targets.sum())


def test_the_epoch_with_the_least_valid_loss_is_kept() -> None:
    learner = NetworkLearner(24, held_out=8)
    params = {"epochs": 30, "batch_size": 4, "learning_rate": 0.1}
    run = run_of(learner)
    module, _ = Noiseless.create(params).train(learner, learner.corpus, run)
    losses = [value for _, value in run.series["valid_loss"]]
    best = run.diagnostics["best_epoch"]
    assert best == 1 + losses.index(min(losses)) < 30, "it learns its rows by heart"
    assert held_out_loss(module, learner) == pytest.approx(min(losses), rel=1e-6)
    assert not module.training
    last, _ = Noiseless.create({**params, "keep": "last"}).train(
        learner, learner.corpus, run_of(learner)
    )
    assert held_out_loss(last, learner) > min(losses)


def test_the_best_of_several_learning_rates_is_kept() -> None:
    learner = NetworkLearner(24, held_out=8)
    learner.goals = 3.0 * learner.points[:, :2]  # something to learn
    factors = [1e-6, 1.0, 1e3]
    params = {"epochs": 4, "batch_size": 4, "learning_rate": 0.05}
    run = run_of(learner)
    mechanism = Noiseless.create({**params, "learning_rate_factors": factors})
    module, _ = mechanism.train(learner, learner.corpus, run)
    tried = {
        factor: [value for _, value in run.series[f"valid_loss_at_{0.05 * factor:g}"]]
        for factor in factors
    }
    assert {len(losses) for losses in tried.values()} == {4}
    assert run.diagnostics["best_learning_rate"] == 0.05
    assert held_out_loss(module, learner) == pytest.approx(min(map(min, tried.values())), rel=1e-6)
    assert run.counts["rows_train"] == 3 * 4 * 16
    # Each starts from the same weights: the first one hardly moves them.
    assert tried[1e-6][-1] == pytest.approx(held_out_loss(learner.module, learner), rel=1e-3)
    alone = run_of(learner)
    Noiseless.create({**params, "learning_rate_factors": [1.0, 1e-6]}).train(
        learner, learner.corpus, alone
    )
    first = [value for _, value in alone.series["valid_loss_at_0.05"]]
    single = run_of(learner)
    Noiseless.create(params).train(learner, learner.corpus, single)
    assert first == [value for _, value in single.series["valid_loss"]]


def test_a_learning_rate_that_diverges_loses() -> None:
    learner = NetworkLearner(24, held_out=8)
    run = run_of(learner)
    params = {"epochs": 4, "batch_size": 4, "learning_rate": 0.01, "optimizer": "sgd"}
    for factors in ([1.0, 1e30], [1e30, 1.0]):
        run = run_of(learner)
        mechanism = Noiseless.create({**params, "learning_rate_factors": factors})
        module, _ = mechanism.train(learner, learner.corpus, run)
        assert run.diagnostics["best_learning_rate"] == 0.01
        assert math.isfinite(held_out_loss(module, learner))
    with pytest.raises(InputError, match=r"loss.*learning_rate"):
        Noiseless.create({**params, "learning_rate_factors": [1e25, 1e30]}).train(
            learner, learner.corpus, run_of(learner)
        )


def test_learning_rates_are_compared_on_valid_rows_alone() -> None:
    learner = NetworkLearner(6)
    with pytest.raises(InputError, match=r"2 learning rates.*split 'valid'"):
        Noiseless.create({"learning_rate_factors": [0.1, 1.0]}).train(
            learner, learner.corpus, run_of(learner)
        )
    with pytest.raises(InputError, match=r"keep.*'last'.*learning_rate_factors"):
        Noiseless.create({"learning_rate_factors": [0.1, 1.0], "keep": "last"})
    for factors in ([], [0.0], [-1.0, 1.0]):
        with pytest.raises(InputError, match="learning_rate_factors"):
            Noiseless.create({"learning_rate_factors": factors})
    assert not {"keep", "learning_rate_factors"} & set(Noiseless.create({}).params.model_dump())


def test_divergence_is_one_line() -> None:
    learner = NetworkLearner(4)
    learner.goals[0] = float("inf")
    with pytest.raises(InputError, match="lower learning_rate"):
        Noiseless.create({"epochs": 1}).train(learner, learner.corpus, run_of(learner))
