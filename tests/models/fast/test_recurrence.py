"""The recurrence written out is the one op by op: values, gradients, alone and side by side."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from recurrences import KINDS, draw
from torch import Tensor

from uedp_bench.models.fast.recurrence import by_steps, recurrence
from uedp_bench.models.fast.recurrence_tables import CellWeights


def loss(function: Any, coupled: bool, tensors: list[Tensor | None]) -> Tensor:
    """A number that every output has a share in."""
    inputs, recurrent, cells, mask, *weights = tensors
    outputs, (last, end) = function(
        inputs, (recurrent, cells), CellWeights(*weights), mask, coupled=coupled
    )
    return outputs.sin().sum() + (last * 2).cos().sum() + end.pow(2).sum()


def gradients(function: Any, coupled: bool, tensors: list[Tensor | None]) -> list[Tensor]:
    leaves = [
        t if t is None or i == 3 else t.clone().requires_grad_() for i, t in enumerate(tensors)
    ]
    value = loss(function, coupled, leaves)
    wanted = [t for i, t in enumerate(leaves) if t is not None and i != 3]
    return [value.detach(), *torch.autograd.grad(value, wanted)]


@pytest.mark.parametrize(("coupled", "projection", "masked"), KINDS)
@pytest.mark.parametrize("steps", [1, 5])
def test_values_and_gradients_are_those_op_by_op(
    coupled: bool, projection: int | None, masked: bool, steps: int
) -> None:
    tensors, _ = draw(coupled, projection, masked, steps=steps)
    for ours, theirs in zip(
        gradients(recurrence, coupled, tensors), gradients(by_steps, coupled, tensors), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("coupled", [True, False])
def test_gradients_are_those_of_differences(coupled: bool) -> None:
    tensors, _ = draw(coupled, 3, False, steps=3)
    inputs, recurrent, cells, _, *weights = (
        None if t is None else t.requires_grad_() for t in tensors
    )

    def run(inputs: Tensor, recurrent: Tensor, cells: Tensor, *weights: Tensor) -> Any:
        state = (recurrent, cells)
        outputs, last = recurrence(inputs, state, CellWeights(*weights), None, coupled=coupled)
        return outputs, *last

    assert torch.autograd.gradcheck(run, (inputs, recurrent, cells, *weights))


@pytest.mark.parametrize(("coupled", "projection", "masked"), KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_users_side_by_side_get_what_they_get_alone(
    coupled: bool, projection: int | None, masked: bool, shared: bool
) -> None:
    tensors, _ = draw(coupled, projection, masked, units=3)
    if shared:  # all start from the same weights
        tensors[4:] = [None if t is None else t[0] for t in tensors[4:]]
    wanted = tuple(i for i, t in enumerate(tensors) if t is not None and i != 3)

    def gradient(*present: Tensor) -> Any:
        filled = iter(present)
        return loss(recurrence, coupled, [None if t is None else next(filled) for t in tensors])

    present = [t for t in tensors if t is not None]
    slots = [i for i, t in enumerate(tensors) if t is not None]
    dims = tuple(None if shared and i >= 4 else 0 for i in slots)
    of = tuple(n for n, i in enumerate(slots) if i in wanted)
    unit_gradients = torch.func.vmap(torch.func.grad(gradient, argnums=of), in_dims=dims)(*present)
    for unit in range(3):
        alone = [t if t is None or (shared and i >= 4) else t[unit] for i, t in enumerate(tensors)]
        for ours, theirs in zip(
            unit_gradients, gradients(by_steps, coupled, alone)[1:], strict=True
        ):
            torch.testing.assert_close(ours[unit], theirs)


def test_a_row_that_is_not_finite_stays_alone() -> None:
    tensors, coupled = draw(True, 3, False)
    assert tensors[0] is not None
    tensors[0][1] = torch.nan
    inputs, recurrent, cells, mask, *weights = tensors
    outputs, _ = recurrence(
        inputs, (recurrent, cells), CellWeights(*weights), mask, coupled=coupled
    )
    assert torch.isfinite(outputs).flatten(1).all(dim=1).tolist() == [True, False, True]


def test_tensors_that_override_torch_override_the_recurrence() -> None:
    class Overriding(torch.Tensor):
        seen: ClassVar[list[Any]] = []

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is recurrence:
                cls.seen.append(kwargs)
                return "overridden"
            return super().__torch_function__(func, types, args, kwargs or {})

    tensors, coupled = draw(True, 3, False)
    inputs, recurrent, cells, mask, *weights = tensors
    weights[1] = weights[1].as_subclass(Overriding)  # type: ignore[union-attr]
    answer = recurrence(inputs, (recurrent, cells), CellWeights(*weights), mask, coupled=coupled)
    assert answer == "overridden"
    assert Overriding.seen == [{"coupled": True, "lengths": None}]
