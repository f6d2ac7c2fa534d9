"""Audits of honest mechanisms over many seeds: no lower bound may exceed what is proven.

Every mechanism is trained on the embedded corpus at a small size while most of its users are
canaries; a bound is compared with what is proven for its unit, delta and point of the curve. The
last row is no honest mechanism: the noise of UeDP's released code, whose claim an audit refutes.

    python benchmarks/audit.py [--seeds 20] [--out audits] [--workers 2] [--json]

Runs that are finished in the output folder are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.harness.execution import Execution
from uedp_bench.harness.grid import expand
from uedp_bench.harness.scheduler import jobs_of, run_jobs
from uedp_bench.harness.spec import parse_spec
from uedp_bench.results import LowerBound, Result
from uedp_bench.run_context import Speed

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


def run(seeds: int, out: Path, workers: int) -> dict[tuple[str, str], list[Result]]:
    """Results by mechanism and canary."""
    found: dict[tuple[str, str], list[Result]] = {}
    for label, (params, delta, attacks) in MECHANISMS.items():
        for attack in attacks:
            name = label.split()[0]
            spec = {
                "source": {"name": "embedded", "params": SOURCE},
                "model": {"name": "lstm-small", "params": MODEL},
                "mechanisms": [{"name": name, "params": params}],
                "attacks": [{"name": "audit", "params": attack}],
                "seeds": list(range(1, seeds + 1)),
                "delta": delta,
            }
            settings = Execution(out, device="cpu", speed=Speed(threads=1, chunk=128))
            start = time.perf_counter()
            jobs = jobs_of(expand(parse_spec(spec)), out)
            results = [job.done for job in jobs if job.done is not None]
            results += [result for _, result in run_jobs(jobs, settings, workers=workers)]
            spread = f" {attack['spread']}" if "spread" in attack else ""
            found[label, attack["canary"] + spread] = results
            seconds = time.perf_counter() - start
            print(f"{label}, {attack['canary']}{spread}: {seconds:.0f} s", flush=True)
    return found


def proven_for(result: Result, bound: LowerBound) -> float:
    """What is proven at the bound's unit, delta and point; for users, where that is proven."""
    units = {g.unit for g in result.guarantees if g.kind == "proven"}
    unit = bound.unit if bound.unit in units else "user-entity"
    spread = bound.spread or 0
    each = -(-(bound.sentences or 0) // spread) if spread else 1
    point = Protected(spread=spread, sentences_per_user=each)
    return proven_at(
        result.events, unit=unit, adjacency=bound.adjacency, delta=bound.delta, point=point
    )


def row(label: tuple[str, str], results: list[Result]) -> dict[str, Any]:
    """The largest bounds over the seeds, beside what is proven there, and who exceeded it."""
    errors = [result.error.message for result in results if result.error is not None]
    fine = [result for result in results if result.error is None]
    line: dict[str, Any] = {"mechanism": label[0], "canary": label[1], "seeds": len(results),
                            "errors": errors, "above": len(errors)}  # fmt: skip
    bounds = [
        (bound, proven_for(result, bound))
        for result in fine
        for bound in result.lower_bounds
        if not bound.assumptions and (bound.unit == "record") == (label[0] == "dp-sgd")
    ]
    line["above"] += sum((bound.strict_epsilon or 0.0) > proven for bound, proven in bounds)
    for delta in sorted({bound.delta for bound, _ in bounds}, reverse=True):
        here = [pair for pair in bounds if pair[0].delta == delta]
        line[f"{delta:g}"] = {
            "proven": here[0][1],
            "largest": max(bound.epsilon for bound, _ in here),
            "strict": max(bound.strict_epsilon or 0.0 for bound, _ in here),
        }
    claims = [g for result in fine for g in result.guarantees if g.kind == "claimed"]
    line["claimed"] = claims[0].epsilon if claims else None
    line["refuted"] = sum(claim.status == "refuted" for claim in claims)
    line["auc"] = sum(r.leakage["audit"]["auc"].value for r in fine) / max(len(fine), 1)
    return line


def show(lines: list[dict[str, Any]]) -> None:
    """The table in Markdown."""
    print("| mechanism | canary | AUC | delta | proven | largest bound, 95 % | strict | above |")
    print("|---|---|---|---|---|---|---|---|")
    for line in lines:
        for delta in [key for key in line if isinstance(line[key], dict)]:
            values = line[delta]
            cells = [line["mechanism"], line["canary"], f"{line['auc']:.2f}", delta,
                     *(_number(values[k]) for k in ("proven", "largest", "strict")),
                     f"{line['above']} of {line['seeds']}"]  # fmt: skip
            print("| " + " | ".join(cells) + " |")
        for error in line["errors"][:1]:
            print(f"\n{line['mechanism']}, {line['canary']}: {error}\n")
        if line["refuted"]:
            print(f"\n{line['mechanism']}: the claim {_number(line['claimed'])} is refuted in "
                  f"{line['refuted']} of {line['seeds']} runs\n")  # fmt: skip


def _number(value: float) -> str:
    return "inf" if math.isinf(value) else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("audits"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = run(given.seeds, given.out, given.workers)
    lines = [row(label, results) for label, results in found.items()]
    print(json.dumps(lines, indent=1, default=str)) if given.json else show(lines)


if __name__ == "__main__":
    main()
