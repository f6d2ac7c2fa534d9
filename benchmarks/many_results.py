"""What many results cost the leaderboard: CPU seconds of reading, pages written, and memory.

Results are the stored ones under other ids and with other numbers, in files of the same form. Each
step is a process of its own: read and build for the first time; read and build again, with one new
result; serve, and one more result arrives.

    python benchmarks/many_results.py [--results 20000] [--json] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
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

REFERENCE = Path(__file__).parents[1] / "leaderboard" / "results"
STEPS = ("read", "build", "serve")
_NUMBER = re.compile(r"(?<=[:\s])(\d+\.\d{3,})(?=[,\s])")


def make(folder: Path, first: int, last: int) -> None:
    """Writes the results of these numbers, each in the folder of its id."""
    from uedp_bench.harness.identity import identity_of

    known = [file.read_text() for file in sorted(REFERENCE.rglob("result.json"))]
    known = [text for text in known if '"status": "finished"' in text]
    for at in range(first, last):
        text, rng = known[at % len(known)], random.Random(at)  # noqa: S311
        text = _NUMBER.sub(lambda found: f"{float(found[1]) * rng.uniform(0.9, 1.1):.9f}", text)  # noqa: B023
        base = json.loads(text)
        # Seeds of one spec stay beside each other in a row.
        turn = at // len(known)
        parts = base["provenance"].pop(
            "identity", {"seed": base["spec"]["seed"], "old": base["group"]}
        )
        parts["copy"] = base["spec"]["mechanism"][0]["params"]["copy"] = turn
        base["provenance"]["identity"] = parts
        base["id"], base["group"] = identity_of(parts)
        path = folder / base["id"] / "result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(base))


def step(name: str, folder: Path, new: int) -> dict[str, Any]:
    """One step, in this process."""
    from uedp_bench.cli.sources import loader_of

    loader = loader_of([folder / "results"], None, None)
    out: dict[str, Any] = {}

    def timed(what: str, do: Any) -> Any:
        start = time.process_time()
        found = do()
        out[what] = round(time.process_time() - start, 2)
        return found

    if name == "serve":
        from uedp_bench.leaderboard.serve import LiveSite

        site = LiveSite(loader, folder / "live")
        timed("first look", site.refresh)
        make(folder / "results", new, new + 1)
        before = dict(site._site.versions)
        timed("one new result", site.refresh)
        after = site._site.versions
        out["written"] = sum(before.get(file) != version for file, version in after.items())
    else:
        loaded = timed("reading", loader.load)
        out["results"] = len(loaded.copies)
        if name == "build":
            from uedp_bench.leaderboard.leaving_out import without_culprits
            from uedp_bench.leaderboard.site import Site

            site_of = Site(folder / "site")
            built, _ = timed(
                "pages",
                lambda: without_culprits(loaded, partial(site_of.update, copies=loaded.copies)),
            )
            out |= {"files": len(built.files), "written": len(built.written)}
    out["peak megabytes"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
    return out


def run(name: str, folder: Path, new: int) -> dict[str, Any]:
    """One step in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--step",
        name,
        "--keep",
        str(folder),
        "--results",
        str(new),
    ]
    environment = os.environ | {"UEDP_BENCH_CACHE": str(folder / "cache")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(results: int, folder: Path, steps: tuple[str, ...] = STEPS) -> dict[str, Any]:
    """All steps, in their order."""
    if not (folder / "results").is_dir():
        make(folder / "results", 0, results)
    found = {}
    for name in steps:
        found[f"{name}, first"] = run(name, folder, results)
        if name != "serve":
            results += 1
            make(folder / "results", results - 1, results)
            found[f"{name}, one new result"] = run(name, folder, results)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(step(given.step, given.keep, given.results)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(given.results, given.keep or Path(temporary), tuple(given.steps))
    if given.json:
        print(json.dumps(found))
        return
    for name, values in found.items():
        print(f"{name}: {', '.join(f'{key} {value}' for key, value in values.items())}")


if __name__ == "__main__":
    main()
