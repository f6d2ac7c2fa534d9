"""Whatever computes a round, it adds what a plain loop over units adds, on every model.

The loop is written here in torch alone: the loss of a unit's rows, its gradient, clipped, added.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache

import hashed_cnn  # noqa: F401  # registers convolutions on vectors of a frozen encoder
import numpy as np
import pytest
import text_encoders  # noqa: F401  # registers a frozen encoder
import torch
from model_learners import MODELS, ROWS, USERS, learner_of_model
from torch import Tensor
from toy import cohort_of

from uedp_bench.contracts.learner import Learner
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

RATE, WEIGHTS = 0.5, (1.0, 0.25, 0.7, 1.0, 0.4)
SEEDS = np.arange(100, 100 + len(ROWS))
EVEN = [[1.0] * len(rows) for rows in USERS]
UNEVEN = [[1.0 / (1 + at) for at in range(len(rows))] for rows in USERS]


@cache
def _learner(name: str) -> Learner:
    learner = learner_of_model(name)
    learner.module.train()
    return learner


def _gradient(learner: Learner, rows: Sequence[int], weights: Sequence[float]) -> Tensor:
    """The gradient of the mean loss of rows over their targets, by autograd, in float64."""
    trained = [weight for weight in learner.module.parameters() if weight.requires_grad]
    losses = learner.losses(learner.module, learner.batch(np.array(rows), SEEDS[list(rows)]))
    share = torch.tensor(weights) / (torch.tensor(weights) * losses.targets).sum()
    gradients = torch.autograd.grad((share * losses.nats).sum(), trained, allow_unused=True)
    parts = [
        torch.zeros_like(w) if g is None else g for w, g in zip(trained, gradients, strict=True)
    ]
    return torch.cat([part.reshape(-1) for part in parts]).double()


def _layers(learner: Learner) -> list[int]:
    """Numbers of trained weights of each module that has some of its own, in their order."""
    sizes: dict[str, int] = {}
    for name, weight in learner.module.named_parameters():
        if weight.requires_grad:
            module = name.rpartition(".")[0]
            sizes[module] = sizes.get(module, 0) + weight.numel()
    return list(sizes.values())


def _clipped(vector: Tensor, bound: float) -> Tensor:
    return vector * min(1.0, bound / max(float(vector.norm()), 1e-30))


class _PlainLoop:
    """What each unit adds, from gradients that are computed once."""

    def __init__(self, learner: Learner) -> None:
        self._layers = _layers(learner)
        self._units = [_gradient(learner, *pair) for pair in zip(USERS, UNEVEN, strict=True)]
        self._rows = [_gradient(learner, [row], [1.0]) for row in range(len(ROWS))]

    def adds(self, unit: int, limits: Limits) -> Tensor:
        update = -RATE * self._units[unit]
        if limits.rows is not None:
            moves = [_clipped(-RATE * self._rows[row], limits.rows) for row in USERS[unit]]
            update = torch.stack(moves).sum(dim=0)
        if limits.layers:
            pieces = zip(update.split(self._layers), limits.layers, strict=True)
            return WEIGHTS[unit] * torch.cat([_clipped(part, bound) for part, bound in pieces])
        return WEIGHTS[unit] * _clipped(update, limits.total)


def _cohort(weights: Sequence[Sequence[float]]) -> Cohort:
    cohort = cohort_of(USERS, np.concatenate(weights))
    return cohort._replace(seeds=SEEDS[cohort.rows][None])


def _worker(learner: Learner) -> ShareWorker:
    local = LocalTraining(learning_rate=RATE)
    return ShareWorker(WorkerSetup(learner, local, "cpu", seed=1, injected=(), most=4))


@pytest.mark.parametrize("name", list(MODELS))
def test_each_unit_adds_what_a_plain_loop_adds(name: str) -> None:
    learner = _learner(name)
    worker = _worker(learner)
    plain, layers = _PlainLoop(learner), tuple(np.linspace(0.01, 0.3, len(_layers(learner))))
    forms = {
        "users": (UNEVEN, Limits(0.4)),
        "two levels": (EVEN, Limits(0.3, rows=0.2)),
        "layers": (UNEVEN, Limits(float(np.linalg.norm(layers)), layers=layers)),
        "unclipped": (UNEVEN, Limits(float("inf"))),
    }
    for form, (weights, limits) in forms.items():
        expected = [plain.adds(unit, limits) for unit in range(len(USERS))]
        work, cohort = RoundWork(worker.trainer.flat.vector.clone(), limits), _cohort(weights)
        whole = worker.unit_sum(work, Share(cohort, np.array(WEIGHTS)))
        assert set(whole.clipping) == {ONE_PASS}, whole.clipping
        _agree(whole.total, torch.stack(expected).sum(dim=0), f"{name}, {form}")
        for unit in (1, 3) if form != "unclipped" else ():
            one = Share(cohort.take(np.array([unit])), np.array(WEIGHTS[unit : unit + 1]))
            total = worker.unit_sum(work, one).total
            _agree(total, expected[unit], f"{name}, {form}, user {unit}")
            assert float(total.double().norm()) <= WEIGHTS[unit] * limits.total


STEPS = {
    "sgd": LocalTraining(epochs=2, batch_size=2, learning_rate=0.2),
    "momentum": LocalTraining(epochs=2, batch_size=2, learning_rate=0.1, momentum=0.6),
    "adam": LocalTraining(epochs=2, batch_size=2, learning_rate=0.01, optimizer="adam"),
}


def _trained(learner: Learner, local: LocalTraining, cohort: Cohort, unit: int) -> Tensor:
    """What torch's optimisers make of a unit's rows, batch by batch in the order of the keys."""
    module = copy.deepcopy(learner.module)
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    before = torch.cat([weight.detach().reshape(-1) for weight in trained])
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[local.optimizer]
    options = {"momentum": local.momentum} if local.momentum else {}
    optimizer = kind(trained, lr=local.learning_rate, **options)
    assert cohort.keys is not None
    real_rows = np.flatnonzero(cohort.weights[unit] > 0)
    for keys, seeds in zip(cohort.keys, cohort.seeds_of_rows, strict=True):
        order = real_rows[np.argsort(keys[unit, real_rows])]
        for batch in (order[at : at + 2] for at in range(0, len(order), 2)):
            rows, weights = cohort.rows[unit, batch], torch.tensor(cohort.weights[unit, batch])
            losses = learner.losses(module, learner.batch(rows, seeds[unit, batch]))
            optimizer.zero_grad()
            mean = (weights * losses.nats).sum() / (weights * losses.targets).sum()
            torch.autograd.backward(mean)
            optimizer.step()
    return torch.cat([weight.detach().reshape(-1) for weight in trained]) - before


@pytest.mark.parametrize("name", list(MODELS))
def test_local_steps_are_those_of_torchs_optimisers(name: str) -> None:
    learner = _learner(name)
    rng = np.random.default_rng(3)
    units = (0, 2, 4)  # of one row to three
    for optimiser in ("momentum",) if "bert" in name or "gpt2" in name else STEPS:
        local = STEPS[optimiser]
        cohort = _cohort(UNEVEN).drawn(local.epochs, local.batch_size, rng, rng)
        worker = ShareWorker(WorkerSetup(learner, local, "cpu", seed=1, injected=(), most=4))
        work = RoundWork(worker.trainer.flat.vector.clone(), Limits(float("inf")))
        share = Share(cohort.take(np.array(units)), np.ones(len(units)))
        whole = worker.unit_sum(work, share).total
        expected = [_trained(learner, local, cohort, unit) for unit in units]
        _agree(whole, torch.stack(expected).sum(dim=0).double(), f"{name}, {optimiser}")


def _agree(update: Tensor, expected: Tensor, what: str) -> None:
    size = float(expected.norm())
    assert size > 0, what
    assert float((update.double() - expected).norm()) <= 2e-3 * size, what
