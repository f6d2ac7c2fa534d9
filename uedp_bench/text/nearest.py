"""Exact nearest neighbours: a blocked matrix product proposes, exact distances decide."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.text.nearest_screen import Screen

_BLOCK_ENTRIES = 1 << 24
"""Scores held at once: 32 or 64 MiB."""

_PAIR_ENTRIES = 1 << 22
"""Numbers held at once while candidates are compared exactly."""

_HALVINGS = 5
"""Scores are looked at in groups of 2^5 points."""

_GROUPED = 4096
"""Fewer points than this are looked at one by one."""


class Nearest:
    """Finds the points nearest to queries in Euclidean distance.

    Scores of all points come from one product in low precision, with a bound on its error
    (`_screen`). All points whose score is within the bound of the k-th best are compared in
    float64, so what is found is what comparing every pair in float64 finds; equal distances go to
    the smaller index.

    Args:
        points: (points, d).
        device: torch device of the products.
        precision: bfloat16 or float32; by default the faster. The outcome is the same.
    """

    def __init__(self, points: NDArray[Any], device: str = "cpu", precision: str = "") -> None:
        self._points: FloatArray = np.asarray(points, dtype=np.float64)
        self._halvings = _HALVINGS if len(self._points) >= _GROUPED else 0
        self._screen = Screen(self._points, device, precision, multiple=2**self._halvings)

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

        scores, error = self._screen(queries)
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
        limit = self._screen.limit(kth, error)
        row, group = (least <= limit[:, None]).nonzero(as_tuple=True)
        members = torch.arange(0, scores.shape[1], least.shape[1], device=scores.device)
        point = group[:, None] + members
        pair, place = (scores[row[:, None], point] <= limit[row, None]).nonzero(as_tuple=True)
        owner, candidate = row[pair].cpu().numpy(), point[pair, place].cpu().numpy()
        counts = candidate < len(self._points)  # the rest is padding
        if excluded is not None:
            counts &= candidate != excluded[owner]
        return owner[counts], candidate[counts]

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
