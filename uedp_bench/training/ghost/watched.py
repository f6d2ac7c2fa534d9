"""Weights that see how a network uses them.

A network is run with its trainable weights replaced by tensors that intercept every torch function
they are an argument of. What is known (`operations`) is computed without a graph to the weight, and
leaves the two factors of each row's gradient on a tape. Anything else ends the attempt by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from uedp_bench.training.ghost.gradients import UnknownUse, WeightGradients


class Tape:
    """Gradients of every weight in one forward and backward pass.

    Args:
        rows: number of rows of the batch; whatever a weight meets has them, or a multiple, as its
            first dimension.
        like: a tensor of the device and type of the weights.

    Attributes:
        anchor: a number that every known use depends on, so that its backward pass runs even where
            its input needs no gradient.
        gradients: gradients by the name of the weight.
    """

    def __init__(self, rows: int, like: Tensor) -> None:
        self.rows = rows
        self.anchor = torch.zeros((), dtype=like.dtype, device=like.device, requires_grad=True)
        self.gradients: dict[str, WeightGradients] = {}

    def gradients_of(self, weight: WatchedWeight) -> WeightGradients:
        """Gradients of a weight, to which its uses add."""
        return self.gradients[weight.label]


Handler = Callable[..., Any]
HANDLERS: dict[Any, Handler] = {}
"""By torch function: computes it where an argument is a `WatchedWeight` (`operations`)."""

FACTS = frozenset(
    (
        "size", "dim", "numel", "nelement", "stride", "is_floating_point", "is_complex",
        "is_contiguous", "element_size", "get_device", "type", "__len__", "__hash__", "__repr__",
        "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor",
        "zeros_like", "ones_like", "empty_like", "full_like",
    )
)  # fmt: skip
"""Functions that say what a weight looks like: no gradient flows through them."""

PROPERTIES = frozenset(
    getattr(torch.Tensor, name).__get__
    for name in (
        "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "grad", "layout",
        "is_cuda", "is_sparse", "is_quantized", "is_meta", "is_nested", "grad_fn",
    )
)  # fmt: skip


class WatchedWeight(Tensor):
    """A trainable weight during one pass, or its transpose.

    Attributes:
        tape: tape that records its uses.
        label: name of the weight.
        turned: True if this is the transpose of the (two-dimensional) weight.
    """

    tape: Tape
    label: str
    turned: bool

    @staticmethod
    def watch(value: Tensor, tape: Tape, name: str, *, turned: bool = False) -> WatchedWeight:
        """Watch a plain tensor, sharing its numbers."""
        weight = value.detach().as_subclass(WatchedWeight)
        weight.tape, weight.label, weight.turned = tape, name, turned
        if name not in tape.gradients:
            tape.gradients[name] = WeightGradients(tuple(value.shape))
        return weight

    @property
    def plain(self) -> Tensor:
        """Plain tensor of the same numbers."""
        with torch._C.DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor)

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute known operations; see the module.

        Raises:
            UnknownUse: naming the weight and the function.
        """
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        if name in FACTS or func in PROPERTIES:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise unknown((*args, *(kwargs or {}).values()), name)


def unknown(arguments: Iterable[Any], operation: str) -> UnknownUse:
    """Error that names the first watched weight among the arguments, and the operation."""
    watched = [a for a in _leaves(arguments) if isinstance(a, WatchedWeight)]
    name = watched[0].label if watched else "a weight"
    return UnknownUse(f"{name} in {operation}")


def _leaves(arguments: Iterable[Any]) -> Iterable[Any]:
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            yield from _leaves(argument)
        else:
            yield argument
