"""Functions that move their weights by plain SGD while they compute gradients.

A step of SGD needs the gradient of a weight once, to subtract it. A function with its gradient
written out can do both in one product, on the weight in place: no gradient is written down, which
saves a pass over all weights and as much memory as they take.

Whoever steps computes the losses within `descending`, asks `in_place` if nothing else reads the
weights that are to be moved, and calls `backward` on the value: weights that were not moved have a
`grad` then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from uedp_bench.models import fast
from uedp_bench.models.fast.products import descend

_rate: ContextVar[float | None] = ContextVar("rate", default=None)


@contextmanager
def descending(rate: float) -> Iterator[None]:
    """Within it, functions that can, move their weights by `rate` times their gradients."""
    token = _rate.set(rate if fast.is_on() else None)
    try:
        yield
    finally:
        _rate.reset(token)


def current_rate() -> float | None:
    """The learning rate that weights are to be moved by; None where gradients are wanted."""
    return _rate.get()


def in_place(value: Tensor) -> bool:
    """True if each weight behind a value is moved by all of the functions that read it, or by none.

    A function that reads a weight after another has moved it would compute another gradient.
    """
    readers: dict[Any, set[bool]] = {}
    seen, ahead = set[Any](), [value.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if hasattr(following, "variable"):
                moves = getattr(node, "rate", None) is not None
                readers.setdefault(following, set()).add(moves)
            ahead.append(following)
    return all(len(kinds) == 1 for kinds in readers.values())


def sgd_moved(
    needed: bool, rate: float | None, weight: Tensor, gradients: Tensor, inputs: Tensor | None
) -> bool:
    """Move a weight by SGD if that is wanted; False if its gradient is.

    Args:
        needed: the weight is trained.
        rate: see `current_rate`.
        weight: (outputs, inputs), or of the shape of `gradients`.
        gradients: (rows, outputs) of what the function computed, or the gradient of the weight.
        inputs: (rows, inputs) that the gradient is the outer product with; None if it is given.
    """
    if not needed or rate is None:
        return False
    if inputs is None:
        weight.add_(gradients, alpha=-rate)
    else:
        descend(weight, gradients, inputs, rate)
    return True


def lookup(tokens: Tensor, weight: Tensor) -> Tensor:
    """(..., size) rows of a weight (vocabulary, size) by ids (...)."""
    if current_rate() is None:
        return nn.functional.embedding(tokens, weight)
    rows: Tensor = _Lookup.apply(tokens, weight, current_rate())  # type: ignore[no-untyped-call]
    return rows


class _Lookup(torch.autograd.Function):
    """An embedding that moves the rows that were read, and no others. No second derivative."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(tokens)
        # The weight is not read again: another function may have moved it by then.
        ctx.weight, ctx.rate = weight, rate
        return nn.functional.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[None, None, None]:
        (tokens,), weight = ctx.saved_tensors, ctx.weight
        if ctx.needs_input_grad[1]:
            rows = gradients[0].reshape(-1, weight.shape[1])
            weight.index_add_(0, tokens.reshape(-1), rows, alpha=-ctx.rate)
        return None, None, None
