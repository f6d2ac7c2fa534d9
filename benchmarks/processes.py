"""Seconds of federated rounds in several processes over those in one, wall clock.

Both train the same users on the same network, take turns, and are checked to end at the same bits.
Every process has one thread. Starting processes is measured apart.

    python benchmarks/processes.py [--model default] [--processes 2] [--users 128] [--turns 3]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
from torch import Tensor
from workloads import MODELS, Sizes, language_learner

from uedp_bench.corpus import Index
from uedp_bench.mechanism import CorpusStats
from uedp_bench.run_context import Run, Speed
from uedp_bench.training.bounds import FlatBound
from uedp_bench.training.device import keep_freed_memory
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import PoissonSampler
from uedp_bench.training.server import SgdServer

CLIP = 0.3
LOCAL = {
    "one step on all rows": LocalTraining(learning_rate=1.0),
    "five epochs, full batch": LocalTraining(learning_rate=0.2, epochs=5),
}


def trained(learner, local, rounds: int, processes: int) -> tuple[float, Tensor]:
    """Seconds from the first round to the last, and the weights."""
    units = learner.corpus.rows_of_user
    ended: list[float] = []
    stats = CorpusStats(len(units), 0, 0, 0, public=True)

    def progress(phase: str, done: int, total: int) -> None:
        ended.append(time.perf_counter())

    run = Run(1, stats, speed=Speed(processes=processes), progress=progress)
    plan = Federation(
        rounds=rounds + 1, units=Index(units.offsets, units.rows),
        sampler=PoissonSampler(len(units), 1.0), local=local, bound=FlatBound(CLIP),
        noise=IndependentGaussian(0.0), denominator=float(len(units)), server=SgdServer(),
    )  # fmt: skip
    module = train_federated(plan, learner, run).module
    weights = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    return ended[-1] - ended[0], weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--users", type=int, default=128, help="users of a round")
    parser.add_argument("--rounds", type=int, default=4, help="after a first that does not count")
    parser.add_argument("--model", choices=MODELS, default="default", help="see workloads.py")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    learner = language_learner(options.model, Sizes(options.users))
    for name, local in LOCAL.items():
        seconds: dict[int, list[float]] = {1: [], options.processes: []}
        whole: list[float] = []
        for _ in range(options.turns):
            weights = []
            for processes, found in seconds.items():
                start = time.perf_counter()
                took, end = trained(learner, local, options.rounds, processes)
                found.append(took)
                weights.append(end)
                if processes > 1:
                    whole.append(time.perf_counter() - start - took)
            np.testing.assert_array_equal(weights[0].numpy(), weights[1].numpy())
        one, several = (statistics.median(found) for found in seconds.values())
        starting = whole[0] / one * options.rounds - several / one  # less the first round
        print(
            f"{name}: {options.processes} processes take {several / one:.2f} of the time of one; "
            f"starting them takes that of {starting:.1f} rounds, once"
        )


if __name__ == "__main__":
    main()
