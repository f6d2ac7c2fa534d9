"""Documents per second whose candidates' depths are computed, at once or in a loop, as ratios.

The yardstick is Algorithm 1 of Meehan et al. 2022 as it is printed: a loop over candidates and
projections that counts the sentences at or above the candidate; a second loop finds the count by
bisection of the sorted sentences. In all of them candidates were projected beforehand and sentences
are projected inside, and all depths are checked to be equal. They take turns, so that whatever else
the machine does falls on all of them.

    python benchmarks/tukey_depth.py [--documents 256] [--projections 50,100] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from uedp_bench.mechanisms.documents.tukey_depth import Depth, TukeyDepth

Depths = NDArray[np.int64]
SIZE = 768


class Loop:
    """Depths in one document, one candidate and projection after the other."""

    def __init__(self, candidates: NDArray[Any], directions: NDArray[Any], depth: Depth) -> None:
        self.directions = directions
        self.projected = candidates.astype(np.float64) @ directions.T
        self.over = min if depth == "lowest" else max

    def counting(self, points: NDArray[Any]) -> Depths:
        """Counts the sentences at or above."""
        values = np.ascontiguousarray(self.directions @ points.astype(np.float64).T)
        k, lines = len(points), range(len(self.directions))
        depths = []
        for candidate in self.projected:
            counts = [int(np.count_nonzero(values[j] >= candidate[j])) for j in lines]
            depths.append(self.over([min(h, k - h) for h in counts]))
        return np.array(depths)

    def bisecting(self, points: NDArray[Any]) -> Depths:
        """Looks the candidate up among sorted sentences, in plain Python lists."""
        values = np.sort(self.directions @ points.astype(np.float64).T, axis=1).tolist()
        k = len(points)
        depths = []
        for candidate in self.projected.tolist():
            below = [bisect_left(line, at) for line, at in zip(values, candidate, strict=True)]
            depths.append(self.over([min(h, k - h) for h in below]))
        return np.array(depths)


def seconds(call: Callable[[], Depths]) -> tuple[float, Depths]:
    """CPU seconds of a call, and what it gave."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def measure(options: argparse.Namespace, projections: int) -> dict[str, float]:
    """Documents per second over those of the counting loop, by method; medians of the turns."""
    rng = np.random.default_rng(0)
    m, k, documents = options.candidates, options.sentences, options.documents
    candidates = (rng.normal(size=(m, SIZE)) / k**0.5).astype(np.float32)
    directions = rng.normal(size=(projections, SIZE))
    points = rng.normal(size=(documents * k, SIZE)).astype(np.float32)
    lengths = np.full(documents, k)
    tukey = TukeyDepth(candidates, directions, options.depth)
    loop = Loop(candidates, directions, options.depth)
    tukey(points[: 32 * k], lengths[:32])
    found: dict[str, list[float]] = {"counting loop": [], "bisecting loop": [], "at once": []}
    for turn in range(options.turns):
        at = turn % documents
        one = points[at * k : (at + 1) * k]
        counted = seconds(lambda one=one: loop.counting(one))
        bisected = seconds(lambda one=one: loop.bisecting(one))
        took, depths = seconds(lambda: tukey(points, lengths))
        np.testing.assert_array_equal(depths[at], counted[1])
        np.testing.assert_array_equal(depths[at], bisected[1])
        for method, each in (
            ("counting loop", counted[0]),
            ("bisecting loop", bisected[0]),
            ("at once", took / documents),
        ):
            found[method].append(each)
    base = statistics.median(found["counting loop"])
    return {method: round(base / statistics.median(each), 1) for method, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=5000)
    parser.add_argument("--sentences", type=int, default=20, help="sentences of a document")
    parser.add_argument("--documents", type=int, default=256, help="whose depths are wanted")
    parser.add_argument("--projections", default="50,100")
    parser.add_argument("--depth", choices=["lowest", "highest"], default="lowest")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ratios = {p: measure(options, int(p)) for p in options.projections.split(",")}
    if options.json:
        print(json.dumps(ratios))
        return
    for projections, by_method in ratios.items():
        print(f"{projections} projections: documents per CPU second, counting loop = 1")
        for method, ratio in by_method.items():
            print(f"  {method:16}{ratio:>10.1f}")


if __name__ == "__main__":
    main()
