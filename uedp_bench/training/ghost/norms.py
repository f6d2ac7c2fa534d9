"""Norms of each unit's gradient that rounding never makes too small.

There are two ways to the norm of `left^T right` (p, q), and the one that costs less is taken: it is
written out for a few units at a time, or comes from the Gram matrices of its factors,
|left^T right|^2 = sum over tokens s, t of (left_s . left_t) (right_s . right_t) (ghost norms:
Goodfellow 2015; Li et al. 2022, section 4; Bu et al. 2023, arXiv:2210.00038). The sum has terms of
both signs: what is left of it may be rounding alone. So bounds are computed, not norms;
`docs/proofs.md`, section 14, has the statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from uedp_bench.contracts.learner import numbers_per_call
from uedp_bench.corpus import BoolArray
from uedp_bench.training.clipping import exact_norms
from uedp_bench.training.ghost.gradients import Lookup, Product, WeightGradients

UNIT_ROUNDOFF = 2.0**-24
"""The largest relative error of one rounding to float32."""

BLOCK = 128
"""Numbers of an inner product that float32 adds up; sums of blocks are float64."""

GRAM_ERROR = (2 * BLOCK + 16) * UNIT_ROUNDOFF
"""The error of a squared norm from Gram matrices, as a fraction of the squared reach."""

WRITTEN_ERROR = 512 * UNIT_ROUNDOFF
"""The error of a gradient that is written out, as a fraction of its reach.

It is the same for rows of any length: the rows beside a unit decide how far it is padded, and must
not decide its bound."""

PRODUCT_ERROR = 256 * UNIT_ROUNDOFF
"""The error of a unit's part of the weighted product, as a fraction of its reach."""

SUM_ERROR = 32 * UNIT_ROUNDOFF
"""The error of a sum of gradients that are given as they are, as a fraction of the sum of norms."""

TOLERANCE = 1e-3
"""A norm from Gram matrices is computed again, from the gradient written out, where the bound on
its error is a larger fraction of it."""

_WRITTEN_OUT = 2**20
"""Numbers of gradients that are written out at once (4 MB): memory does not grow with units."""

_KEPT = 2**23
"""Numbers of gradients that are kept once they are written out (32 MB), of a share."""


class Margin(NamedTuple):
    """Slack of a bound on a computed norm n, by the reach S: sqrt(n^2 + square S^2) + linear S.

    Attributes:
        square, linear: see above.
    """

    square: float
    linear: float


ONE_LEVEL = Margin(GRAM_ERROR, WRITTEN_ERROR + PRODUCT_ERROR)

TWO_LEVELS = Margin(GRAM_ERROR + 2.01 * (WRITTEN_ERROR + PRODUCT_ERROR), 0.0)
"""Never less than that of one level, and the length of a vector with one more coordinate: clipping
the sum of clipped rows by it is a projection, which does not expand distances."""


class Bounds(NamedTuple):
    """Norms of the units' gradients of one weight, and bounds on them, in float64.

    Attributes:
        upper: (units,) no norm is above it; not finite where the gradient is not.
        norms: (units,) as they were computed.
        doubt: (units,) bound on the error of their squares where they come from Gram matrices.
    """

    upper: Tensor
    norms: Tensor
    doubt: Tensor


class Group(NamedTuple):
    """Units of as many rows each, side by side in a batch: `rows` each, from row `start` on."""

    start: int
    units: int
    rows: int


class Norms(NamedTuple):
    """Norms of the gradients of units.

    Attributes:
        upper: (units, parts) norms, rounded up, in float64.
        kept: (units, *shape) gradients by name of the weight, of weights whose gradients were
            written out for their norms and are small enough to be kept.
        finite: True where all gradients are known to be finite.
    """

    upper: Tensor
    kept: dict[str, Tensor]
    finite: bool


def part_norms(
    gradients: Mapping[str, WeightGradients],
    groups: Sequence[Group],
    parts: Sequence[Sequence[str]],
    margin: Margin = ONE_LEVEL,
) -> Norms:
    """Compute norms of the gradients of units.

    The cheaper way to a norm depends on the other units: rows are padded to the longest. So
    what is added to a norm is the same both ways, a function of the unit's own numbers: else one
    unit would change by more than rounding what every other adds. Norms that are in doubt are
    computed again, from gradients written out.

    Args:
        gradients: merged gradients by row, by name of the weight.
        groups: units of these rows, in order, from the first row on.
        parts: names of the weights of each part, which has one norm.
        margin: margin of the bounds.
    """
    units, kept, room = sum(group.units for group in groups), dict[str, Tensor](), _room(gradients)
    for name, weight in gradients.items():
        size = units * math.prod(weight.shape)
        if size <= room and all(_is_written_out(weight, group) for group in groups):
            each = [weight.units(*group).each() for group in groups]
            kept[name] = torch.cat(each).to(weight.tensors()[0].dtype)
            room -= size
    sums_of_groups, first = [], 0
    for group in groups:
        units_of_group = slice(first, first + group.units)
        bounds = {}
        for name, weight in gradients.items():
            part, written = weight.units(*group), name in kept
            bounds[name] = (
                _written_out(part, kept[name][units_of_group], margin)
                if written
                else _bounds(part, margin)
            )
        sums_of_groups.append([_parts(bounds, parts, group.units, which) for which in range(3)])
        first += group.units
    upper, norms, doubt = (torch.cat(columns) for columns in zip(*sums_of_groups, strict=True))
    loose = ~((doubt <= 2.0 * TOLERANCE * norms) & torch.isfinite(upper)).all(dim=1)
    again = loose.cpu().numpy()  # one look at a device that may still compute
    finite = not again.any()
    if not finite:
        _compute_again(upper, again, gradients, groups, parts, margin)
        finite = bool(torch.isfinite(upper).all())
    return Norms(upper.sqrt(), kept, finite)


