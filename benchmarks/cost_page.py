"""The tables and the plot of `docs/cost.md`, made of the stored measurements alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cost_design import FRESH, WAYS
from cost_families import Family, arrays, families, measured, of_a_user, phase, repeats
from cost_model import interval_of
from cost_other_tables import TABLES as OTHER_TABLES
from cost_other_tables import off
from cost_plan import Machine, Plan, Planner
from cost_tables import between, rows, sig

COHORTS, GPUS = (1_000, 10_000), (1, 8, 64)
DELTA, NOISE = 1e-7, 1.0
MARKED = re.compile(r"(<!-- cost: ([\w ]+) -->\n)(.*?)(<!-- end of cost -->)", re.DOTALL)

Stored = Mapping[str, Any]


def filled(page: str, stored: Stored) -> str:
    """A page whose marked tables are those of the measurements (`cost_store.both`)."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]](stored) + found[4], page)


def by_user(stored: Stored) -> str:
    """A line for each family and way: what one user of a round takes, at one size."""
    lines = []
    for family in families(stored):
        for way in WAYS:
            found = [each for each in family.of_role("same range") if each["way"] == way]
            for point in found:
                work = point["work"]
                tokens = work["steps"] * work["rows"] * work["tokens"]
                flops = point["counts"]["flops"] / work["users"]
                own = of_a_user(point)
                spread = max(point["seconds"]) / min(point["seconds"])
                memory = float(np.median(point["memory_mb"]))
                lines.append([
                    family.name, way.split()[0], f"{point['counts']['parameters'] / 1e6:.2f}",
                    f"{work['vocabulary']:,}", str(tokens), sig(own * 1e3), f"{spread:.2f}",
                    sig(flops / 1e9), sig(flops / own / 1e9), sig(memory),
                ])  # fmt: skip
    head = ["family", "local steps", "million weights", "words", "tokens a user", "CPU ms a user",
            "most / least", "GFLOP a user", "GFLOP a CPU second", "memory, MB"]  # fmt: skip
    return rows(head, lines)


def laws(stored: Stored) -> str:
    """The terms of each family with their intervals."""
    units = (1e6, 1e12, 1e12, 1e9)
    lines = []
    for family in families(stored):
        ends = interval_of(family.fit.resampled.T)
        cells = [
            f"{sig(term * unit)} ({between(low * unit, high * unit)})"
            for term, unit, low, high in zip(family.fit.terms, units, *ends, strict=True)
        ]
        near = float(np.median(np.abs(np.log(family.fit.spread))))
        lines.append([family.name, *cells, f"{100 * (np.exp(near) - 1):.0f}"])
    head = ["family", "a, µs a call", "b, ps a FLOP", "c, ps a byte", "d, ns a weight", "off by, %"]
    return rows(head, lines)


def held_out(stored: Stored) -> str:
    """Points that no fit has seen."""
    lines = []
    for family in families(stored):
        others = [point for point in family.points if point["role"] != "fitted"]
        lines += [_compared(family, point) for point in others]
    head = ["family", "local steps", "which", "million weights", "predicted, s", "95 % interval",
            "measured, s", "measured / predicted"]  # fmt: skip
    return rows(head, lines) + "\n" + _summary(stored)


def outside(stored: Stored) -> tuple[list[float], int]:
    """Measured over predicted of points left out, and how many lie in their interval."""
    ratios, inside = [], 0
    for family in families(stored):
        others = [point for point in family.points if point["role"] != "fitted"]
        if not others:
            continue
        counts, seconds = arrays(others)
        low, high = family.fit.of_new(counts)
        ratios += (seconds / family.fit.seconds(counts)).tolist()
        inside += int(((low <= seconds) & (seconds <= high)).sum())
    return ratios, inside


def _summary(stored: Stored) -> str:
    ratios, inside = outside(stored)
    return f"{inside} of {len(ratios)} measured points lie in their interval. {off(ratios)}.\n"


