"""Runs stored results again and compares all of their numbers but times and memory.

    python benchmarks/repeat_results.py reproductions/uedp-audit reproductions/uedp-ag --data data

Of each folder below `leaderboard/results` it takes the runs that took the least processor time, one
a mechanism that trains, two at most (`--runs`). It prints how many numbers there are, how many
differ at all, and the largest difference relative to the larger number. Other processors round
otherwise, and a training carries that on. Runs go to `runs/repeated`, and what is there is not run
again.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from printed_tables import table
from reference import minutes

from uedp_bench.harness.execution import Execution
from uedp_bench.harness.runner import execute
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.run_context import Speed

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "leaderboard" / "results"
NOT_COMPARED = ("cost", "provenance", "tracking")
"""Fields of a result that say where and how fast it was made."""
WITHOUT_TRAINING = ("majority", "public-only")


def chosen(results: Iterable[Result], most: int) -> list[Result]:
    """The quickest finished run of each mechanism that trains, the `most` quickest of them."""
    found: dict[str, Result] = {}
    for result in sorted(results, key=taken):
        name = result.spec.mechanism[-1].name
        if result.status == "finished" and name not in WITHOUT_TRAINING:
            found.setdefault(name, result)
    return list(found.values())[:most]


def taken(result: Result) -> float:
    """Minutes that a run took, as the table of parts counts them."""
    return minutes([result.model_dump(mode="json")])[0]


def numbers(value: Any, where: str = "") -> Iterator[tuple[str, float]]:
    """Numbers of a part of a result, and where they stand."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(each, f"{where}.{key}")
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from numbers(each, f"{where}.{at}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield where, float(value)


def numbers_of(result: Result) -> dict[str, float]:
    """All numbers of a result but those of `NOT_COMPARED`, by where they stand."""
    return dict(numbers(result.model_dump(mode="json", exclude=set(NOT_COMPARED))))


def difference(one: float, other: float) -> float:
    """Distance of two numbers, relative to the larger; infinite where one of them is not finite."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    far = abs(one - other) / max(abs(one), abs(other))
    return far if math.isfinite(far) else math.inf


def compared(stored: Result, again: Result) -> tuple[int, int, int, float, float]:
    """Numbers in both, those that differ, those that only one has, and the largest differences.

    The first of these is of utility alone: scores near zero differ by much of what they are.
    """
    one, other = numbers_of(stored), numbers_of(again)
    apart = {key: difference(one[key], other[key]) for key in one.keys() & other.keys()}
    useful = max(far for key, far in apart.items() if key.startswith(".utility."))
    differ, lone = sum(far > 0 for far in apart.values()), len(one.keys() ^ other.keys())
    return len(apart), differ, lone, useful, max(apart.values())


def repeated(result: Result, out: Path) -> Result:
    """The result of the same run, done now or found in the folder."""
    for there in load_results([out]) if out.is_dir() else ():
        if there.spec == result.spec and there.status == "finished":
            return there
    return execute(result.spec, Execution(out, device="cpu", speed=Speed(threads=1)))


def main(given: Sequence[str] | None = None) -> None:
    """Repeats runs of the folders that are named, and prints a row for each."""
    read = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    read.add_argument("folders", nargs="+", help="below leaderboard/results")
    read.add_argument("--data", type=Path, default=HERE / "data", help="folder of data sets")
    read.add_argument("--runs", type=int, default=2, help="most runs of a folder; default: 2")
    read.add_argument("--results", type=Path, default=RESULTS, help="folder of stored results")
    read.add_argument("--out", type=Path, default=HERE / "runs" / "repeated")
    asked = read.parse_args(given)
    results, out, data = (path.resolve() for path in (asked.results, asked.out, asked.data))
    out.mkdir(parents=True, exist_ok=True)
    if data.is_dir() and not (out / "data").exists():
        (out / "data").symlink_to(data)
    os.chdir(out)  # specs of stored results name their files as data/...
    rows = []
    for folder in asked.folders:
        for stored in chosen(load_results([results / folder]), asked.runs):
            again = repeated(stored, out / folder)
            name = "+".join(part.name for part in stored.spec.mechanism)
            row = [folder, f"{name}, seed {stored.spec.seed}"]
            if again.status == "finished":
                both, differ, lone, *largest = compared(stored, again)
                row += [f"{count:,}" for count in (both, differ, lone)]
                row += [f"{far:.1g}" for far in largest]
            else:
                row += [again.status, "–", "–", "–", "–"]
            rows.append(row)
    head = ["folder", "run", "numbers", "differ", "in one only"]
    table([*head, "largest of utility", "largest of all"], rows)


if __name__ == "__main__":
    main()
