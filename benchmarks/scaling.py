"""Growth of the time of private training with users, rounds, vocabulary and weights.

One size of the model `lstm` grows at a time, the others stay: 10 users of 8 rows of 20 tokens,
10,000 words, embeddings of 96, 256 units. Every point is a fresh process on one thread. Slopes are
those of straight lines through the logarithms: 1 is growth in proportion.

    python benchmarks/scaling.py [--plot docs/scaling.svg] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from turns import Found, in_turns
from workloads import Sizes, lstm_learner, stats_of

from uedp_bench.registry import mechanisms
from uedp_bench.run_context import Run
from uedp_bench.training.device import choose_device

LINES = ("users, two local steps", "users, one local step", "rows")
AXES: dict[str, tuple[int, ...]] = {
    "users of a round": (10, 20, 40, 80),
    "rounds": (4, 8, 16, 32),
    "vocabulary": (2_000, 5_000, 10_000, 30_000),
    "units": (128, 256, 512, 1024),
}
_ROWS = 8


def mechanism_of(line: str, users: int, rounds: int) -> Any:
    """The mechanism behind a line, all users or rows in every round."""
    if line == "rows":
        rows = users * _ROWS
        return mechanisms.create("dp-sgd", {"records": rows, "batch_size": rows, "steps": rounds})
    batch = _ROWS // 2 if line == "users, two local steps" else None
    return mechanisms.create("user-dp", {
        "users": users, "users_per_round": users, "rounds": rounds, "sampling": "fixed",
        "local_batch_size": batch, "local_learning_rate": 0.1,
    })  # fmt: skip


def one_point(options: argparse.Namespace) -> Found:
    """Seconds of each line at one point; of `rounds` those of them all, else those of a round."""
    torch.set_num_threads(1)
    device = choose_device(options.device, threads=1)
    size = {"users of a round": 10, "rounds": 4, "vocabulary": 10_000, "units": 256}
    size[options.axis] = options.value
    if options.quick:
        size["vocabulary"] = min(size["vocabulary"], 300)
    users = size["users of a round"]
    learner = lstm_learner(
        Sizes(users, _ROWS), size["vocabulary"], size["units"] * 3 // 8, size["units"]
    )
    seconds = {}
    clock = time.perf_counter if options.clock == "wall" else time.process_time
    for line in LINES:
        marks = [clock()]
        run = Run(1, stats_of(learner.corpus), device=device,
                  progress=lambda *_, marks=marks: marks.append(clock()))  # fmt: skip
        rounds = size["rounds"] + 1  # the first does not count
        mechanism_of(line, users, rounds).train(learner, learner.corpus, run)
        laps = np.diff(marks[1:])
        whole = options.axis == "rounds"
        seconds[line] = float(laps.sum() if whole else np.median(laps))
    weights = sum(p.numel() for p in learner.module.parameters())
    return {"seconds": seconds, "weights": weights}


def slope(x: list[float], y: list[float]) -> float:
    """The slope of the least-squares line through (log x, log y)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def measured(options: argparse.Namespace) -> dict[str, Found]:
    """By axis: `x` and, by line, `seconds` over those of the axis' first point, and `slope`."""
    out: dict[str, Found] = {}
    for axis, values in AXES.items():
        points = values[:2] if options.quick else values
        found: dict[str, list[list[float]]] = {line: [] for line in LINES}
        x = [float(value) for value in points]
        for _ in range(options.turns):
            taken = [_point(axis, value, options) for value in points]
            if axis == "units":  # what is shown is the number of weights
                x = [float(point["weights"]) for point in taken]
            for line in LINES:
                first = taken[0]["seconds"][line]
                found[line].append([point["seconds"][line] / first for point in taken])
        medians = {line: np.median(turns, axis=0).tolist() for line, turns in found.items()}
        name = "weights" if axis == "units" else axis
        out[name] = {
            "x": x,
            "seconds": {line: [round(v, 3) for v in y] for line, y in medians.items()},
            "slope": {line: round(slope(x, y), 2) for line, y in medians.items()},
        }
    return out


def _point(axis: str, value: int, options: argparse.Namespace) -> Found:
    same = ["--axis", axis, "--value", str(value), "--clock", options.clock,
            "--device", options.device, *(["--quick"] if options.quick else [])]  # fmt: skip
    found = in_turns(__file__, ["point"], same, turns=1)["point"][0]
    if "missing" in found:
        raise SystemExit(f"{axis} {value}: {found['missing']}")
    return found


def plot(found: Mapping[str, Found], path: Path) -> None:
    """One panel for each axis, both scales logarithmic."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "scaling", "font.size": 8, "svg.fonttype": "none"})
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    for panel, (axis, of_axis) in zip(figure.subplots(2, 2).flat, found.items(), strict=True):
        x = np.array(of_axis["x"])
        for line, marker in zip(LINES, "osd", strict=True):
            panel.loglog(x, of_axis["seconds"][line], marker=marker, markersize=4, label=line)
        panel.loglog(x, x / x[0], color="0.6", linestyle=":", label="in proportion")
        panel.set_xticks(x, [f"{value:,.0f}" for value in x])
        panel.minorticks_off()
        panel.set_xlabel(axis)
        panel.set_ylabel("time, first point = 1")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=1, help="processes of each point")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--quick", action="store_true", help="sizes that only show that it runs")
    parser.add_argument("--plot", type=Path, help="an SVG or PNG file to write")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--side", default="", help=argparse.SUPPRESS)
    parser.add_argument("--axis", choices=list(AXES), help=argparse.SUPPRESS)
    parser.add_argument("--value", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(one_point(options)))
        return
    found = measured(options)
    if options.plot:
        plot(found, options.plot)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for axis, of_axis in found.items():
        print(f"{axis}: slope " + ", ".join(f"{k} {v:.2f}" for k, v in of_axis["slope"].items()))


if __name__ == "__main__":
    main()
