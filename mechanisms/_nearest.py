"""Exact nearest neighbours: a blocked matrix product proposes, exact distances decide."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.corpus import FloatArray, IntArray

_BLOCK_ENTRIES = 1 << 24
"""Scores held at once: 64 MiB in float32."""

_PAIR_ENTRIES = 1 << 22
"""Numbers held at once while candidates are compared exactly."""


class Nearest:
    """Finds the points nearest to queries in Euclidean distance.

    Scores |y|^2 / 2 - x.y in float32 differ from the true ones by rounding. All points whose score
    is within twice a bound of that error from the k-th best are compared in float64, so what is
    found is what comparing every pair in float64 finds; equal distances go to the smaller index.

    Args:
        points: (points, d).
        device: torch device of the products.
    """

    def __init__(self, points: NDArray[Any], device: str = "cpu") -> None:
        import torch

        self._points: FloatArray = np.asarray(points, dtype=np.float64)
        norms = (self._points**2).sum(axis=1)
        self._largest = float(np.sqrt(norms.max()))
        self._table = torch.tensor(self._points.T, dtype=torch.float32, device=device).contiguous()
        self._half = torch.tensor(norms / 2, dtype=torch.float32, device=device)

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
        found = np.empty((len(queries), k), dtype=np.int64)
        distance = np.empty((len(queries), k))
        block = max(1, _BLOCK_ENTRIES // points)
        for start in range(0, len(queries), block):
            part = slice(start, start + block)
            without = None if excluded is None else excluded[part]
            owner, candidate = self._candidates(queries[part], k, without)
            found[part], distance[part] = self._best(queries[part], owner, candidate, k)
        return found, distance

    def _candidates(
        self, queries: FloatArray, k: int, excluded: IntArray | None
    ) -> tuple[IntArray, IntArray]:
        """(query, point) of all pairs that can be among the k nearest, ordered by query."""
        import torch

        device = self._table.device
        scores = torch.addmm(
            self._half, torch.tensor(queries, dtype=torch.float32, device=device), self._table,
            alpha=-1,
        )  # fmt: skip
        if excluded is not None:
            rows = torch.arange(len(queries), device=device)
            scores[rows, torch.tensor(excluded, device=device)] = torch.inf
        kth = scores.amin(1) if k == 1 else scores.topk(k, largest=False).values[:, -1]
        # Rounding of the inputs, the products, their sum in any order, and the addition.
        sizes = np.sqrt((queries**2).sum(axis=1)) + self._largest
        error = (queries.shape[1] + 8) * 2.0**-24 * sizes * self._largest
        limit = kth + torch.tensor(4 * error, dtype=torch.float32, device=device)
        pairs = (scores <= limit[:, None]).nonzero().cpu().numpy()
        return pairs[:, 0], pairs[:, 1]

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
