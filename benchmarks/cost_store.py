"""The stored measurements: files of JSON that everything else on the page is computed from.

{"machine": ..., "points": [{"work", "role", "counts", "seconds": [...], "memory_mb": [...]}],
 "phases": {name: [{"seconds", ...}]}, "rates": [...], "plan": {"work", "round", "user", ...},
 "held": {"rows": [[rows of a step, bytes]], "users": [[way, users, bytes]]}}
"""

from __future__ import annotations

import json
import os
import platform
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cost_counting import Counts
from cost_design import SMALL, WAYS, Point
from cost_measuring import counted, in_a_fork, one_round
from cost_phases import PHASES, phase, rates
from cost_workloads import Work, learner_of

from uedp_bench.randomness.streams import Stream
from uedp_bench.version import __version__

STORED = Path(__file__).with_name("cost.json")
"""Measurements that laws are fitted to."""

OTHER = Path(__file__).with_name("cost_other_cpu.json")
"""Measurements on another CPU, which laws are to predict."""

PLANNED = Work("next-word gpt2", SMALL, 50_257, 1, 4, 4, 100)
"""A user of the run that the page plans: GPT-2 small, 16 rows of 100 tokens, four local steps."""

Stored = dict[str, Any]


def load(path: Path = STORED) -> Stored:
    """Measurements that were stored."""
    found: Stored = json.loads(path.read_text(encoding="utf-8"))
    return found


def both(path: Path = STORED) -> Stored:
    """The same, with those on the other CPU as `other`."""
    return {**load(path), "other": load(OTHER)}


def save(found: Stored, path: Path) -> None:
    """Stores them, a point a line."""
    points = ",\n  ".join(json.dumps(point) for point in found["points"])
    rest = {name: value for name, value in found.items() if name != "points"}
    lines = [f' "{name}": {json.dumps(value)}' for name, value in rest.items()]
    text = "{\n" + ",\n".join([*lines, f' "points": [\n  {points}\n ]']) + "\n}\n"
    path.write_text(text, encoding="utf-8")


def prepare(points: Sequence[Point]) -> None:
    """Imports in this process what its forks need: libraries that are loaded late."""
    torch.set_num_threads(1)
    Stream.root(1, "cost", "os").rng("noise")
    for family in dict.fromkeys(point.work.family for point in points):
        work = next(point.work for point in points if point.work.family == family)
        learner_of(Work.of({**work.to_dict(), "users": 2, "rows": 1, "tokens": 4}))


@dataclass(frozen=True)
class How:
    """How to measure.

    Attributes:
        device: of torch.
        turns: measurements of each point.
        quick: only to see that it runs.
        roles: beginnings of the roles of points that are measured; all by default.
    """

    device: str = "cpu"
    turns: int = 1
    quick: bool = False
    roles: tuple[str, ...] = ("",)


def measure(points: Sequence[Point], path: Path, how: How) -> Stored:
    """Measures points and phases in random order, turn by turn; the file grows on the way.

    A file that is there already goes on where it ended. What it lacks of a turn is measured.

    Raises:
        ValueError: if the file is of another machine, or of other points.
    """
    prepare(points)
    found = _begun(points, path, how.device)
    device, quick = how.device, how.quick
    todo = [(turn, each) for turn in range(how.turns) for each in _order(found, turn)]
    left = [
        (turn, each)
        for turn, each in todo
        if len(_got(found, each)) <= turn
        and (isinstance(each, str) or found["points"][each]["role"].startswith(how.roles))
    ]
    for number, (turn, each) in enumerate(left):
        if number % 5 == 0:
            print(f"turn {turn + 1} of {how.turns}: {len(left) - number} are left", flush=True)
            found["load"].append(round(os.getloadavg()[0], 2))
            save(found, path)
        if isinstance(each, str) and each.startswith(RATES):
            found["rates"].append(_rounded(in_a_fork(rates, device, quick)))
        elif isinstance(each, str):
            found["phases"][each].append(_rounded(in_a_fork(phase, each, quick)))
        else:
            point = found["points"][each]
            work = Work.of(point["work"])
            got = _rounded(in_a_fork(one_round, work, device, 2 if quick else 4))
            point["seconds"].append(got["seconds"])
            point["memory_mb"].append(got["memory_mb"])
    save(found, path)
    count(found, path)
    if not quick and not found["plan"]:
        found["plan"] = plan(PLANNED)
        save(found, path)
    if not quick and not found["held"]:
        found["held"] = held()
        save(found, path)
    return found


def held() -> Stored:
    """Bytes that tensors of a round hold: of GPT-2 small by rows of a step, and by users.

    Users are those of a GPT-2 of 0.2 million weights, since users of a large one train alone.
    """
    few = Work("next-word gpt2", {"layers": 2, "width": 64}, 2_000, 1, 1, 4, 20)

    def of(work: Work, **other: int) -> float:
        return float(in_a_fork(counted, Work.of({**work.to_dict(), **other}))["held"])

    return {
        "rows": [[rows, of(PLANNED, steps=2, rows=rows)] for rows in HELD_ROWS],
        "users": [[way, users, of(few, users=users, steps=number)]
                  for number, way in enumerate(WAYS, start=1) for users in HELD_USERS],
    }  # fmt: skip


def count(found: Stored, path: Path) -> None:
    """Counts what was not counted yet: no other work of the machine moves a count."""
    for number, point in enumerate(found["points"]):
        if not point["counts"]:
            point["counts"] = in_a_fork(counted, Work.of(point["work"]))
        if number % 20 == 0:
            save(found, path)
    save(found, path)


RATES, TIMES = "rates ", 3
"""A device's rates are measured so often in a turn."""

HELD_ROWS, HELD_USERS = (1, 2, 4), (1, 4, 16, 64)
"""Rows of a step and users of a round whose memory is counted."""


def _order(found: Stored, turn: int) -> list[int | str]:
    rates = [f"{RATES}{number}" for number in range(TIMES)]
    work: list[int | str] = [*range(len(found["points"])), *PHASES, *rates]
    random.Random(turn).shuffle(work)  # noqa: S311 - the order of measurements
    return work


def _got(found: Stored, each: int | str) -> list[Any]:
    """What a thing was measured to take."""
    if isinstance(each, int):
        return list(found["points"][each]["seconds"])
    if each.startswith(RATES):
        return list(found["rates"][int(each.removeprefix(RATES)) :: TIMES])
    return list(found["phases"][each])


def _begun(points: Sequence[Point], path: Path, device: str) -> Stored:
    machine = {"device": _device(device), "torch": torch.__version__, "version": __version__}
    every = [
        {"work": point.work.to_dict(), "role": point.role, "way": point.way,
         "counts": {}, "seconds": [], "memory_mb": []}
        for point in points
    ]  # fmt: skip
    if not path.exists():
        return {
            "machine": machine, "device": device, "phases": {name: [] for name in PHASES},
            "rates": [], "load": [], "plan": {}, "held": {}, "points": every,
        }  # fmt: skip
    found = load(path)
    if found["machine"] != machine:
        raise ValueError(f"{path} was measured on {found['machine']}, and this is {machine}")
    if [point["work"] for point in found["points"]] != [point["work"] for point in every]:
        raise ValueError(f"{path} has other points: choose another file")
    return found


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
    cpu: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        cpu.setdefault(name.strip(), value.strip())
    if "model name" not in cpu:
        return platform.machine()
    # Virtual machines hide the rest of the name: family and model tell generations apart.
    return f"{cpu['model name']}, family {cpu['cpu family']}, model {cpu['model']}, one thread"
