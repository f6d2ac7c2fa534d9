"""The tables of docs/tagging.md about softmax and CRF, from results of `tagging-conll2003-crf`.

    python benchmarks/decoder_table.py leaderboard/results/tagging/conll2003-crf

First entity F1 in percent by decoder, reduction and what was trained, a mean over seeds. Then
differences between runs of one seed, averaged over all that else varies, so that each seed gives
one number. Intervals are 95 % over seeds (Student's t).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.statistics.intervals import seed_estimate


class Setting(NamedTuple):
    """What a run differs in, but for the seed."""

    decoder: str
    reduction: str
    trained: str
    clip: str


Scores = Mapping[Setting, Mapping[int, float]]
"""Entity F1 in percent by setting and seed."""


def setting(result: Result) -> Setting:
    """The setting that a result was trained in."""
    task, (mechanism,) = result.spec.task.params, result.spec.mechanism
    trained, clip = mechanism.name, ""
    if trained == "dp-sgd":
        (epsilon,) = [g.epsilon for g in result.guarantees if g.kind == "proven"]
        trained, clip = f"ε {epsilon:.0f}", str(mechanism.params.get("clip_policy", "flat"))
    return Setting(task["decoder"], task["reduction"], trained, clip)


def scores(results: Iterable[Result]) -> Scores:
    """All that finished."""
    found: defaultdict[Setting, dict[int, float]] = defaultdict(dict)
    for result in results:
        if result.status == "finished":
            found[setting(result)][result.spec.seed] = 100 * result.utility["f1_strict"].value
    return found


def shown(values: Iterable[float], signed: bool = False) -> str:
    """Mean and half of the interval."""
    found = seed_estimate(list(values))
    value = f"{found.value:+.1f}" if signed else f"{found.value:.1f}"
    if found.low is None or found.high is None:
        return value
    return f"{value} ±{(found.high - found.low) / 2:.1f}"


def by_setting(found: Scores) -> None:
    """Prints a row for each decoder and reduction."""
    columns = sorted({(s.trained, s.clip) for s in found}, key=lambda c: (-len(c[0]), c))
    print(f"| decoder | loss | {' | '.join(f'{a}, {b}' if b else a for a, b in columns)} |")
    print(f"|{' :-- |' * 2}{' --: |' * len(columns)}")
    for decoder, reduction in sorted({(s.decoder, s.reduction) for s in found}, reverse=True):
        row = [found[Setting(decoder, reduction, *column)] for column in columns]
        print(f"| {decoder} | {reduction} | {' | '.join(shown(r.values()) for r in row)} |")


def difference(found: Scores, field: str, one: str, other: str, trained: str) -> list[float]:
    """For each seed, how far runs with `one` are above their like with `other`."""
    of: defaultdict[int, list[float]] = defaultdict(list)
    for each, by_seed in found.items():
        if getattr(each, field) == one and each.trained == trained:
            like = found[each._replace(**{field: other})]
            for seed, value in by_seed.items():
                of[seed].append(value - like[seed])
    return [float(np.mean(of[seed])) for seed in sorted(of)]


def differences(found: Scores) -> None:
    """Prints what each choice changes."""
    trained = sorted({s.trained for s in found}, key=lambda name: (-len(name), name))
    print(f"| | {' | '.join(trained)} |")
    print(f"| :-- |{' --: |' * len(trained)}")
    pairs = (
        ("decoder", "crf", "softmax"), ("reduction", "sum", "mean"), ("clip", "per-layer", "flat"),
    )  # fmt: skip
    for field, one, other in pairs:
        per_seed = [difference(found, field, one, other, name) for name in trained]
        cells = [shown(values, signed=True) if values else "" for values in per_seed]
        print(f"| {one} less {other} | {' | '.join(cells)} |")
        if (before := difference(found, field, one, other, "noiseless")) and field != "clip":
            more = [
                shown(np.subtract(values, before), signed=True) if name.startswith("ε") else ""
                for name, values in zip(trained, per_seed, strict=True)
            ]
            print(f"| the same, beyond what it is without noise | {' | '.join(more)} |")


if __name__ == "__main__":
    them = scores(load_results([Path(sys.argv[1])]))
    by_setting(them)
    print()
    differences(them)
