"""CPU seconds of one command of this project in two checkouts, in turns.

Each checkout has an environment of its own in `.venv`. Results go into a folder that is thrown
away. Give `--workers 0`: the script does not see what worker processes of a grid take.

    python benchmarks/two_checkouts.py BEFORE AFTER [--turns 2] -- \
      run quickstart --seeds 1 --workers 0 --no-tracking
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path


def seconds(checkout: Path, command: list[str]) -> float:
    """CPU seconds (user and system) of the command and of the processes that it waits for."""
    program = str(checkout.resolve() / ".venv" / "bin" / "uedp-bench")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [program, *command, "--out", folder], check=True, cwd=folder, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("command", nargs="+", help="after --: what uedp-bench is to do")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found: dict[Path, list[float]] = {options.before: [], options.after: []}
    for _ in range(options.turns):
        for checkout, used in found.items():
            used.append(seconds(checkout, options.command))
    pairs = zip(found[options.after], found[options.before], strict=True)
    share = statistics.median(after / before for after, before in pairs)
    if options.json:
        print(json.dumps({"share": share, **{str(k): v for k, v in found.items()}}))
        return
    print(f"{' '.join(options.command)}: {share:.2f} of the CPU seconds of {options.before}")


if __name__ == "__main__":
    main()
