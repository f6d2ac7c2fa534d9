"""The stored measurements: a file of JSON that everything else on the page is computed from.

{"machine": ..., "points": [{"work", "role", "counts", "seconds": [...], "memory_mb": [...]}],
 "phases": {name: [{"seconds", ...}]}, "rates": [...], "plan": {"work", "round", "user", ...}}
"""

from __future__ import annotations

import json
import platform
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from cost_counting import Counts
from cost_design import SMALL, Point
from cost_measuring import counted, in_a_fork, one_round
from cost_phases import PHASES, phase, rates
from cost_workloads import Work, learner_of

from uedp_bench.version import __version__

STORED = Path(__file__).with_name("cost.json")
"""Measurements of the page."""

PLANNED = Work("next-word gpt2", SMALL, 50_257, 1, 4, 4, 100)
"""A user of the run that the page plans: GPT-2 small, 16 rows of 100 tokens, four local steps."""

Stored = dict[str, Any]


def load(path: Path = STORED) -> Stored:
    """Measurements that were stored."""
    found: Stored = json.loads(path.read_text(encoding="utf-8"))
    return found


def save(found: Stored, path: Path) -> None:
    """Stores them, a point a line."""
    points = ",\n  ".join(json.dumps(point) for point in found["points"])
    rest = {name: value for name, value in found.items() if name != "points"}
    lines = [f' "{name}": {json.dumps(value)}' for name, value in rest.items()]
    text = "{\n" + ",\n".join([*lines, f' "points": [\n  {points}\n ]']) + "\n}\n"
    path.write_text(text, encoding="utf-8")


def prepare(points: Sequence[Point]) -> None:
    """Imports in this process what its forks need: libraries that families load late."""
    torch.set_num_threads(1)
    for family in dict.fromkeys(point.work.family for point in points):
        work = next(point.work for point in points if point.work.family == family)
        learner_of(Work.of({**work.to_dict(), "users": 2, "rows": 1, "tokens": 4}))


def measure(points: Sequence[Point], path: Path, *, device: str, turns: int, quick: bool) -> Stored:
    """Measures all points and phases in random order, turn by turn; the file grows on the way."""
    prepare(points)
    found: Stored = {
        "machine": {"device": _device(device), "torch": torch.__version__, "version": __version__},
        "device": device, "phases": {name: [] for name in PHASES}, "rates": [], "plan": {},
    }  # fmt: skip
    found["points"] = [
        {"work": point.work.to_dict(), "role": point.role, "way": point.way,
         "counts": {}, "seconds": [], "memory_mb": []}
        for point in points
    ]  # fmt: skip
    for turn in range(turns):
        work: list[int | str] = [*range(len(points)), *PHASES, *["rates"] * 3]
        random.Random(turn).shuffle(work)  # noqa: S311 - the order of measurements
        for number, each in enumerate(work):
            if number % 20 == 0:
                print(f"turn {turn + 1} of {turns}: {number} of {len(work)}", flush=True)
                save(found, path)
            if each == "rates":
                found["rates"].append(_rounded(in_a_fork(rates, device, quick)))
            elif isinstance(each, str):
                found["phases"][each].append(_rounded(in_a_fork(phase, each, quick)))
            else:
                _measure_point(found["points"][each], device, quick)
    found["plan"] = {} if quick else plan(PLANNED)
    save(found, path)
    return found


def _measure_point(point: Stored, device: str, quick: bool) -> None:
    work = Work.of(point["work"])
    got = _rounded(in_a_fork(one_round, work, device, 2 if quick else 4))
    point["seconds"].append(got["seconds"])
    point["memory_mb"].append(got["memory_mb"])
    if not point["counts"]:
        point["counts"] = in_a_fork(counted, work)


def plan(work: Work) -> Stored:
    """Counts of a round: those of its fixed work, and those of each user; taken on the CPU.

    Raises:
        ValueError: if two users do not ask for about twice as much as one: with one local step,
            users that go through the network together are clipped in another way than one alone.
    """
    one, two = (in_a_fork(counted, Work.of({**work.to_dict(), "users": users})) for users in (1, 2))
    parameters = int(one.pop("parameters"))
    two.pop("parameters")
    of_user = Counts(**two).plus(Counts(**one), -1.0)
    of_round = Counts(**one).plus(of_user, -1.0)
    if of_round.flops < -0.01 * of_user.flops:
        raise ValueError("cost does not grow in proportion to users here: take several local steps")
    return {
        "work": work.to_dict(), "parameters": parameters,
        "round": vars(of_round), "user": vars(of_user),
    }  # fmt: skip


def _rounded(found: Stored) -> Stored:
    return {name: float(f"{value:.5g}") for name, value in found.items()}


def _device(device: str) -> str:
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name())
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip() + ", one thread"
    return platform.machine()
