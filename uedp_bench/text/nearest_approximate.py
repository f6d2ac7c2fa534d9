"""Approximate nearest neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.components.requirements import FAISS
from uedp_bench.corpus import FloatArray, IntArray

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
        # What the graph did not reach is -1.
        distance[indices < 0] = np.inf
        if excluded is not None:
            distance[indices == excluded[:, None]] = np.inf
        order = np.lexsort((indices, distance), axis=1)[:, :k]
        nearest, far = (np.take_along_axis(each, order, axis=1) for each in (indices, distance))
        lost = np.flatnonzero(np.isinf(far).any(axis=1))
        if len(lost):
            from uedp_bench.text.nearest import Nearest

            without = None if excluded is None else excluded[lost]
            nearest[lost], far[lost] = Nearest(self._points)(queries[lost], k, without)
        return nearest, far
