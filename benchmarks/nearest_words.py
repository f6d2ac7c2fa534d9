"""Exact nearest words against faiss: words per second, side by side in one process.

    python benchmarks/nearest_words.py [--threads 1] [--words 20000 100000]

faiss is no dependency of the project; `pip install faiss-cpu` gets it. Both sides look for the two
nearest of random vectors to noisy ones, and take turns, so that what else the machine does slows
both. Figures are medians over the turns, and the ratio is the median of the turns' ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from uedp_bench.mechanisms.words.noise import WordNoise
from uedp_bench.text.word_vectors import Nearest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--dimension", type=int, default=300)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[10.0, 50.0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    try:
        import faiss
    except ImportError:
        raise SystemExit("faiss is not installed: pip install faiss-cpu") from None
    import torch

    print(f"{'words':>7} {'epsilon':>7} {'threads':>7} {'faiss/s':>9} {'ours/s':>9} {'ratio':>6}")
    for words in options.words:
        rng = np.random.default_rng(0)
        table = (0.3 * rng.normal(size=(words, options.dimension))).astype(np.float32)
        index = faiss.IndexFlatL2(options.dimension)
        index.add(table)
        ours = Nearest(table)
        for epsilon in options.epsilon:
            noise = WordNoise(table, epsilon, None, "benchmark")
            queries = noise.sample(options.queries, rng)
            queries += table[rng.integers(words, size=options.queries)]
            for threads in options.threads:
                torch.set_num_threads(threads)
                faiss.omp_set_num_threads(threads)
                compare(index, ours, queries, options.turns, (words, epsilon, threads))


def compare(
    index: object, ours: Nearest, queries: np.ndarray, turns: int, setting: tuple[int, float, int]
) -> None:
    single = queries.astype(np.float32)
    theirs = index.search(single, 2)[1]  # type: ignore[attr-defined]
    mine = ours(queries, 2)[0]
    agree = float((theirs == mine).mean())
    if agree < 0.99:  # rounding of float32 parts them now and then
        raise SystemExit(f"only {agree:.1%} of the neighbours agree")
    times = np.array(
        [
            (seconds(lambda: index.search(single, 2)), seconds(lambda: ours(queries, 2)))  # type: ignore[attr-defined]
            for _ in range(turns)
        ]
    )
    rates = len(queries) / np.median(times, axis=0)
    ratio = np.median(times[:, 0] / times[:, 1])
    print(
        f"{setting[0]:>7} {setting[1]:>7g} {setting[2]:>7} {rates[0]:>9.0f} {rates[1]:>9.0f} "
        f"{ratio:>6.2f}",
        flush=True,
    )


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
