"""Canary texts compared: the lower bounds that an audit finds by them, at equal cost.

Every design is planted as whole users of the embedded corpus, as many of each, one row a user, and
looked for in models that are trained alike: without noise, and by user-level DP. Each row is the
mean over seeds, with its standard error.

    python benchmarks/audit_texts.py [--seeds 5] [--workers 1] [--out audit-texts]

Runs that are finished in the output folder are not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

import numpy as np

from uedp_bench.attacks.audit.texts import Design
from uedp_bench.contracts.results import Result
from uedp_bench.contracts.run_context import Speed
from uedp_bench.grid.scheduler import jobs_of, run_jobs
from uedp_bench.one_run.execution import Execution
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

CANARIES = 200
SOURCE = {"users": 300, "valid_users": 5, "test_users": 10, "public_users": 60}
MODEL = {"vocabulary_size": 600, "units": 32, "embedding": 32}
AUDIT = {"canaries": CANARIES, "user_rows": 1, "word_pool": 300}
LENGTHS = {"own-word": {"canary_words": 3}}
MECHANISMS: dict[str, dict[str, Any]] = {
    "noiseless": {"epochs": 3, "batch_size": 32},
    "user-dp": {"rounds": 20, "users_per_round": 300, "noise_multiplier": 3.0},
}


def results(seeds: int, workers: int, out: Path) -> dict[tuple[str, str], list[Result]]:
    """Results by mechanism and design."""
    by_row: dict[tuple[str, str], list[Result]] = {}
    for mechanism, params in MECHANISMS.items():
        for design in get_args(Design):
            audit = {**AUDIT, **LENGTHS.get(design, {}), "text": design}
            spec = {
                "source": {"name": "embedded", "params": SOURCE},
                "model": {"name": "lstm-small", "params": MODEL},
                "mechanisms": [{"name": mechanism, "params": params}],
                "attacks": [{"name": "audit", "params": audit}],
                "seeds": list(range(1, seeds + 1)),
            }
            settings = Execution(out, device="cpu", speed=Speed(threads=1))
            jobs = jobs_of(expand(parse_spec(spec)), out)
            finished = [job.done for job in jobs if job.done is not None]
            finished += [result for _, result in run_jobs(jobs, settings, workers=workers)]
            by_row[mechanism, design] = finished
    return by_row


def cell(values: list[float]) -> str:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{np.mean(values):.3f} ± {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("audit-texts"))
    options = parser.parse_args()
    by_row = results(options.seeds, options.workers, options.out)
    print(f"| text | {' | '.join(f'AUC, {name}' for name in MECHANISMS)} |")
    print("|---|" + "---|" * len(MECHANISMS))
    for design in get_args(Design):
        cells = []
        for mechanism in MECHANISMS:
            rows = by_row[mechanism, design]
            if any(row.error is not None for row in rows):
                raise RuntimeError(next(row.error.message for row in rows if row.error))
            cells.append(cell([row.leakage["audit"]["auc"].value for row in rows]))
        print(f"| `{design}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
