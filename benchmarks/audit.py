"""Audits of many runs: of honest mechanisms, of canary texts, and of taggers that learn nothing.

    python benchmarks/audit.py honest --seeds 20 --out audits
    python benchmarks/audit.py texts --seeds 8 --out audit-texts
    python benchmarks/audit.py noise --seeds 100 --out audit-noise
    python benchmarks/audit.py memory --seeds 10 --out audit-memory

`honest` trains every mechanism on the embedded corpus at a small size while most of its users are
canaries. A run compares each bound with what is proven for its unit, delta and point of the curve,
and fails above it. The last mechanism is not honest: the noise of UeDP's released code, whose claim
an audit refutes. `texts` compares canary texts at equal cost, in models that are trained alike:
mean AUC and its standard error.

`noise` counts false alarms: taggers that `dp-sgd` trained under noise a million times the clip
bound. An audit at 95 % may be above 0 in 5 % of these trials; it exits with 1 where so many are
above 0 that a binomial of rate 5 % has as many or more with a probability of 2.5 % at most.
`memory` is its control: taggers that know their text by heart, where each audit finds something.

Runs that are finished in the output folder are not run again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
from scipy.stats import binom

from uedp_bench.attacks.audit.canaries import Design
from uedp_bench.contracts.results import Result
from uedp_bench.contracts.run_context import Speed
from uedp_bench.grid.scheduler import jobs_of, run_jobs
from uedp_bench.one_run.preparing import Execution
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

RATE, SIZE = 0.05, 0.025

HONEST = {
    "source": {"users": 120, "valid_users": 5, "test_users": 10, "public_users": 20},
    "model": ("lstm-small", {"vocabulary_size": 200, "units": 16, "embedding": 16}),
}
ROUNDS = {"rounds": 3, "users_per_round": 120}
RELEASED = {
    "rounds": 60, "users_per_round": 120, "noise": "released", "noise_multiplier": 10.0,
    "entity_rate": 0.1, "clip": 0.01, "local_learning_rate": 100.0, "server_optimizer": "adam",
    "server_learning_rate": 0.03,
}  # fmt: skip
WORDS = {"word_pool": 100, "canary_words": 4}
UPDATE = {"canary": "update", "canaries": 100}
USER = {"canary": "user", "canaries": 100, **WORDS}
RECORD = {"canary": "update", "canaries": 100, "user_rows": 1}
PAIR = {"canary": "entity", "spread": 1, "sentences": 2, "canaries": 55, **WORDS}
WIDE = {"canary": "entity", "spread": 3, "sentences": 1, "canaries": 28, **WORDS}
MECHANISMS: dict[str, tuple[dict[str, Any], float, tuple[dict[str, Any], ...]]] = {
    "user-dp": ({**ROUNDS, "noise_multiplier": 1.5}, 1e-5, (UPDATE, USER)),
    "uedp": (
        {**ROUNDS, "noise_multiplier": 0.02, "server_learning_rate": 100.0},
        1e-5,
        (UPDATE, USER, PAIR, WIDE),
    ),
    "uedp-group": ({"rounds": 3, "sampling_rate": 1.0}, 1e-5, (UPDATE, PAIR, WIDE)),
    "uedp-spread": ({**ROUNDS, "epsilon": 8.0}, 1e-5, (UPDATE, PAIR, WIDE)),
    "dp-sgd": ({"steps": 3, "batch_size": 400, "noise_multiplier": 1.0}, 1e-5, (RECORD,)),
    # One training refutes with confidence 1 - 1e-6 only where delta is far below that.
    "uedp (released)": (RELEASED, 1e-10, ({**USER, "user_rows": 1},)),
}

TEXTS = {
    "source": {"users": 300, "valid_users": 5, "test_users": 10, "public_users": 60},
    "model": ("lstm-small", {"vocabulary_size": 600, "units": 32, "embedding": 32}),
}
LEARNERS: dict[str, dict[str, Any]] = {
    "noiseless": {"epochs": 3, "batch_size": 32},
    "user-dp": {"rounds": 20, "users_per_round": 300, "noise_multiplier": 3.0},
}

TAGGERS: dict[str, Any] = {
    "source": {"users": 150, "sentences": 2, "public_users": 40, "valid_users": 5, "test_users": 5},
    "model": ("bilstm", {
        "vocabulary_size": 200, "units": 8, "embedding_size": 8, "character_filters": 8,
    }),
    "task": "tagging",
}  # fmt: skip
NOISE = {"steps": 3, "batch_size": 60, "noise_multiplier": 1e6, "learning_rate": 0.01}
BY_HEART = {"epochs": 60, "batch_size": 16, "learning_rate": 0.01}


def finished(
    options: argparse.Namespace,
    setting: dict[str, Any],
    mechanism: tuple[str, dict[str, Any]],
    audit: dict[str, Any],
    *,
    delta: float = 1e-5,
    chunk: int = 32,
) -> list[Result]:
    """Results of a mechanism under an audit, by seed; exits at the first failed run."""
    kinds = {"source": ("embedded", setting["source"]), "model": setting["model"]}
    spec = {
        **{kind: {"name": name, "params": params} for kind, (name, params) in kinds.items()},
        "task": setting.get("task", "next-word"),
        "mechanisms": [{"name": mechanism[0], "params": mechanism[1]}],
        "attacks": [{"name": "audit", "params": audit}],
        "seeds": list(range(1, options.seeds + 1)),
        "delta": delta,
    }
    settings = Execution(options.out, device="cpu", speed=Speed(threads=1, chunk=chunk))
    jobs = jobs_of(expand(parse_spec(spec)), options.out)
    results = [job.done for job in jobs if job.done is not None]
    results += [result for _, result in run_jobs(jobs, settings, workers=options.workers)]
    for result in results:
        if result.error is not None:
            sys.exit(f"{mechanism[0]}, {audit}: {result.error.message}")
    return results


def honest(options: argparse.Namespace) -> None:
    """Audit every mechanism by all of its canaries."""
    for label, (params, delta, audits) in MECHANISMS.items():
        mechanism = (label.split()[0], params)
        for audit in audits:
            results = finished(options, HONEST, mechanism, audit, delta=delta, chunk=128)
            print(f"{label}, {audit['canary']}: {len(results)} runs, 0 failed")


def texts(options: argparse.Namespace) -> None:
    """Print the table of canary texts."""
    print(f"| text | {' | '.join(f'AUC, {name}' for name in LEARNERS)} |")
    print("|---|" + "---|" * len(LEARNERS))
    for design in get_args(Design):
        audit = {"canaries": 200, "user_rows": 1, "word_pool": 300, "text": design}
        audit |= {"canary_words": 3} if design == "own-word" else {}
        cells = []
        for mechanism in LEARNERS.items():
            results = finished(options, TEXTS, mechanism, audit)
            values = [result.leakage["audit"]["auc"].value for result in results]
            error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
            cells.append(f"{np.mean(values):.3f} ± {error:.3f}")
        print(f"| `{design}` | {' | '.join(cells)} |")


def taggers(options: argparse.Namespace) -> None:
    """Print in how many trials an audit of taggers is above 0, and exit with 1 if it is wrong."""
    memorise, trials = options.what == "memory", options.seeds
    mechanism = ("noiseless", BY_HEART) if memorise else ("dp-sgd", NOISE)
    audit = {"canaries": 60, "user_rows": 1, "named": True}  # as the packaged spec `tagging`
    results = finished(options, TAGGERS, mechanism, audit)
    proven = [one.epsilon for each in results for one in each.guarantees if one.kind == "proven"]
    if not memorise and max(proven) > 1e-3:
        sys.exit("there is something to find: a proven epsilon is not 0")
    bounds = sorted(each.leakage["audit"]["epsilon_lower_bound"].value for each in results)
    above, most = sum(bound > 0.0 for bound in bounds), int(binom.isf(SIZE, trials, RATE))
    print(f"{above} of {trials} trials of 60 canaries are above 0, up to {bounds[-1]:.2f}", end="")
    if memorise:
        print(f", the median {bounds[trials // 2]:.2f}")
        sys.exit(above < trials)
    print(f"; more than {most} would refute a rate of {RATE:.0%}")
    sys.exit(above > most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = {"honest": honest, "texts": texts, "noise": taggers, "memory": taggers}
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("audits"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    kinds[options.what](options)


if __name__ == "__main__":
    main()
