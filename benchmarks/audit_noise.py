"""Rate of false lower bounds above 0 that an audit of taggers finds.

    python benchmarks/audit_noise.py --trials 100
    python benchmarks/audit_noise.py --trials 10 --memorise

Each trial is a run of its own: a seed, a corpus with canaries and their coins, and a tagger that
`dp-sgd` trained under noise a million times the clip bound, so that its proven epsilon is 0.000.
An audit at 95 % may be above 0 in 5 % of the trials. It fails the test if so many trials are above
0 that a binomial of rate 5 % has as many or more with a probability of 2.5 % at most.

With --memorise the tagger is trained without noise until it knows its text by heart: the same audit
has to find something there, or its silence under noise says nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from scipy.stats import binom

from uedp_bench.contracts.results import Result
from uedp_bench.one_run.execution import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

RATE, SIZE = 0.05, 0.025
CANARIES = 60
"""As in the packaged comparison `tagging`."""


def spec(trials: int, memorise: bool) -> dict[str, Any]:
    """Runs that differ in the seed alone."""
    source = {"users": 150, "sentences": 2, "public_users": 40, "valid_users": 5, "test_users": 5}
    audit = {"canaries": CANARIES, "user_rows": 1, "named": True}
    noise = {"steps": 3, "batch_size": 60, "noise_multiplier": 1e6, "learning_rate": 0.01}
    by_heart = {"epochs": 60, "batch_size": 16, "learning_rate": 0.01}
    mechanism = ("noiseless", by_heart) if memorise else ("dp-sgd", noise)
    return {
        "task": "tagging",
        "source": {"name": "embedded", "params": source},
        "model": {"name": "bilstm", "params": {
            "vocabulary_size": 200, "units": 8, "embedding_size": 8, "character_filters": 8,
        }},
        "mechanisms": [{"name": mechanism[0], "params": mechanism[1]}],
        "attacks": [{"name": "audit", "params": audit}],
        "seeds": list(range(1, trials + 1)),
    }  # fmt: skip


def bound(result: Result, memorise: bool) -> float:
    """The lower bound of a trial that rests on coins alone."""
    if result.error is not None:
        raise RuntimeError(result.error.message)
    if (
        not memorise
        and max(one.epsilon for one in result.guarantees if one.kind == "proven") > 1e-3
    ):
        raise RuntimeError("there is something to find: a proven epsilon is not 0")
    return result.leakage["audit"]["epsilon_lower_bound"].value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--memorise", action="store_true")
    options = parser.parse_args()
    trials, memorise = options.trials, options.memorise
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        execution = Execution(Path(folder), "cpu")
        runs = expand(parse_spec(spec(trials, memorise)))
        bounds = [bound(execute(run, execution), memorise) for run in runs]
    above = sum(one > 0.0 for one in bounds)
    most = int(binom.isf(SIZE, trials, RATE))
    summary = (
        f"{above} of {trials} trials of {CANARIES} canaries are above 0, up to {max(bounds):.2f}"
    )
    if memorise:
        print(f"{summary}, the median {sorted(bounds)[trials // 2]:.2f}")
        sys.exit(above < trials)
    print(f"{summary}; more than {most} would refute a rate of {RATE:.0%}")
    sys.exit(above > most)


if __name__ == "__main__":
    main()
