"""Rows of different lengths side by side: what is computed is what padded rows give."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from recurrences import KINDS, draw
from torch import Tensor

from uedp_bench.models.fast import recurrence_tables
from uedp_bench.models.fast.recurrence import by_steps, recurrence
from uedp_bench.models.fast.recurrence_tables import CellWeights, packing

STEPS = 5
LENGTHS = torch.tensor([2, STEPS, 1])


@pytest.fixture
def small_layers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence_tables, "LARGE", 0)


def gradients(
    function: Any, coupled: bool, tensors: list[Tensor | None], ends: Tensor, **options: Any
) -> list[Tensor]:
    """Of a number that depends on all outputs that count, after that number."""
    leaves = [
        t if t is None or i == 3 else t.clone().requires_grad_() for i, t in enumerate(tensors)
    ]
    inputs, recurrent, cells, mask, *weights = leaves
    outputs, _ = function(
        inputs, (recurrent, cells), CellWeights(*weights), mask, coupled=coupled, **options
    )
    counts = torch.arange(STEPS) < ends[:, None]
    value = (outputs.sin() * counts[:, :, None]).sum()
    wanted = [t for i, t in enumerate(leaves) if t is not None and i != 3]
    return [value.detach(), *torch.autograd.grad(value, wanted)]


@pytest.mark.usefixtures("small_layers_too")
@pytest.mark.parametrize(("coupled", "projection", "masked"), KINDS)
@pytest.mark.parametrize("lengths", [LENGTHS, torch.tensor([1, 1, 1]), torch.tensor([0, 3, 2])])
def test_values_and_gradients_are_those_of_padded_rows(
    coupled: bool, projection: int | None, masked: bool, lengths: Tensor
) -> None:
    tensors, _ = draw(coupled, projection, masked, steps=STEPS)
    assert tensors[0] is not None
    assert tensors[5] is not None
    assert packing(lengths, tensors[0].transpose(0, 1), tensors[5]) is not None
    packed = gradients(recurrence, coupled, tensors, lengths, lengths=lengths)
    for ours, theirs in zip(packed, gradients(by_steps, coupled, tensors, lengths), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("small_layers_too")
def test_what_stands_in_the_padding_changes_no_bit() -> None:
    tensors, coupled = draw(True, 3, True, steps=STEPS)
    first = gradients(recurrence, coupled, tensors, LENGTHS, lengths=LENGTHS)
    assert tensors[0] is not None
    for row, length in enumerate(LENGTHS):
        tensors[0][row, length:] = torch.nan
    second = gradients(recurrence, coupled, tensors, LENGTHS, lengths=LENGTHS)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


@pytest.mark.usefixtures("small_layers_too")
@pytest.mark.parametrize("shared", [True, False])
def test_users_side_by_side_compute_all_steps(shared: bool) -> None:
    tensors, coupled = draw(False, None, True, steps=STEPS, units=3)
    if shared:
        tensors[4:] = [None if t is None else t[0] for t in tensors[4:]]
    slots = [i for i, t in enumerate(tensors) if t is not None]
    ends = torch.stack([LENGTHS, LENGTHS.flip(0), torch.tensor([5, 1, 2])])
    counts = torch.arange(STEPS) < ends[:, :, None]

    def value(lengths: Tensor, counts: Tensor, *present: Tensor) -> Tensor:
        filled = iter(present)
        inputs, recurrent, cells, mask, *weights = (
            None if t is None else next(filled) for t in tensors
        )
        outputs, _ = recurrence(
            inputs, (recurrent, cells), CellWeights(*weights), mask,
            coupled=coupled, lengths=lengths,
        )  # fmt: skip
        return (outputs.sin() * counts[:, :, None]).sum()

    present = [t for t in tensors if t is not None]
    dims = (0, 0, *(None if shared and i >= 4 else 0 for i in slots))
    of = tuple(2 + n for n, i in enumerate(slots) if i != 3)
    unit_gradients = torch.func.vmap(torch.func.grad(value, argnums=of), in_dims=dims)(
        ends, counts, *present
    )
    for unit in range(3):
        alone = [t if t is None or (shared and i >= 4) else t[unit] for i, t in enumerate(tensors)]
        expected = gradients(by_steps, coupled, alone, ends[unit])[1:]
        for ours, theirs in zip(unit_gradients, expected, strict=True):
            torch.testing.assert_close(ours[unit], theirs)


@pytest.mark.usefixtures("small_layers_too")
def test_a_last_state_that_means_nothing_has_no_gradient() -> None:
    tensors, coupled = draw(True, None, False, steps=STEPS)
    inputs, recurrent, cells, mask, *weights = tensors
    assert cells is not None
    _, (_, last) = recurrence(
        inputs, (recurrent, cells.requires_grad_()), CellWeights(*weights), mask,
        coupled=coupled, lengths=LENGTHS,
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=r"last.*gradient"):
        last.sum().backward()


def test_small_layers_full_rows_and_unknown_lengths_are_not_packed() -> None:
    large, inputs = torch.empty(1024, 1024), torch.empty(STEPS, 3, 2)
    assert packing(LENGTHS, inputs, large) is not None
    assert packing(LENGTHS, inputs, large[:512]) is None
    assert packing(None, inputs, large) is None
    assert packing(torch.full((3,), STEPS), inputs, large) is None
    assert packing(torch.zeros(3, dtype=torch.int64), inputs, large) is None
    assert packing(LENGTHS, inputs[None], large) is None


@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.integers(0, 2))
def test_words_go_into_the_packing_and_back(lengths: list[int], more: int) -> None:
    steps = max(lengths) + more
    table = torch.arange(1.0, steps * len(lengths) + 1).view(steps, len(lengths), 1)
    ends = torch.tensor(lengths)
    inside = (torch.arange(steps)[:, None] < ends)[:, :, None]
    packed = packing(ends, table, torch.empty(1024, 1024))
    if packed is None:
        assert sum(lengths) == 0 or sum(lengths) > 0.8 * steps * len(lengths)
        return
    words = packed.pack(table)
    assert len(words) == sum(lengths)
    assert torch.equal(packed.unpack(words), table * inside)
    assert [len(step) for step in packed.steps(words)] == [
        sum(length > t for length in lengths) for t in range(max(lengths))
    ]
    first = torch.zeros(1, len(lengths), 1)
    before = packed.shifted(packed.in_order(first[0]), words)
    assert torch.equal(packed.unpack(before), torch.cat([first, table[:-1]]) * inside)
    rows = torch.arange(len(lengths)).double()[:, None]
    assert torch.equal(packed.of_rows(packed.in_order(rows)), rows * (ends > 0)[:, None])
    of_words = packed.unpack(packed.of_words(packed.in_order(rows)))
    assert torch.equal(of_words, rows.expand(steps, -1, -1) * inside)
