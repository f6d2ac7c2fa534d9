"""Approximate scores of all points by one matrix product, with a proven bound on their error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import FloatArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_UNIT = {"bfloat16": 2.0**-8, "float32": 2.0**-23}
"""Twice the unit roundoff of each precision."""

_ROWS = 256
"""Queries of a block for which the table is laid out; others are multiplied too."""


class Screen:
    """Scores |y|^2 / 2 - x.y of queries x and points y: the order of distances, for each query.

    Both are moved by the mean of the points, which changes no distance and makes numbers small.
    Then they are rounded to the precision of the product: bfloat16 on processors that multiply it
    natively, twice as fast and summed in float32, else float32.

    Args:
        points: (points, d), float64.
        device: torch device of the products.
        precision: bfloat16 or float32; by default the faster.
        multiple: of the number of columns.

    Attributes:
        size: columns of the scores: the number of points, rounded up to a multiple of `multiple`;
            columns past the points are infinite.
    """

    def __init__(
        self, points: FloatArray, device: str, precision: str = "", *, multiple: int = 1
    ) -> None:
        import torch

        self._device = torch.device(device)
        name = precision or ("bfloat16" if _multiplies_bfloat16(self._device) else "float32")
        self._type: torch.dtype = getattr(torch, name)
        self._unit = _UNIT[name]
        self._mean: FloatArray = points.mean(axis=0)
        moved = points - self._mean
        norms = (moved**2).sum(axis=1)
        self.size = -(-len(points) // multiple) * multiple
        table = torch.zeros(self.size, points.shape[1], dtype=self._type)
        table[: len(points)] = -torch.from_numpy(moved)
        half = torch.full((self.size,), torch.inf, dtype=self._type)
        half[: len(points)] = torch.from_numpy(norms / 2)
        self._far = float(np.sqrt((points**2).sum(axis=1).max()))
        self._largest = float(np.sqrt(norms.max()))
        rounded = -table[: len(points)].double().numpy()
        self._residual = float(np.sqrt(((moved - rounded) ** 2).sum(axis=1).max()))
        lost = half[: len(points)].double().numpy() - norms / 2
        self._half_residual = float(np.abs(lost).max())
        self._product = _product(table.to(self._device), half.to(self._device))

    def __call__(self, queries: FloatArray) -> tuple[Tensor, FloatArray]:
        """(queries, size) scores, and for each query a bound on what rounding of inputs changed."""
        import torch

        moved = queries - self._mean
        x = torch.from_numpy(moved).to(self._type)
        rounded = x.double().numpy()
        scores = self._product(x.to(self._device))
        dimension = queries.shape[1]
        size, far = _norms(moved), _norms(queries) + self._far
        cast = _norms(rounded)
        reach = size + self._largest
        error = _norms(moved - rounded) * self._largest + cast * self._residual
        error += self._half_residual
        # Sums of products in float32, in any order.
        error += (dimension + 8) * 2.0**-23 * (cast + self._largest) * (2 * self._largest)
        # What the move lost, and what comparing in float64 loses.
        error += (dimension + 8) * 2.0**-51 * reach * (reach + far)
        return scores, error

    def limit(self, kth: Tensor, error: FloatArray) -> Tensor:
        """(queries,) scores above which no point is among the k nearest.

        Args:
            kth: (queries,) the k-th smallest score, or more.
            error: as `__call__` returned it.
        """
        import torch

        # The score of a point is within `error` and one rounding of the true one, both ways.
        top = kth.double().cpu().numpy()
        top = top + self._unit * np.abs(top) + 2.0 * error
        top = np.where(top > 0, top / (1.0 - self._unit), top / (1.0 + self._unit))
        nearest = torch.from_numpy(top).to(self._type)
        up = torch.nextafter(nearest, torch.full_like(nearest, torch.inf))
        return up.to(self._device)


def _product(table: Tensor, half: Tensor) -> Callable[[Tensor], Tensor]:
    """Queries (n, d) -> n x table^T + half, in oneDNN's own layout of the table where there is one.

    In float32 that is twice as fast as MKL on some processors, and in either precision it saves
    laying out the table for every block. The operators are private to torch: where they are
    missing, or do something else than they did, the public product takes their place.
    """
    import torch

    def plain(x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, table, half)

    if table.device.type != "cpu" or not _has_onednn():
        return plain
    probe = torch.linspace(-1.0, 1.0, table.shape[1], dtype=table.dtype)[None, :]
    try:
        operators = torch.ops.mkldnn
        packed = operators._reorder_linear_weight(table, _ROWS)

        def fused(x: Tensor) -> Tensor:
            out: Tensor = operators._linear_pointwise(x, packed, half, "none", [], "")
            return out

        same = torch.allclose(fused(probe).float(), plain(probe).float(), rtol=0.02, atol=1e-3)
    except (AttributeError, RuntimeError, TypeError):
        return plain
    return fused if same else plain


def _norms(rows: FloatArray) -> FloatArray:
    out: FloatArray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return out


def _multiplies_bfloat16(device: torch.device) -> bool:
    """True if the device multiplies bfloat16 natively and sums in float32.

    Graphics cards may sum in less; they are fast enough in float32.
    """
    import torch

    if device.type != "cpu" or not _has_onednn():
        return False
    able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def _has_onednn() -> bool:
    import torch

    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
