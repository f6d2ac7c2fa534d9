"""Numbers too small to be normal are zeros where a recurrence computes, and nowhere else."""

from __future__ import annotations

import sys

import pytest
import torch

from uedp_bench.models.networks import denormals
from uedp_bench.models.networks.recurrence import recurrence
from uedp_bench.models.networks.recurrence_tables import CellWeights

LEAST = sys.float_info.min


@pytest.fixture(autouse=True)
def _can() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot take them for zeros")


def test_they_are_zeros_within_and_count_before_and_after() -> None:
    assert LEAST / 4.0 > 0.0
    with denormals.as_zeros():
        assert LEAST / 4.0 == 0.0
        with denormals.as_zeros():
            pass
        assert denormals.are_zeros()
    assert LEAST / 4.0 > 0.0
    with pytest.raises(KeyError), denormals.as_zeros():
        raise KeyError
    assert not denormals.are_zeros()


def test_gradients_that_vanish_are_zeros_and_the_thread_is_left_as_it_was() -> None:
    """Closed gates make gradients of early inputs denormal; those of late ones are as ever."""
    units, steps = 3, 40
    draw = torch.Generator().manual_seed(1)

    def table(*shape: int) -> torch.Tensor:
        return (0.1 * torch.randn(*shape, generator=draw)).requires_grad_()

    bias = torch.zeros(4 * units)
    bias[:units] = -3.0  # gates that forget
    weights = CellWeights(table(4 * units, 2), table(4 * units, units), bias, None)
    inputs = table(5, steps, 2)
    state = torch.zeros(5, units), torch.zeros(5, units)
    outputs, _ = recurrence(inputs, state, weights, None, coupled=False)
    assert not denormals.are_zeros()
    (found,) = torch.autograd.grad(1e-3 * outputs[:, -1].sum(), [inputs])
    assert not denormals.are_zeros()
    sizes = found.abs()
    assert (sizes[sizes > 0] >= torch.finfo(torch.float32).tiny).all()
    assert (sizes[:, 0] == 0).all()
    assert (sizes[:, -5:] > 0).all()
