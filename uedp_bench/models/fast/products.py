"""Matrix products in float32 on a CPU, and functions that move their weights by them.

torch multiplies float32 matrices with MKL, which does half as much as oneDNN on processors that are
not Intel's (`docs/performance.md`). torch brings oneDNN and calls it from one private operator: it
is tried once, and `torch.nn.functional.linear` takes its place where it is missing or wrong.

A step of SGD needs the gradient of a weight once, to subtract it. A function with its gradient
written out can do both in one product, on the weight in place: no gradient is written down, which
saves a pass over all weights and as much memory as they take.

Whoever steps computes the losses within `descending`, asks `in_place` if nothing else reads the
weights that are to be moved, and calls `backward` on the value: weights that were not moved have a
`grad` then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from uedp_bench.models import fast

LARGE = 2**20
"""Multiplications of a product from which on oneDNN is faster; below, its calls cost more."""

NARROW, SHORT = 2**6, 2**9
"""Columns of a factor and rows: a product of fewer of both earns no kernel, which takes half a
megabyte and longer to compile than a few such products to compute."""


@cache
def onednn_works() -> bool:
    """True where torch has the operator and it multiplies as it should."""
    try:
        x, weight = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3)
        exact = functional.linear(x, weight, weight[:, 0])
        return torch.equal(_onednn(x, weight, weight[:, 0].contiguous()), exact)
    except (RuntimeError, AttributeError, TypeError):
        return False


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    # Rows with a gap between them, as a slice of a wider table has, fall to oneDNN's reference
    # code, a thousand times as slow.
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()
    outputs: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return outputs


@cache
def strided_works() -> bool:
    """True where torch's own products go through oneDNN under its flag for bfloat16, in float32.

    The flag lets oneDNN round factors to bfloat16. On processors without tiles (AMX) it has no
    kernels that do, and multiplies in float32, whatever the strides of the factors are. That is
    measured here: factors in bfloat16 would be wrong in the third digit.
    """
    try:
        if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
            return False
        if torch.cpu._is_amx_tile_supported():
            return False
        draw = torch.Generator().manual_seed(1)
        x, y = (torch.randn(160, size, generator=draw) for size in (96, 128))
        exact = x.double().t() @ y.double()
        apart = (_strided(torch.mm, x.t(), y) - exact).abs().max()
        if float(apart) > 1e-5 * float(exact.abs().max()):
            return False
    except (RuntimeError, AttributeError, TypeError):
        return False
    return onednn_works()


def _strided(function: Callable[..., Tensor], *factors: Tensor, **options: Any) -> Tensor:
    """A product of torch by oneDNN."""
    flags: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = flags.fp32_precision
    flags.fp32_precision = "bf16"
    try:
        return function(*factors, **options)
    finally:
        flags.fp32_precision = before


def _pays(x: Tensor, columns: int) -> bool:
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() * columns >= LARGE
        and (min(x.shape[-1], columns) >= NARROW or x.numel() >= SHORT * x.shape[-1])
        and fast.is_on()
        and onednn_works()
    )


def _step(rows: int) -> int:
    """Step that numbers of rows are rounded up to, eight steps an octave.

    oneDNN compiles a kernel for each number of rows that it meets and keeps a thousand of them,
    more than half a megabyte each, and batches of text have ever new numbers of tokens.
    """
    return 1 if rows < 2**5 else 2 ** (rows.bit_length() - 4)


def _more_rows(rows: int) -> int:
    """Rows of zeros that make a number of rows a multiple of its step, at most an eighth more."""
    return -rows % _step(rows)


def more_rows(x: Tensor, columns: int) -> int:
    """Rows of zeros that products of x with so many columns add to it; 0 where they need none."""
    return _more_rows(len(x)) if _pays(x, columns) else 0


def padded(x: Tensor, more: int) -> Tensor:
    """X and so many rows of zeros; `functional.pad` writes zeros where x goes, too."""
    return torch.cat([x, x.new_zeros(more, x.shape[1])]) if more else x


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X (rows, inputs) times the transpose of weight (outputs, inputs), plus a bias (outputs,).

    It has no gradient of its own: see `FasterProducts`.
    """
    if not _pays(x, len(weight)):
        return functional.linear(x, weight, bias)
    more, rest = _more_rows(len(x)), len(x) % _step(len(x))
    if not more:
        return _onednn(x, weight, bias)
    # The narrower of the two tables is copied, and one with gaps in any case.
    if len(weight) >= x.shape[1] or not x.is_contiguous():
        return _onednn(padded(x, more), weight, bias)[: len(x)]
    parts = x[:-rest], padded(x[-rest:], more)
    first, last = (_onednn(part, weight, bias) for part in parts)
    return torch.cat([first, last[:rest]])