def _room(gradients: Mapping[str, WeightGradients]) -> int:
    """Number of gradient entries that may be kept, on the device of these."""
    tensors = (tensor for weight in gradients.values() for tensor in weight.tensors())
    return next((numbers_per_call(_KEPT, tensor.device) for tensor in tensors), _KEPT)


def _compute_again(
    upper: Tensor,
    again: BoolArray,
    gradients: Mapping[str, WeightGradients],
    groups: Sequence[Group],
    parts: Sequence[Sequence[str]],
    margin: Margin,
) -> None:
    """Replace squared norms `upper` (units, parts) of units that `again` (units,) marks."""
    first = 0
    for group in groups:
        chosen = np.flatnonzero(again[first : first + group.units])
        if len(chosen):
            at = torch.as_tensor(chosen, device=upper.device)
            some = {name: weight.units(*group).some(at) for name, weight in gradients.items()}
            bounds = {
                name: written_out_bounds(weight, margin=margin) for name, weight in some.items()
            }
            upper[first + at] = _parts(bounds, parts, len(chosen), 0)
        first += group.units


def _parts(
    bounds: Mapping[str, Bounds], parts: Sequence[Sequence[str]], units: int, which: int
) -> Tensor:
    """(units, parts) sums over the weights of each part: of squares, or of doubts about squares."""
    columns = []
    like = next(iter(bounds.values())).upper if bounds else torch.zeros(0, dtype=torch.float64)
    for names in parts:
        values_of_part = [bounds[name][which] for name in names if name in bounds]
        squares = values_of_part if which == 2 else [value**2 for value in values_of_part]
        columns.append(torch.stack(squares).sum(dim=0) if values_of_part else like.new_zeros(units))
    return torch.stack(columns, dim=1)


def written_out_bounds(
    gradients: WeightGradients, dtype: torch.dtype = torch.float64, margin: Margin = ONE_LEVEL
) -> Bounds:
    """Bounds from the gradients themselves, a few units at a time; `dtype` as of `reach`."""
    norms = torch.cat([exact_norms(part.each().flatten(1)) for part in _few(gradients)])
    return _around(norms, gradients, dtype, margin)


def _written_out(gradients: WeightGradients, each: Tensor, margin: Margin) -> Bounds:
    """Bounds on norms of gradients (units, *shape) that are written out already."""
    return _around(exact_norms(each.flatten(1)), gradients, torch.float32, margin)


def _around(
    norms: Tensor, gradients: WeightGradients, dtype: torch.dtype, margin: Margin
) -> Bounds:
    """Bounds around norms of gradients that were written out."""
    none = torch.zeros_like(norms)
    if gradients.products or gradients.lookups or gradients.reached is not None:
        return Bounds(_rounded_up(norms**2, reach(gradients, dtype), margin), norms, none)
    if gradients.summed is not None:
        return Bounds(norms + SUM_ERROR * gradients.summed, norms, none)
    return Bounds(norms, norms, none)  # what is added is what is measured


def _rounded_up(squares: Tensor, reached: Tensor, margin: Margin) -> Tensor:
    """(units,) bounds on norms by their squares, whichever way those were computed."""
    norms = torch.sqrt(squares.clamp(min=0.0) + margin.square * reached**2)
    return norms + margin.linear * reached


