"""Chooses epsilon and t of the Vickrey mechanism under a utility budget (Algorithm 2).

    python benchmarks/vickrey_choice.py --path data/opinion_lexicon \
        --embedding data/glove/glove.6B.50d.txt --budget 0.06

Xu, Aggarwal, Feyisetan and Teissier 2021, Algorithm 2: epsilon doubles at t = 0 until the utility
loss (equation 2) is below the budget. Of t = 0, 0.05, ..., 1 with a loss of at most the budget,
the one with the largest inference error (equation 4) is chosen; the smallest such t. Points share
their random numbers. The choice looks at the words of the corpus, and no guarantee covers it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from uedp_bench.api import Corpus, CorpusStats, Run, mechanisms, sources
from uedp_bench.attacks.word_reconstruction.attack import Learnt
from uedp_bench.contracts.results import Estimate
from uedp_bench.mechanisms.words.vickrey import Vickrey
from uedp_bench.tasks.word_substitution import substitute

SECOND_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""Values of t that Algorithm 2 tries."""

MOST_DOUBLINGS = 12


class Point(NamedTuple):
    """Utility loss and inference error at one setting."""

    epsilon: float
    t: float
    loss: Estimate
    error: Estimate


def choose(
    measure: Callable[[float, float], Point], epsilon: float, budget: float
) -> tuple[Point, list[Point]]:
    """The point that Algorithm 2 chooses, and all that it measures.

    Args:
        measure: the point at (epsilon, t).
        epsilon: the first one.
        budget: largest utility loss.

    Raises:
        ValueError: if no epsilon brings the loss below the budget.
    """
    points = [measure(epsilon, 0.0)]
    while points[-1].loss.value >= budget:
        if len(points) > MOST_DOUBLINGS:
            least = min(points, key=lambda point: point.loss.value)
            raise ValueError(
                f"budget {budget:g} is not reached: the smallest loss is {least.loss.value:.4g}, "
                f"at epsilon {least.epsilon:g} and t 0"
            )
        epsilon *= 2.0
        points.append(measure(epsilon, 0.0))
    best = points[-1]
    for t in SECOND_WEIGHTS:
        points.append(measure(epsilon, t))
        if points[-1].loss.value <= budget and points[-1].error.value > best.error.value:
            best = points[-1]
    return best, points


def measured(rows: Corpus, params: dict[str, object], seed: int) -> Point:
    """Loss and error of `vickrey` with these parameters, for the words of some rows."""
    run = Run(seed, CorpusStats(users=0, rows=0, sensitive_rows=0, entities=0, public=False))
    mechanism = mechanisms.create("vickrey", params)
    if not isinstance(mechanism, Vickrey):
        raise TypeError(f"{type(mechanism).__name__} is no Vickrey mechanism")
    channel = mechanism.word_channel(run)
    loss = substitute(rows, channel, 100, "wrong", run.shared("choice", "utility"))
    rng = run.shared("choice", "privacy")
    error, _ = Learnt.from_samples(rows, channel, 100, rng).scores(channel, rng)
    values = mechanism.params.model_dump()
    return Point(values["epsilon"], values["t"], loss["misclassified"], error["inference_error"])


def _cell(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def main() -> None:
    read = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    read.add_argument("--path", required=True, help="folder of the opinion lexicon")
    read.add_argument("--embedding", required=True, help="file of word vectors")
    read.add_argument("--vocabulary", nargs="*", help="files of words that replace")
    read.add_argument("--candidates", default="all", choices=["all", "others"])
    read.add_argument("--epsilon", type=float, default=1.0, help="the first epsilon; default: 1")
    read.add_argument("--budget", type=float, required=True, help="largest utility loss")
    read.add_argument("--seed", type=int, default=1)
    options = read.parse_args()
    corpus = sources.create("opinion-lexicon", {"path": options.path}).load()
    rows = corpus.take(np.flatnonzero(corpus.where("train", "valid", "test")))
    fixed = {name: getattr(options, name) for name in ("embedding", "vocabulary", "candidates")}

    def measure(epsilon: float, t: float) -> Point:
        params = {name: value for name, value in fixed.items() if value is not None}
        return measured(rows, params | {"epsilon": epsilon, "t": t}, options.seed)

    try:
        chosen, points = choose(measure, options.epsilon, options.budget)
    except ValueError as error:
        sys.exit(str(error))
    print("| epsilon | t | utility loss | inference error |\n| --: | --: | --: | --: |")
    for point in points:
        print(f"| {point.epsilon:g} | {point.t:g} | {_cell(point.loss)} | {_cell(point.error)} |")
    print(f"chosen: epsilon {chosen.epsilon:g}, t {chosen.t:g}")


if __name__ == "__main__":
    main()
