"""CPU seconds of the same grid on one core: with one worker, and on a cluster of Ray of one node.

::

    python benchmarks/grid_on_ray.py --runs 8

Each side is a command of its own, in a session of its own; both are started `--turns` times in
turn. CPU seconds are those of all processes of the session, read every fifth of a second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

LOOK_SECONDS = 0.2
TICKS = os.sysconf("SC_CLK_TCK")
SIDES = {"one worker": ["--workers", "1"], "Ray": ["--on", "ray"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, and prints seconds and ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=8, help="seeds of user-dp")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each run")
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args(arguments)
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(asked.turns):
        for side, options in SIDES.items():
            with tempfile.TemporaryDirectory() as out:
                seconds[side].append(cpu_seconds(_command(asked, out, options)))
                if len(list(Path(out).glob("*/result.json"))) != asked.runs:
                    raise SystemExit(f"{side}: not all runs were done")
    middle = {side: statistics.median(each) for side, each in seconds.items()}
    more = middle["Ray"] - middle["one worker"]
    print(json.dumps({
        "runs": asked.runs, "rounds": asked.rounds, "cpu_seconds": seconds, "median": middle,
        "more_seconds": more, "ratio": middle["Ray"] / middle["one worker"],
    }, indent=1))  # fmt: skip


def _command(asked: argparse.Namespace, out: str, options: list[str]) -> list[str]:
    seeds = ",".join(map(str, range(1, asked.runs + 1)))
    return [
        sys.executable, "-m", "uedp_bench", "run", "--mechanism", "user-dp", "--set",
        f"mechanism.rounds={asked.rounds}", "--seeds", seeds, "--no-tracking", "--quiet", "--out",
        out, *options,
    ]  # fmt: skip


def cpu_seconds(command: list[str]) -> float:
    """CPU seconds of a command that runs on the first core alone, and of all that it starts."""
    core = min(os.sched_getaffinity(0))
    running = subprocess.Popen(
        command, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    last: dict[int, float] = {}
    while running.poll() is None:
        last |= _of_session(running.pid)
        time.sleep(LOOK_SECONDS)
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {running.returncode}")
    return sum(last.values())


def _of_session(session: int) -> dict[int, float]:
    """CPU seconds so far of every living process of a session, by its id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        if int(fields[3]) == session:
            found[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


if __name__ == "__main__":
    main()
