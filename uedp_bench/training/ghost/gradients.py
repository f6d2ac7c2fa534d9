"""Gradients of weights by row, kept as the factors of products, and weights that record them.

A row's gradient is a sum of up to three terms: a matrix product over its tokens (`left^T right`),
rows that a lookup touched (an embedding), and one that is given as it is (a bias). Only the last is
as large as the weight.

A network is run with its trainable weights replaced by tensors that intercept every torch function
they are an argument of. What is known (`operations`) is computed without a graph to the weight, and
leaves the two factors of each row's gradient on a tape. Anything else ends the attempt by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from uedp_bench.models.fast.products import LARGE, outer
from uedp_bench.training.clipping import exact_norms


class UnknownUse(Exception):  # noqa: N818 - what a network does is no error
    """A weight is used in a way that this package cannot take apart by row."""


class Product(NamedTuple):
    """`left` (rows, tokens, p) and `right` (rows, tokens, q): the gradient is left^T right.

    The weight has p times q numbers in this order, in whatever shape (a kernel has three).
    """

    left: Tensor
    right: Tensor


class Lookup(NamedTuple):
    """`values` (rows, tokens, q) are added to the rows `ids` (rows, tokens) of the weight."""

    ids: Tensor
    values: Tensor


@dataclass
class WeightGradients:
    """Gradients of one weight after a backward pass; uses of one weight add up.

    Attributes:
        shape: shape of the weight.
        products, lookups: one for each use; they become one along their tokens (`merged`).
        whole: (rows, *shape) sum of gradients that are written out.
        summed: (rows,) where `whole` is a sum over rows of a unit: the sum of their norms.
        reached: (rows,) where `whole` was made of products or lookups: their reach (`norms.reach`),
            which bounds on norms depend on.
    """

    shape: tuple[int, ...]
    products: list[Product] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    whole: Tensor | None = None
    summed: Tensor | None = None
    reached: Tensor | None = None

    def add_whole(self, gradients: Tensor) -> None:
        """Add gradients (rows, *shape)."""
        self.whole = gradients if self.whole is None else self.whole + gradients

    def merged(self) -> WeightGradients:
        """Merge uses into at most one product and one lookup."""
        products, lookups = self.products, self.lookups
        if len(products) > 1:
            lefts, rights = zip(*products, strict=True)
            products = [Product(torch.cat(lefts, dim=1), torch.cat(rights, dim=1))]
        if len(lookups) > 1:
            ids, values = zip(*lookups, strict=True)
            lookups = [Lookup(torch.cat(ids, dim=1), torch.cat(values, dim=1))]
        return WeightGradients(self.shape, products, lookups, self.whole)

    def tensors(self) -> list[Tensor]:
        """Tensors (rows, ...) that are not finite where a row's gradient is not."""
        tensors = [tensor for product in self.products for tensor in product]
        tensors += [lookup.values for lookup in self.lookups]
        return tensors if self.whole is None else [*tensors, self.whole]

    def scaled(self, factors: Tensor) -> WeightGradients:
        """The gradients times (rows,) factors, one a row."""
        products = [_scaled(product, factors) for product in self.products]
        lookups = [Lookup(ids, values * factors[:, None, None]) for ids, values in self.lookups]
        whole = self.whole
        if whole is not None:
            whole = whole * factors.view(-1, *(1,) * len(self.shape))
        reached = None if self.reached is None else self.reached * factors.abs()
        return replace(self, products=products, lookups=lookups, whole=whole, reached=reached)

    def without(self, bad: Tensor) -> WeightGradients:
        """The gradients, those of the rows that `bad` (rows,) names made 0 whatever they were."""
        products, lookups = self.products, self.lookups
        return replace(
            self,
            products=[Product(silent(left, bad), silent(right, bad)) for left, right in products],
            lookups=[Lookup(ids, silent(values, bad)) for ids, values in lookups],
            whole=None if self.whole is None else silent(self.whole, bad),
            reached=None if self.reached is None else silent(self.reached, bad),
        )

    def units(self, start: int, units: int, rows: int) -> WeightGradients:
        """Gradients of `units` units of `rows` rows each from row `start` on, each as one row."""
        part = slice(start, start + units * rows)

        def joined(tensor: Tensor) -> Tensor:
            return tensor[part].reshape(units, rows * tensor.shape[1], *tensor.shape[2:])

        whole = None if self.whole is None else self.whole[part]
        summed = None
        if whole is not None and rows > 1:
            summed = exact_norms(whole.flatten(1)).view(units, rows).sum(dim=1)
            whole = whole.view(units, rows, *self.shape).sum(dim=1, dtype=torch.float64)
        reached = self.reached
        if reached is not None:
            reached = reached[part].view(units, rows).sum(dim=1)
        return replace(
            self,
            products=[Product(joined(left), joined(right)) for left, right in self.products],
            lookups=[Lookup(joined(ids), joined(values)) for ids, values in self.lookups],
            whole=whole,
            summed=summed,
            reached=reached,
        )

    def some(self, chosen: Tensor | slice) -> WeightGradients:
        """Gradients of some rows."""
        return replace(
            self,
            products=[Product(left[chosen], right[chosen]) for left, right in self.products],
            lookups=[Lookup(ids[chosen], values[chosen]) for ids, values in self.lookups],
            whole=None if self.whole is None else self.whole[chosen],
            summed=None if self.summed is None else self.summed[chosen],
            reached=None if self.reached is None else self.reached[chosen],
        )

    def each(self) -> Tensor:
        """(rows, *shape) gradients, written out."""
        gradients = self.whole
        for left, right in self.products:
            product = _outers(left, right).view(len(left), *self.shape)
            gradients = product if gradients is None else product + gradients
        for ids, values in self.lookups:
            rows, (size, width) = len(ids), self.shape
            if gradients is None:
                gradients = values.new_zeros((rows, size, width))
            elif gradients is self.whole:
                gradients = gradients.clone()
            slots = torch.arange(rows, device=ids.device)[:, None] * size + ids
            gradients.view(-1, width).index_add_(
                0, slots.reshape(-1), values.reshape(-1, width).to(gradients.dtype)
            )
        if gradients is None:
            raise RuntimeError("nothing was used: a weight without gradients has no place here")
        return gradients

    def add_to(self, total: Tensor, factors: Tensor, *, exact: bool = False) -> None:
        """Add all rows, each times its factor: one product in all.

        Args:
            total: (*shape) sum to add to.
            factors: (rows,) factors of the rows.
            exact: True to add written-out gradients in float64. Where rows of a unit cancel,
                they may be far longer than the bound on their sum, and in float32 they would round
                away what other units add.
        """
        if self.whole is not None:
            wide = torch.float64 if exact else self.whole.dtype
            added = factors.to(wide) @ self.whole.flatten(1).to(wide)
            total += added.view(self.shape).to(factors.dtype)
        for product in self.products:
            left, right = _scaled(product, factors)
            if left.transpose(0, 1).is_contiguous():  # time came first: no copy then
                left, right = left.transpose(0, 1), right.transpose(0, 1)
            added = outer(left.reshape(-1, left.shape[2]), right.reshape(-1, right.shape[2]))
            total += added.view(self.shape)
        for ids, values in self.lookups:
            scaled = values * factors[:, None, None]
            total.index_add_(0, ids.reshape(-1), scaled.reshape(-1, values.shape[2]))


def silent(tensor: Tensor, bad: Tensor) -> Tensor:
    """The tensor (rows, ...), whatever stands in the rows that `bad` (rows,) names made 0.

    No factor does that: 0 times infinity is not a number.
    """
    return tensor.masked_fill(bad.view(-1, *(1,) * (tensor.dim() - 1)), 0.0)


def _scaled(product: Product, factors: Tensor) -> Product:
    """Multiply rows by factors (rows,), in a copy of the narrower of the two tensors."""
    left, right = product
    if left.shape[2] < right.shape[2]:
        return Product(left * factors[:, None, None], right)
    return Product(left, right * factors[:, None, None])


def _outers(left: Tensor, right: Tensor) -> Tensor:
    """(rows, p, q) products left^T right of (rows, tokens, p) and (rows, tokens, q)."""
    if left.device.type == "cpu" and left[0].numel() * right.shape[2] >= LARGE:
        return torch.stack([outer(a, b) for a, b in zip(left, right, strict=True)])
    return torch.bmm(left.transpose(1, 2), right)


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
