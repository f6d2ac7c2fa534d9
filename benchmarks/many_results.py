"""Costs of many results for the leaderboard: CPU seconds of reading, pages written, and memory.

Results are the stored ones under other ids and with other numbers, in bundles of 500. Each step is
a process of its own: read; read and build; start the server.

    python benchmarks/many_results.py [--results 20000] [--json] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.sources import line_of, write_bundle

REFERENCE = Path(__file__).parents[1] / "leaderboard" / "results"
STEPS = ("read", "build", "serve")
IN_BUNDLE = 500
_MEASURED = ("utility", "leakage", "details", "cost")
_NUMBER = re.compile(r"(?<=[:\s,\[])(\d+\.\d{3,})(?=[,\s}\]])")


def make(folder: Path, first: int, last: int) -> None:
    """Write the results of these numbers into bundles."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = [one for one in load_results([REFERENCE]) if one.status == "finished"]
    for start in range(first, last, IN_BUNDLE):
        numbers = range(start, min(start + IN_BUNDLE, last))
        bundle = folder / f"{start:06d}.jsonl.gz"
        write_bundle(
            (copy(stored[at % len(stored)], at, at // len(stored)) for at in numbers), bundle
        )


def copy(result: Result, at: int, turn: int) -> Result:
    """The result under another id and with other numbers; seeds of one spec stay in one row."""
    rng = random.Random(at)  # noqa: S311
    base = json.loads(line_of(result))
    for part in _MEASURED:
        text = json.dumps(base.get(part, {}))
        text = _NUMBER.sub(lambda one: f"{float(one[1]) * rng.uniform(0.9, 1.1):.9f}", text)
        base[part] = json.loads(text)
    parts = base["provenance"].pop("identity", {"seed": base["spec"]["seed"], "old": base["id"]})
    parts["copy"] = base["spec"]["mechanism"][0]["params"]["copy"] = turn
    base["provenance"]["identity"] = parts
    base["id"], base["group"] = identity_of(parts)
    return Result.model_validate(base)


def step(name: str, folder: Path) -> dict[str, Any]:
    """One step, in this process."""
    from uedp_bench.cli.site import loader_of

    loader = loader_of([folder / "results"], None, None)
    out: dict[str, Any] = {}

    def timed(what: str, do: Any) -> Any:
        start = time.process_time()
        answer = do()
        out[what] = round(time.process_time() - start, 2)
        return answer

    if name == "serve":
        from uedp_bench.leaderboard.serve import LiveServer

        with LiveServer(loader, 0) as server:
            timed("start", server.site.refresh)
            out["pages made"] = sum(1 for _ in server.site.folder.rglob("*.html"))
    else:
        loaded = timed("reading", loader.load)
        out["results"] = len(loaded.copies)
        if name == "build":
            from uedp_bench.leaderboard.site import build, without_culprits

            show = partial(build, out=folder / "site")
            built, _ = timed("pages", lambda: without_culprits(loaded, show))
            out |= {"files": len(built.files), "written": len(built.written)}
    out["peak megabytes"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
    return out


def run(name: str, folder: Path) -> dict[str, Any]:
    """One step in a process of its own."""
    command = [sys.executable, __file__, "--step", name, "--keep", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    costs: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return costs


def measure(results: int, folder: Path) -> dict[str, Any]:
    """All steps, in their order."""
    if not (folder / "results").is_dir():
        make(folder / "results", 0, results)
    return {name: run(name, folder) for name in STEPS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.step, options.keep)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        costs = measure(options.results, options.keep or Path(temporary))
    if options.json:
        print(json.dumps(costs))
        return
    for name, values in costs.items():
        print(f"{name}: {', '.join(f'{key} {value}' for key, value in values.items())}")


if __name__ == "__main__":
    main()