def _compared(family: Family, point: Stored) -> list[str]:
    counts, (seconds,) = arrays([dict(point)])
    (predicted,), ((low,), (high,)) = family.fit.seconds(counts), family.fit.of_new(counts)
    return [
        family.name, point["way"].split()[0], point["role"],
        f"{point['counts']['parameters'] / 1e6:.2f}", sig(predicted), between(low, high),
        sig(seconds), f"{seconds / predicted:.2f}",
    ]  # fmt: skip


UNITS = {
    "noise, seed": ("a weight and round", 1e9, "ns"),
    "noise, os": ("a weight and round", 1e9, "ns"),
    "sampling, seed": ("a user of the population and round", 1e9, "ns"),
    "sampling, os": ("a user of the population and round", 1e9, "ns"),
    "drawing, seed": ("a user of a round", 1e6, "µs"),
    "drawing, os": ("a user of a round", 1e6, "µs"),
    "accounting": ("a run of 2,000 rounds", 1.0, "s"),
    "checkpoint": ("a weight and checkpoint", 1e9, "ns"),
    "digest": ("a weight and run", 1e9, "ns"),
    "reading": ("a token and run", 1e6, "µs"),
    "scoring": ("a token of a GPT-2 of 6.8 million weights", 1e6, "µs"),
}


def phases(stored: Stored) -> str:
    """The table of all work beside products, on the other CPU."""
    lines = []
    for name, (per, unit, short) in UNITS.items():
        middle, least, most = (value * unit for value in phase(stored["other"], name))
        lines.append([name, per, f"{sig(middle)} {short}", between(least, most)])
    return rows(["what", "per", "CPU time", "least to most"], lines)


def best(stored: Stored) -> str:
    """The table of the best rates of the CPU."""
    found = [("products of float32", "flops", 1e9, "GFLOP a second"),
             ("sums of long vectors", "bytes", 1e9, "GB a second"),
             ("a call of torch", "call", 1e6, "µs")]  # fmt: skip
    lines = []
    for what, name, unit, said in found:
        each = [one[name] * (unit if name == "call" else 1 / unit) for one in stored["rates"]]
        lines.append([what, f"{sig(float(np.median(each)))} {said}",
                      between(min(each), max(each))])  # fmt: skip
    planner = _planner(stored)
    said = (
        f"GPT-2 takes {planner.excess[0]:.2f} times what its FLOPs, and {planner.excess[1]:.2f} "
        "times what its bytes would take at these rates.\n"
    )
    return rows(["what", "median", "least to most"], lines) + "\n" + said


def _planner(stored: Stored) -> Planner:
    return Planner(stored, stored["plan"])


def _gpus(number: int) -> str:
    return f"{number} GPU" if number == 1 else f"{number} GPUs"


def _hours(seconds: float) -> str:
    return sig(seconds / 3600)


def runs(stored: Stored, machine: Machine | None = None) -> str:
    """Hours of the run by GPUs, users of a round and source of noise."""
    planner, machine = _planner(stored), machine or Machine()
    lines = []
    for cohort in COHORTS:
        for source in ("seed", "os"):
            for gpus in GPUS:
                plan = Plan(cohort=cohort, source=source)
                found = planner.predict(plan, gpus, machine)
                share = found.parts[found.largest] / found.seconds
                lines.append([
                    f"{cohort:,}", source, str(gpus), _hours(found.seconds),
                    between(found.low / 3600, found.high / 3600),
                    _hours(gpus * found.seconds),
                    f"{found.largest}, {100 * share:.0f} %",
                ])  # fmt: skip
    head = ["users a round", "noise source", "GPUs", "hours", "95 % interval", "GPU hours",
            "takes most"]  # fmt: skip
    return rows(head, lines)


def parts(stored: Stored) -> str:
    """Hours of each part of one run, on 1, 8 and 64 GPUs."""
    planner, machine, plan = _planner(stored), Machine(), Plan(source="os")
    found = [planner.predict(plan, gpus, machine).parts for gpus in GPUS]
    names = sorted(found[0], key=lambda name: -found[-1][name])
    lines = [[name, *(_hours(each[name]) for each in found)] for name in names]
    return rows(["hours of", *map(_gpus, GPUS)], lines)