def _few(gradients: WeightGradients) -> Iterator[WeightGradients]:
    like = gradients.tensors()[0]
    numbers = numbers_per_call(_WRITTEN_OUT, like.device)
    size = max(1, numbers // max(math.prod(gradients.shape), 1))
    for start in range(0, len(like), size):
        yield gradients.some(slice(start, start + size))


def reach(gradients: WeightGradients, dtype: torch.dtype = torch.float64) -> Tensor:
    """(units,) no less than the sum of the norms of a gradient's terms, in float64.

    Rounding is relative to it. float32 is faster, and overflows where numbers pass 1e19.
    """
    if gradients.reached is not None:
        return gradients.reached
    lengths = [
        (_lengths(left, dtype) * _lengths(right, dtype)).sum(dim=1)
        for left, right in gradients.products
    ]
    lengths += [_lengths(values, dtype).sum(dim=1) for _, values in gradients.lookups]
    if gradients.summed is not None:
        lengths.append(gradients.summed)
    elif gradients.whole is not None:
        lengths.append(exact_norms(gradients.whole.flatten(1)))
    return torch.stack(lengths).sum(dim=0)


def _lengths(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """(units, tokens) norms of (units, tokens, size), rounded up."""
    lengths: Tensor = torch.linalg.vector_norm(tensor, dim=2, dtype=dtype)
    return 1.01 * lengths.double()


def _bounds(gradients: WeightGradients, margin: Margin) -> Bounds:
    if _prefers_written_out(gradients, rows=1):
        return written_out_bounds(gradients, torch.float32, margin)
    products, lookups = gradients.products, gradients.lookups
    reached = reach(gradients, torch.float32)
    squares = torch.zeros_like(reached)
    if products:
        squares += _gram_square(products[0])
    if lookups:
        squares += _lookup_square(lookups[0])
    if products and lookups:
        squares += 2.0 * _cross(products[0], lookups[0])
    norms = torch.sqrt(squares.clamp(min=0.0))
    return Bounds(_rounded_up(squares, reached, margin), norms, GRAM_ERROR * reached**2)


def _is_written_out(gradients: WeightGradients, group: Group) -> bool:
    """True where units of this group have gradients that are written out, and are not yet."""
    new = group.rows > 1 or bool(gradients.products or gradients.lookups)
    return new and _prefers_written_out(gradients, group.rows)


def _prefers_written_out(gradients: WeightGradients, rows: int) -> bool:
    if gradients.whole is not None:
        return True
    if not gradients.products:
        return False
    left, right = gradients.products[0]
    tokens, p, q = rows * left.shape[1], left.shape[2], right.shape[2]
    return not gram_is_cheaper(tokens, p, q)


def gram_is_cheaper(tokens: int, p: int, q: int) -> bool:
    """True where Gram matrices of (tokens, p) and (tokens, q) cost less than their product.

    Reading a gradient that was written out costs about as much as 20 of its products.
    """
    return tokens * tokens * (p + q) < p * q * (tokens + 20)


def _inner(first: Tensor, second: Tensor) -> Tensor:
    """(units, s, t) inner products of (units, s, size) and (units, t, size), in float64."""
    blocks = zip(torch.split(first, BLOCK, dim=2), torch.split(second, BLOCK, dim=2), strict=True)
    shape = (first.shape[0], first.shape[1], second.shape[1])
    total = first.new_zeros(shape, dtype=torch.float64)
    for a, b in blocks:
        total += torch.bmm(a, b.transpose(1, 2))
    return total


def _gram_square(product: Product) -> Tensor:
    left, right = product
    size = max(1, numbers_per_call(_WRITTEN_OUT, left.device) // max(left.shape[1] ** 2, 1))
    parts = [
        (_inner(a, a) * _inner(b, b)).sum(dim=(1, 2))
        for a, b in zip(torch.split(left, size), torch.split(right, size), strict=True)
    ]
    return torch.cat(parts)


def _lookup_square(lookup: Lookup) -> Tensor:
    """(units,) squares of the norms: a unit's token that stands twice is one row of the weight.

    Each unit has as many places for sums as tokens, some of which stay empty: how many distinct
    tokens there are is known only when a device has counted them.
    """
    ids, values = lookup
    units, tokens, width = values.shape
    ordered, order = torch.sort(ids, dim=1, stable=True)
    first = torch.ones_like(order)  # 1 where a token stands for the first time
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    unit = torch.arange(units, device=ids.device)[:, None].expand(units, tokens)
    place = torch.empty_like(order).scatter_(1, order, first.cumsum(dim=1) - 1) + unit * tokens
    # A token that stands often is a long sum.
    dtype = torch.float64 if tokens > BLOCK else values.dtype
    summed = values.new_zeros((units * tokens, width), dtype=dtype)
    summed.index_add_(0, place.reshape(-1), values.reshape(-1, width).to(dtype))
    squares = exact_norms(summed) ** 2
    return squares.new_zeros(units).index_add_(0, unit.reshape(-1), squares)


def _cross(product: Product, lookup: Lookup) -> Tensor:
    """(units,) inner products of left^T right with what the lookup adds to the same weight."""
    left, right = product
    ids, values = lookup
    # Token s of the lookup meets, at token t of the product, the number left[t, id of s].
    met = left.gather(2, ids[:, None, :].expand(-1, left.shape[1], -1))
    return (met.double() * _inner(right, values)).sum(dim=(1, 2))
