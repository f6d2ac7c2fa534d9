"""Random-update canaries: what is put in, where, and what is left alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import ToyLearner, toy_plan, toy_run

from uedp_bench.training.bounds import FlatBound, Unbounded
from uedp_bench.training.clipping import clipped_sum
from uedp_bench.training.federated import train_federated
from uedp_bench.training.vector import direction, inject

SIZE = 4000


def _trained(injected: tuple[int, ...], clip: float | None, rows: int = 1, rounds: int = 1):
    users = np.repeat(np.arange(6), rows)
    learner = ToyLearner(np.zeros((len(users), SIZE)), users.tolist())
    run = replace(toy_run(), injected=injected)
    plan = toy_plan(users, Unbounded() if clip is None else FlatBound(clip), rounds=rounds)
    return train_federated(plan, learner, run).module.weight.detach(), run


def test_directions_are_unit_vectors_that_only_seed_and_user_decide():
    run = toy_run(seed=3)
    vector = direction(run, 7, SIZE)
    assert torch.equal(vector, direction(toy_run(seed=3), 7, SIZE))
    assert float(vector.norm()) == pytest.approx(1.0, rel=1e-6)
    others = [direction(run, 8, SIZE), direction(toy_run(seed=4), 7, SIZE)]
    assert all(abs(float(vector @ other)) < 6 / math.sqrt(SIZE) for other in others)


def test_the_release_shows_injected_users_at_the_clip_bound_and_nobody_else():
    weights, run = _trained((1, 4), clip=0.5, rows=3)
    dots = [float(weights.double() @ direction(run, user, SIZE)) for user in range(6)]
    for user, dot in enumerate(dots):
        assert dot == pytest.approx(0.5 * (user in (1, 4)), abs=0.5 * 5 / math.sqrt(SIZE))
    assert run.diagnostics["injected_updates"] == 2
    assert float(weights.norm()) == pytest.approx(0.5 * math.sqrt(2), rel=0.1)


def test_clipping_leaves_a_canary_as_it_is():
    run = replace(toy_run(), injected=(0,))
    put = inject(torch.zeros(1, SIZE), np.array([0]), 0.3, run)
    total, norms = clipped_sum(put, 0.3, torch.ones(1))
    assert float(norms[0]) <= 0.3
    assert float(total.norm()) == pytest.approx(0.3, rel=1e-5)


def test_every_round_counts_and_unclipped_updates_are_left_alone():
    _, run = _trained((2,), clip=1.0, rounds=3)
    assert run.diagnostics["injected_updates"] == 3
    weights, run = _trained((2,), clip=None)
    assert not weights.any()
    assert "injected_updates" not in run.diagnostics