def outer(gradients: Tensor, inputs: Tensor) -> Tensor:
    """(outputs, inputs) sum over rows of the outer products of gradients and inputs.

    Where oneDNN would have to turn both tables first, MKL is the faster library: processors with
    tiles are Intel's, and there it does twice as much.
    """
    if not (_pays(gradients, inputs.shape[1]) and strided_works()):
        return gradients.t() @ inputs
    more = _more_rows(len(gradients))
    gradients, inputs = padded(gradients, more), padded(inputs, more)
    return _strided(torch.mm, gradients.t(), inputs)


def descend(weight: Tensor, gradients: Tensor, inputs: Tensor, rate: float) -> None:
    """Subtracts `rate` times `outer(gradients, inputs)` from a weight (outputs, inputs)."""
    if not (_pays(gradients, inputs.shape[1]) and strided_works()):
        weight.addmm_(gradients.t(), inputs, alpha=-rate)
        return
    more = _more_rows(len(gradients))
    gradients, inputs = padded(gradients, more), padded(inputs, more)
    _strided(weight.addmm_, gradients.t(), inputs, alpha=-rate)


def transformed() -> bool:
    """True under the transforms of `torch.func`, and where torch does not tell."""
    tells = getattr(torch._C, "_are_functorch_transforms_active", None)
    return tells is None or bool(tells())


class _Linear(torch.autograd.Function):
    """`torch.nn.functional.linear` of matrices by `product`, forward and backward.

    A weight that is `turned` is (inputs, outputs), and so is its gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, turned: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.turned = turned
        return product(x, weight.t() if turned else weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0]
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        factors = (x, gradient) if ctx.turned else (gradient, x)
        return (
            product(gradient, weight if ctx.turned else weight.t()) if needs_x else None,
            outer(*factors) if needs_weight else None,
            gradient.sum(dim=0) if needs_bias else None,
            None,
        )


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not _pays(x, len(weight)):
        return functional.linear(x, weight, bias)
    flat = x.reshape(-1, x.shape[-1])
    outputs: Tensor = _Linear.apply(flat, weight, bias, False)  # type: ignore[no-untyped-call]
    return outputs.view(*x.shape[:-1], -1)


def _addmm(bias: Tensor, x: Tensor, weight: Tensor, **options: Any) -> Tensor:
    if options or bias.dim() != 1 or not _pays(x, weight.shape[-1]):
        return torch.addmm(bias, x, weight, **options)
    outputs: Tensor = _Linear.apply(x, weight, bias, True)  # type: ignore[no-untyped-call]
    return outputs


class FasterProducts(TorchFunctionMode):
    """Within it, large products of inputs and weights are computed as `product` does.

    That reaches networks that are not ours. Under the transforms of `torch.func`, and for tensors
    that override torch's functions, it changes nothing. Products have no second derivative then.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace two functions, and call all others."""
        replaced = _REPLACED.get(func)
        plain = replaced is not None and all(kind in (Tensor, nn.Parameter) for kind in types)
        if replaced is not None and plain and not transformed():
            func = replaced
        return func(*args, **(kwargs or {}))


_REPLACED = {functional.linear: _linear, torch.addmm: _addmm}


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
                readers.setdefault(following, set()).add(getattr(node, "rate", None) is not None)
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
