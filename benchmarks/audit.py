"""Audits of honest mechanisms over many seeds: no lower bound may exceed what is proven.

Every mechanism is trained on the embedded corpus at a small size while most of its users are
canaries. A run compares each bound with what is proven for its unit, delta and point of the curve,
and fails above it. The last mechanism is not honest: the noise of UeDP's released code, whose claim
an audit refutes.

    python benchmarks/audit.py [--seeds 20] [--out audits] [--workers 2]

Runs that are finished in the output folder are not run again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from uedp_bench.contracts.run_context import Speed
from uedp_bench.grid.scheduler import jobs_of, run_jobs
from uedp_bench.one_run.execution import Execution
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

SOURCE = {"users": 120, "valid_users": 5, "test_users": 10, "public_users": 20}
MODEL = {"vocabulary_size": 200, "units": 16, "embedding": 16}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("audits"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    settings = Execution(options.out, device="cpu", speed=Speed(threads=1, chunk=128))
    for label, (params, delta, attacks) in MECHANISMS.items():
        spec = {
            "source": {"name": "embedded", "params": SOURCE},
            "model": {"name": "lstm-small", "params": MODEL},
            "mechanisms": [{"name": label.split()[0], "params": params}],
            "seeds": list(range(1, options.seeds + 1)),
            "delta": delta,
        }
        for attack in attacks:
            audited = parse_spec({**spec, "attacks": [{"name": "audit", "params": attack}]})
            jobs = jobs_of(expand(audited), options.out)
            results = [job.done for job in jobs if job.done is not None]
            results += [result for _, result in run_jobs(jobs, settings, workers=options.workers)]
            failed = [result.error.message for result in results if result.error is not None]
            print(f"{label}, {attack['canary']}: {len(results)} runs, {len(failed)} failed")
            if failed:
                sys.exit(failed[0])


if __name__ == "__main__":
    main()
