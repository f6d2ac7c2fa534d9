"""Nearest neighbours: exactly, by a blocked matrix product and exact distances, or by a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.components.component import FAISS
from uedp_bench.corpus import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK_ENTRIES = 1 << 24
"""Scores held at once: 32 or 64 MiB."""

_PAIR_ENTRIES = 1 << 22
"""Numbers held at once while candidates are compared exactly."""

_HALVINGS = 5
"""Scores are looked at in groups of 2^5 points."""

_GROUPED = 4096
"""Fewer points than this are looked at one by one."""

_UNIT = 2.0**-23
"""Twice the unit roundoff of float32."""


class Nearest:
    """Find the points nearest to queries in Euclidean distance.

    Scores |y|^2 / 2 - x.y of queries x and points y come from one product in float32, with a bound
    on its error. All points whose score is within the bound of the k-th best are compared in
    float64, so the result is that of comparing every pair in float64; equal distances go to the
    smaller index.

    Args:
        points: (points, d).
        device: torch device of the products.
    """

    def __init__(self, points: NDArray[Any], device: str = "cpu") -> None:
        import torch

        self._points: FloatArray = np.asarray(points, dtype=np.float64)
        self._halvings = _HALVINGS if len(self._points) >= _GROUPED else 0
        # The mean of the points changes no distance, and without it numbers are small.
        self._mean: FloatArray = self._points.mean(axis=0)
        moved = self._points - self._mean
        norms = (moved**2).sum(axis=1)
        table = torch.from_numpy(-moved).float()
        half = torch.from_numpy(norms / 2).float()
        self._far = float(_norms(self._points).max())
        self._largest = float(np.sqrt(norms.max()))
        self._residual = float(_norms(moved + table.double().numpy()).max())
        self._half_residual = float(np.abs(half.double().numpy() - norms / 2).max())
        padding = -len(moved) % 2**self._halvings
        self._table = torch.nn.functional.pad(table, (0, 0, 0, padding)).to(device)
        self._half = torch.nn.functional.pad(half, (0, padding), value=torch.inf).to(device)

    def __call__(
        self, queries: FloatArray, k: int = 1, excluded: IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Indices and distances (queries, k) of the k nearest points, nearest first.

        Args:
            queries: (queries, d), float64.
            k: at most the number of points, less one where one is excluded.
            excluded: (queries,) a point for each query that does not count.

        Raises:
            ValueError: if there are not so many points.
        """
        points = len(self._points)
        if not 1 <= k <= points - (excluded is not None):
            raise ValueError(f"k is {k}; there are {points} points")
        indices = np.empty((len(queries), k), dtype=np.int64)
        distance = np.empty((len(queries), k))
        block = max(1, _BLOCK_ENTRIES // points)
        for start in range(0, len(queries), block):
            part = slice(start, start + block)
            without = None if excluded is None else excluded[part]
            owner, candidate = self._candidates(queries[part], k, without)
            indices[part], distance[part] = self._best(queries[part], owner, candidate, k)
        return indices, distance

    def _candidates(
        self, queries: FloatArray, k: int, excluded: IntArray | None
    ) -> tuple[IntArray, IntArray]:
        """(query, point) of all pairs that can be among the k nearest, ordered by query."""
        import torch

        scores, error = self._scores(queries)
        if excluded is not None:
            rows = torch.arange(len(queries), device=scores.device)
            scores[rows, torch.from_numpy(excluded).to(scores.device)] = torch.inf
        least = scores
        # Group g holds the points g, g + groups, ...: halves are compared entry by entry.
        for _ in range(self._halvings if k <= scores.shape[1] >> self._halvings else 0):
            middle = least.shape[1] // 2
            least = torch.minimum(least[:, :middle], least[:, middle:])
        # The k-th best group is no better than the k-th best point.
        kth = least.amin(1) if k == 1 else least.topk(k, largest=False).values[:, -1]
        limit = self._limit(kth, error)
        row, group = (least <= limit[:, None]).nonzero(as_tuple=True)
        members = torch.arange(0, scores.shape[1], least.shape[1], device=scores.device)
        point = group[:, None] + members
        pair, place = (scores[row[:, None], point] <= limit[row, None]).nonzero(as_tuple=True)
        owner, candidate = row[pair].cpu().numpy(), point[pair, place].cpu().numpy()
        counts = candidate < len(self._points)  # the rest is padding
        if excluded is not None:
            counts &= candidate != excluded[owner]
        return owner[counts], candidate[counts]

    def _scores(self, queries: FloatArray) -> tuple[Tensor, FloatArray]:
        """(queries, points and padding) scores, and what rounding changed of a query's at most."""
        import torch

        dimension = queries.shape[1]
        moved = queries - self._mean
        rounded = torch.from_numpy(moved).float()
        scores = torch.nn.functional.linear(rounded.to(self._table.device), self._table, self._half)
        cast = rounded.double().numpy()
        reach, far = _norms(moved) + self._largest, _norms(queries) + self._far
        error = _norms(moved - cast) * self._largest + _norms(cast) * self._residual
        error += self._half_residual
        # Sums of products in float32, in any order.
        error += (dimension + 8) * _UNIT * (_norms(cast) + self._largest) * (2 * self._largest)
        # What the move lost, and what comparing in float64 loses.
        error += (dimension + 8) * 2.0**-51 * reach * (reach + far)
        return scores, error

    def _limit(self, kth: Tensor, error: FloatArray) -> Tensor:
        """(queries,) scores above which no point is among the k nearest.

        Args:
            kth: (queries,) the k-th smallest score, or more.
            error: as `_scores` returned it.
        """
        import torch

        # The score of a point is within `error` and one rounding of the true one, both ways.
        top = kth.double().cpu().numpy()
        top = top + _UNIT * np.abs(top) + 2.0 * error
        top = np.where(top > 0, top / (1.0 - _UNIT), top / (1.0 + _UNIT))
        nearest = torch.from_numpy(top).float()
        return torch.nextafter(nearest, torch.full_like(nearest, torch.inf)).to(kth.device)

    def _best(
        self, queries: FloatArray, owner: IntArray, candidate: IntArray, k: int
    ) -> tuple[IntArray, FloatArray]:
        squared = np.empty(len(owner))
        step = max(1, _PAIR_ENTRIES // queries.shape[1])
        for start in range(0, len(owner), step):
            part = slice(start, start + step)
            difference = queries[owner[part]] - self._points[candidate[part]]
            squared[part] = (difference**2).sum(axis=1)
        order = np.lexsort((candidate, squared, owner))
        first = np.searchsorted(owner, np.arange(len(queries)))
        chosen = order[first[:, None] + np.arange(k)]
        return candidate[chosen], np.sqrt(squared[chosen])


def _norms(rows: FloatArray) -> FloatArray:
    norms: FloatArray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


_LINKS, _BREADTH = 32, 64


class ApproximateNearest:
    """Points that a graph of faiss (HNSW) finds near to queries; called as `Nearest` is.

    Args:
        points: (points, d).
    """

    def __init__(self, points: NDArray[Any]) -> None:
        FAISS.check()
        import faiss

        self._points: FloatArray = np.asarray(points, dtype=np.float64)
        self._index = faiss.IndexHNSWFlat(int(points.shape[1]), _LINKS)
        self._index.hnsw.efSearch = _BREADTH
        threads = faiss.omp_get_max_threads()
        # Threads add points in an order of their own, and the graph depends on it.
        faiss.omp_set_num_threads(1)
        try:
            self._index.add(np.ascontiguousarray(points, dtype=np.float32))
        finally:
            faiss.omp_set_num_threads(threads)

    def __call__(
        self, queries: FloatArray, k: int = 1, excluded: IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Indices and distances (queries, k), nearest first; see `Nearest`.

        Raises:
            ValueError: if there are not so many points.
        """
        points = len(self._points)
        if not 1 <= k <= points - (excluded is not None):
            raise ValueError(f"k is {k}; there are {points} points")
        wanted = k + (excluded is not None)
        indices = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), wanted)[1]
        indices = indices.astype(np.int64)
        difference = queries[:, None, :] - self._points[indices]
        distance = np.sqrt((difference**2).sum(axis=2))
        # Places that the graph did not reach are -1.
        distance[indices < 0] = np.inf
        if excluded is not None:
            distance[indices == excluded[:, None]] = np.inf
        order = np.lexsort((indices, distance), axis=1)[:, :k]
        nearest, far = (np.take_along_axis(each, order, axis=1) for each in (indices, distance))
        lost = np.flatnonzero(np.isinf(far).any(axis=1))
        if len(lost):
            without = None if excluded is None else excluded[lost]
            nearest[lost], far[lost] = Nearest(self._points)(queries[lost], k, without)
        return nearest, far
