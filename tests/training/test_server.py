"""The server's steps against torch, against their closed form, and against the paper's loop."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from uedp_bench.training.server import AdagradServer, AdamServer, LambServer, SgdServer, YogiServer

ROUNDS = 7
ALL = [SgdServer(0.3, 0.9), AdamServer(0.3), YogiServer(0.3), AdagradServer(0.3, tau=0.1)]
ALL += [AdamServer(0.3, weight_decay=0.2), LambServer(0.3)]
IDS = ["sgd", "adam", "yogi", "adagrad", "adamw", "lamb"]


def _estimates() -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(6, generator=generator) for _ in range(ROUNDS)]


def _walk(server: Any, estimates: list[Tensor]) -> Tensor:
    theta = torch.ones(6)
    if isinstance(server, LambServer):
        server.lay_out([2, 4])
    for step, estimate in enumerate(estimates):
        theta = server.step(theta, estimate, step, len(estimates))
    return theta


def _torch(make: Any) -> Tensor:
    theta = torch.ones(6, requires_grad=True)
    optimizer = make([theta])
    for estimate in _estimates():
        theta.grad = -estimate  # an estimate is a move, a gradient its opposite
        optimizer.step()
    return theta.detach()


@pytest.mark.parametrize(
    ("server", "optimizer"),
    [
        (SgdServer(0.3, 0.9), lambda p: torch.optim.SGD(p, 0.3, momentum=0.9)),
        (AdamServer(0.3), lambda p: torch.optim.Adam(p, 0.3)),
        (AdamServer(0.3, weight_decay=0.2), lambda p: torch.optim.AdamW(p, 0.3, weight_decay=0.2)),
        (AdamServer(0.3, tau=0.5), lambda p: torch.optim.Adam(p, 0.3, eps=0.5)),
        (
            AdagradServer(0.3, tau=0.1),
            lambda p: torch.optim.Adagrad(p, 0.3, initial_accumulator_value=0.1**2, eps=0.1),
        ),
    ],
    ids=["sgd", "adam", "adamw", "adam tau", "adagrad"],
)
def test_a_step_is_that_of_torch(server: Any, optimizer: Any) -> None:
    torch.testing.assert_close(_walk(server, _estimates()), _torch(optimizer))


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lamb_is_algorithm_2_of_the_paper(decay: float) -> None:
    """In float64, a layer at a time: the trust ratio is that of its own weights and step."""
    estimates, rate, layers = _estimates(), 0.3, (slice(0, 2), slice(2, 6))
    weights = _walk(LambServer(rate, weight_decay=decay, tau=1e-6), estimates)
    theta = torch.ones(6, dtype=torch.float64)
    first = second = torch.zeros(6, dtype=torch.float64)
    for t, estimate in enumerate(estimates, start=1):
        gradient = -estimate.double()
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        r = (first / (1 - 0.9**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-6)
        for layer in layers:
            step = r[layer] + decay * theta[layer]
            theta[layer] -= rate * theta[layer].norm() / step.norm() * step
    torch.testing.assert_close(weights.double(), theta, rtol=1e-5, atol=1e-6)


def test_lamb_moves_a_layer_of_zeros_and_leaves_one_without_a_step() -> None:
    server = LambServer(0.5, weight_decay=0.0)
    server.lay_out([2, 2])
    moved = server.step(torch.tensor([0.0, 0.0, 1.0, 2.0]), torch.tensor([3.0, -3.0, 0, 0]), 0, 1)
    torch.testing.assert_close(moved, torch.tensor([0.5, -0.5, 1.0, 2.0]))


def test_lamb_wants_to_know_the_layers() -> None:
    with pytest.raises(RuntimeError, match="lay_out"):
        LambServer().step(torch.ones(3), torch.ones(3), 0, 1)


def test_yogi_of_a_constant_estimate_has_a_closed_form() -> None:
    tau, delta, rate = 0.01, 2.0, 0.5
    weights = _walk(YogiServer(rate, tau=tau), [torch.full((6,), delta)] * 3)
    expected = 1.0
    for t in (1, 2, 3):  # v starts below delta^2 and climbs by 0.01 delta^2 a round
        v = tau**2 + t * 0.01 * delta**2
        expected += rate * (1 - 0.9**t) * delta / (v**0.5 + tau)
    torch.testing.assert_close(weights, torch.full((6,), expected))


def test_yogi_s_second_moment_comes_down_by_a_part_of_the_estimate_not_of_itself() -> None:
    server = YogiServer(1.0, tau=3.0)
    server.step(torch.zeros(1), torch.ones(1), 0, 2)
    assert server._second is not None
    assert float(server._second) == pytest.approx(9.0 - 0.01 * 1.0)
    server.step(torch.zeros(1), torch.full((1,), 4.0), 1, 2)
    assert float(server._second) == pytest.approx(8.99 + 0.01 * 16.0)


class _Large(TorchDispatchMode):
    """Counts tensors of at least so many numbers that are made anew, and are no views."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self._numbers, self.count = numbers, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outcome = func(*args, **(kwargs or {}))
        new = all(returned.alias_info is None for returned in func._schema.returns)
        if new and isinstance(outcome, Tensor) and outcome.numel() >= self._numbers:
            self.count += 1
        return outcome


@pytest.mark.parametrize("server", ALL, ids=IDS)
def test_a_step_takes_the_memory_of_one_vector_and_blocks_change_no_bit(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, blocks = copy.deepcopy(server), copy.deepcopy(server)
    if isinstance(server, LambServer):  # lengths of layers are one number, whatever the blocks
        whole.lay_out([20, 80, 3])
        blocks.lay_out([20, 80, 3])
    generator = torch.Generator().manual_seed(3)
    theta = other = torch.randn(103, generator=generator)
    for step in range(3):
        estimate = torch.randn(103, generator=generator)
        theta = whole.step(theta, estimate, step, 3)
        with monkeypatch.context() as patch, _Large(30) as seen:
            patch.setattr("uedp_bench.training.server.weights_at_once", lambda device: 10)
            other = blocks.step(other, estimate, step, 3)
        assert torch.equal(theta, other)
        assert seen.count == 1 or step == 0  # the first step makes its moments


@pytest.mark.parametrize("kind", [SgdServer, AdamServer, YogiServer, AdagradServer])
def test_a_linear_schedule_scales_the_step_of_its_round(kind: Any) -> None:
    plain, linear = kind(0.4), kind(0.4, schedule="linear")
    zero, estimate = torch.zeros(4), torch.arange(4.0)
    for step in range(4):
        left = 1.0 - step / 4
        a, b = plain.step(zero, estimate, step, 4), linear.step(zero, estimate, step, 4)
        torch.testing.assert_close(b, left * a)
