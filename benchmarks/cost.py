"""Measures what private training costs by model family, and predicts it for other machines.

    python benchmarks/cost.py measure [--quick] [--device cuda] [--out benchmarks/cost.json]
    python benchmarks/cost.py page docs/cost.md --plot docs/cost.svg
    python benchmarks/cost.py predict --users-per-round 1000 --gpus 1,8,64
    python benchmarks/cost.py check --device cuda

`measure` measures every family beside what the device does at best, and writes a file. `page`
fills the tables of a page from it. `predict` asks it for a run. `check` measures some points on a
device, and compares them with what the stored measurements predict for it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cost_design import points
from cost_families import arrays, families
from cost_measuring import in_a_fork, one_round
from cost_page import filled, plot
from cost_phases import rates
from cost_plan import Machine, Plan, Planner
from cost_store import PLANNED, STORED, How, both, measure, plan, prepare
from cost_workloads import Work


def page(options: argparse.Namespace) -> None:
    """Fills the tables of a page, and draws."""
    stored = both(options.stored)
    text = options.page.read_text(encoding="utf-8")
    options.page.write_text(filled(text, stored), encoding="utf-8")
    if options.plot:
        plot(stored, options.plot)


def predict(options: argparse.Namespace) -> None:
    """Prints the parts of a run on each number of GPUs."""
    stored = both(options.stored)
    counted = stored["plan"]
    if options.layers:
        sizes = {"layers": options.layers, "width": options.width}
        work = Work.of({**PLANNED.to_dict(), "sizes": sizes, "vocabulary": options.vocabulary,
                        "rows": options.rows, "tokens": options.tokens})  # fmt: skip
        counted = plan(work)
    planner = Planner(stored, counted)
    machine = Machine(flops=options.flops_per_gpu, bytes=options.bytes_per_gpu)
    asked = Plan(options.users, options.users_per_round, options.rounds, options.noise_source)
    found: dict[str, Any] = {
        str(gpus): planner.predict(asked, gpus, machine) for gpus in options.gpus
    }
    if options.json:
        told = {
            gpus: {"seconds": each.seconds, "low": each.low, "high": each.high,
                   "parts": each.parts, "takes_most": each.largest}
            for gpus, each in found.items()
        }  # fmt: skip
        print(json.dumps({"parameters": planner.parameters, "gpus": told,
                          "machine": vars(machine), "plan": vars(asked)}, indent=1))  # fmt: skip
        return
    print(f"predicted, not measured: {planner.parameters:,} weights, {planner.tokens:,} tokens a "
          f"user, {asked.cohort:,} of {asked.users:,} users in each of {asked.rounds:,} rounds\n"
          f"assumed: {machine.flops:.3g} FLOPs and {machine.bytes:.3g} bytes a second a GPU, in "
          f"float32; {machine.near:.3g} and {machine.far:.3g} bytes a second between GPUs of one "
          f"machine and of several; {machine.host:.3g} to the host; as good use of a GPU as of "
          "the CPU that was measured")  # fmt: skip
    for gpus, each in found.items():
        print(f"{gpus} GPUs: {each.seconds / 3600:.3g} hours ({each.low / 3600:.3g} to "
              f"{each.high / 3600:.3g})")  # fmt: skip
        for name, seconds in sorted(each.parts.items(), key=lambda part: -part[1]):
            print(f"  {100 * seconds / each.seconds:5.1f} %  {name}")


def check(options: argparse.Namespace) -> None:
    """Measures points on a device, beside what is predicted for it."""
    stored = both(options.stored)
    some = [each for each in points(tuple(options.families), quick=options.quick)
            if options.quick or each.role != "fitted"]  # fmt: skip
    prepare(some)
    here = in_a_fork(rates, options.device, options.quick)
    there = {name: float(np.median([each[name] for each in stored["rates"]])) for name in here}
    slower = np.array([
        max(here["call"] / there["call"], 1.0 if options.device != "cpu" else 0.0),
        there["flops"] / here["flops"], there["bytes"] / here["bytes"], 1.0,
    ])  # fmt: skip
    fits = {family.name: family for family in families(stored)}
    found = []
    for point in some:
        known = [each for each in fits[point.work.family].points
                 if each["work"] == point.work.to_dict()]  # fmt: skip
        if not known:
            continue
        counts, _ = arrays(known)
        fit = fits[point.work.family].fit
        low, high = fit.of_new(counts * slower)[:, 0]
        seconds = in_a_fork(one_round, point.work, options.device, 4)["seconds"]
        predicted = float(fit.seconds(counts * slower)[0])
        found.append({"family": point.work.family, "way": point.way, "role": point.role,
                      "predicted": predicted, "low": low, "high": high,
                      "measured": seconds})  # fmt: skip
    if options.json:
        print(json.dumps({"device": options.device, "rates": here, "points": found}, indent=1))
        return
    print(f"{options.device}: {here['flops']:.3g} FLOPs, {here['bytes']:.3g} bytes a second, "
          f"{here['call']:.3g} seconds a call")  # fmt: skip
    for each in found:
        print(f"{each['family']:28}{each['way']:22}{each['role']:16}predicted "
              f"{each['predicted']:.3g} ({each['low']:.3g} to {each['high']:.3g}), measured "
              f"{each['measured']:.3g}: {each['measured'] / each['predicted']:.2f}")  # fmt: skip


def measured(options: argparse.Namespace) -> None:
    """Measures everything into a file."""
    chosen = points(tuple(options.families), quick=options.quick)
    how = How(options.device, options.turns, options.quick, tuple(options.roles))
    found = measure(chosen, options.out, how)
    if options.json:
        print(json.dumps(found))


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)

    def command(name: str, function: Any, *, says: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=says, description=says)
        made.add_argument("--stored", type=Path, default=STORED, help="measurements to start from")
        made.add_argument("--json", action="store_true", help="print JSON")
        made.set_defaults(function=function)
        return made

    one = command("measure", measured, says="measure all families, and what a run does beside")
    one.add_argument("--turns", type=int, default=3, help="measurements of each point")
    one.add_argument("--roles", nargs="+", default=[""],
                     help="beginnings of the roles of points to measure, as 'fresh'")  # fmt: skip
    one.add_argument("--out", type=Path, default=STORED, help="file to write")
    other = command("check", check, says="compare predictions with measurements on a device")
    for each in (one, other):
        each.add_argument("--device", default="cpu", help="torch device")
        each.add_argument("--quick", action="store_true", help="sizes that only show that it runs")
        each.add_argument("--families", nargs="*", default=[], help="parts of families' names")
    filling = command("page", page, says="fill the tables of a page")
    filling.add_argument("page", type=Path)
    filling.add_argument("--plot", type=Path, help="an SVG file to write")
    ask = command("predict", predict, says="predict a run of GPT-2 on GPUs")
    ask.add_argument("--users", type=int, default=10**6, help="users of the population")
    ask.add_argument("--users-per-round", type=int, default=10**4)
    ask.add_argument("--rounds", type=int, default=2_000)
    ask.add_argument("--gpus", type=_numbers, default=[1, 8, 64], help="numbers by commas")
    ask.add_argument("--noise-source", choices=["seed", "os"], default="seed")
    ask.add_argument("--flops-per-gpu", type=float, default=Machine().flops,
                     help="sustained FLOPs of float32 a second")  # fmt: skip
    ask.add_argument("--bytes-per-gpu", type=float, default=Machine().bytes,
                     help="sustained bytes of memory a second")  # fmt: skip
    ask.add_argument("--layers", type=int, default=0,
                     help="another GPT-2: its operations are counted here first")  # fmt: skip
    ask.add_argument("--width", type=int, default=768)
    ask.add_argument("--vocabulary", type=int, default=50_257)
    ask.add_argument("--rows", type=int, default=4, help="rows of a local step")
    ask.add_argument("--tokens", type=int, default=100, help="tokens of a row")
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    sys.exit(main())
