"""Prints minutes and memory of stored runs, by task, text, model and device.

python benchmarks/cost.py leaderboard/results
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from printed_tables import table
from reference import minutes

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result

HEAD = ("task", "text", "model", "device", "million weights trained", "runs", "minutes under an ε",
        "other minutes", "memory, MB")  # fmt: skip


def cost_rows(results: Sequence[Result]) -> list[list[str]]:
    """Cells of `HEAD` for each task, text, model and device of finished runs."""
    groups = defaultdict[tuple[str, ...], list[Result]](list)
    for result in results:
        if result.status == "finished":
            spec = result.spec
            key = spec.task.name, spec.source.name, spec.model.name, result.cost.device
            groups[key].append(result)
    return [[*key, *_costs(groups[key])] for key in sorted(groups)]


def _costs(runs: Sequence[Result]) -> list[str]:
    private = [run for run in runs if any(0 < each.epsilon < math.inf for each in run.guarantees)]
    others = [run for run in runs if run not in private]
    weights = [getattr(run.cost, "weights_trained", None) for run in runs]
    return [
        _spread([count / 1e6 for count in weights if count]),
        str(len(runs)),
        _minutes(private),
        _minutes(others),
        _spread([run.cost.peak_memory_mb for run in runs]),
    ]


def _minutes(runs: Sequence[Result]) -> str:
    if not runs:
        return "–"
    took = [minutes([run.model_dump(mode="json", include={"spec", "cost"})]) for run in runs]
    measured = all(of_the_cpu for _, of_the_cpu in took)
    return ("" if measured else "~") + _spread([value for value, _ in took])


def _spread(values: Sequence[float]) -> str:
    """Median, with least and most in parentheses where they differ."""
    if not values:
        return "–"
    middle, least, most = map(_two_digits, (statistics.median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least} to {most})"


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


if __name__ == "__main__":
    table(HEAD, cost_rows(load_results([Path(name) for name in sys.argv[1:]])))