def moves(stored: Stored) -> str:
    """Users of a round from which their training takes longer than what they do not change."""
    planner, machine = _planner(stored), Machine()
    lines = []
    for source in ("seed", "os"):
        alike = [planner.alike(Plan(source=source), gpus, machine) for gpus in GPUS]
        lines.append([source, *(sig(each) for each in alike)])
    return rows(["noise source", *map(_gpus, GPUS)], lines)


def sensitivity(stored: Stored) -> str:
    """The same run if a GPU is slower or faster."""
    plan, lines = Plan(), []
    machines = {"as assumed": Machine(), "half of the FLOPs": Machine(flops=25e12),
                "half of the bytes": Machine(bytes=1.35e12),
                "all FLOPs of the data sheet": Machine(flops=67e12)}  # fmt: skip
    planner = _planner(stored)
    for name, machine in machines.items():
        hours = [_hours(planner.predict(plan, gpus, machine).seconds) for gpus in GPUS]
        lines.append([name, *hours])
    return rows(["hours on", *map(_gpus, GPUS)], lines)


def promises(_: Stored) -> str:
    """Epsilon of the run, computed as `uedp-bench account user-dp` computes it."""
    lines = [[f"{cohort:,}", f"{epsilon(cohort):.2f}"] for cohort in COHORTS]
    return rows(["users a round", f"proven ε at δ = {DELTA:g}"], lines)


def epsilon(cohort: int) -> float:
    """The proven ε of the run with so many users a round."""
    from uedp_bench.accounting.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated
    from uedp_bench.budget.account import prove

    plan = Plan()
    one = PoissonSampled(rate=cohort / plan.users, event=Gaussian(noise_multiplier=NOISE))
    event = PrivacyEvent(
        unit="user", adjacency="add-or-remove", event=Repeated(count=plan.rounds, event=one)
    )
    (found,) = prove((event,), DELTA, (), None)
    return float(found.epsilon)


def plot(stored: Stored, path: Path) -> None:
    """Left: measured over predicted seconds. Right: hours of the run by users of a round."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "cost", "font.size": 8, "svg.fonttype": "none"})
    figure = Figure(figsize=(7.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for role, mark in (("fitted", "."), ("same range", "x"), ("larger network", "+")):
        pairs = []
        for family in families(stored):
            for point in family.of_role(role):
                predicted = family.fit.seconds(arrays([point])[0])[0]
                pairs.append((predicted, measured(point)))
        x, y = np.array(pairs).T
        left.loglog(x, y, mark, label=role, markersize=5)
    ends = np.array(left.get_xlim())
    left.loglog(ends, ends, color="0.6", linestyle=":")
    left.set_xlabel("predicted CPU seconds of a round")
    left.set_ylabel("measured")
    left.legend(frameon=False)
    planner, cohorts = _planner(stored), np.geomspace(100, 100_000, 25)
    for color, gpus in zip(("C0", "C1", "C2"), GPUS, strict=True):
        for source, line in (("seed", "-"), ("os", "--")):
            hours = [
                planner.predict(Plan(cohort=int(each), source=source), gpus, Machine()).seconds
                / 3600
                for each in cohorts
            ]
            right.loglog(cohorts, hours, line, color=color, label=f"{_gpus(gpus)}, {source}")
    right.set_xlabel("users of a round")
    right.set_ylabel("hours of 2,000 rounds (predicted)")
    right.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def how_often(stored: Stored) -> str:
    """How many points were measured, and how often."""
    counts = [len(point["seconds"]) for point in stored["points"] if point["role"] not in FRESH]
    measured_points = sum(map(bool, counts))
    often = f"{measured_points} of {len(counts)} points were measured"
    again = sum(count > 1 for count in counts)
    if again:
        return f"{often}. {again} were measured twice: most over least {repeats(stored):.2f}.\n"
    return f"{often}, each once.\n"


TABLES: dict[str, Callable[[Stored], str]] = {
    "by user": by_user,
    "how often": how_often,
    "laws": laws,
    "held out": held_out,
    "phases": phases,
    "best": best,
    "runs": runs,
    "parts": parts,
    "moves": moves,
    "sensitivity": sensitivity,
    "promises": promises,
    **OTHER_TABLES,
}
