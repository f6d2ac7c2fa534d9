"""Private pre-training beside Hoory et al. 2021: exposure against occurrences, and what bounds it.

    python benchmarks/pretraining_table.py leaderboard/results/reproductions/private-pretraining \\
      [--plot docs/reproductions/private-pretraining.svg]

Exposure is the mean over secrets, of all layouts unless one is named, in bits.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from uedp_bench.accounting.accountants.basic_composition import group_delta
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.statistics.exposure import exposure_ceiling

ATTACK = "secret-sharer"


def arms(folder: Path) -> dict[str, Result]:
    """Finished results by what trained them: without noise, by epsilon from above, public text."""
    found = [r for r in load_results([folder]) if r.status == "finished"]
    named = {_name(result): result for result in found}
    return dict(sorted(named.items(), key=lambda item: _epsilon(item[1]), reverse=True))


def _epsilon(result: Result) -> float:
    return next(g.epsilon for g in result.guarantees if g.kind == "proven")


def _name(result: Result) -> str:
    (mechanism,) = result.spec.mechanism
    return f"ε = {_epsilon(result):.3g}" if mechanism.name == "dp-sgd" else mechanism.name


def secrets(result: Result) -> list[Mapping[str, Any]]:
    """What is known of each secret that was ranked."""
    found: list[Mapping[str, Any]] = result.details[ATTACK]["canaries"]
    return found


def exposure(rows: Iterable[Mapping[str, Any]], copies: float, layout: str = "") -> float:
    """Mean bits of the secrets that so many rows hold; NaN where none is ranked."""
    bits = [
        float(row["exposure"])
        for row in rows
        if row["copies"] == copies and layout in ("", row["layout"])
    ]
    return math.fsum(bits) / len(bits) if bits else math.nan


def copies_of(result: Result) -> list[float]:
    """How often secrets were planted."""
    return sorted({row["copies"] for row in result.details[ATTACK]["by_occurrences"]})


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"| {' | '.join(head)} |")
    print(f"|{' :-- |'}{' --: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _bits(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def print_arms(found: Mapping[str, Result]) -> None:
    """What each model predicts, and how exposed secrets are by occurrences."""
    copies = copies_of(next(iter(found.values())))
    head = ["", "words right, %", "nats a piece", *(f"n = {n:g}" for n in copies), "extracted, %"]
    rows = []
    for name, result in found.items():
        utility, leak = result.utility, result.leakage[ATTACK]
        cells = [f"{100 * utility['accuracy'].value:.1f}"]
        cells += [f"{math.log(utility['pseudo_perplexity_piece'].value):.2f}"]
        cells += [_bits(exposure(secrets(result), n)) for n in copies]
        rows.append([name, *cells, f"{100 * leak['extracted_filling'].value:.0f}"])
    _table(head, rows)


def print_layouts(result: Result) -> None:
    """Exposure by layout, of the model without noise."""
    copies = copies_of(result)
    layouts = dict.fromkeys(row["layout"] for row in result.details[ATTACK]["by_occurrences"])
    rows = [
        [layout, *(_bits(exposure(secrets(result), n, layout)) for n in copies)]
        for layout in layouts
    ]
    _table(["", *(f"n = {n:g}" for n in copies)], rows)


def print_ceilings(found: Mapping[str, Result]) -> None:
    """The most that the mean exposure can be, by the proven epsilon of a sentence."""
    private = {name: result for name, result in found.items() if name.startswith("ε")}
    first = next(iter(found.values()))
    limit = first.leakage[ATTACK]["exposure_limit"].value
    groups = first.details[ATTACK]["by_occurrences"]
    rows = []
    for n in (n for n in copies_of(first) if n):
        users = [group["users"] for group in groups if group["copies"] == n and group["scored"]]
        cells = [f"{n:g}", f"{math.fsum(users) / len(users):.0f}"]
        for result in private.values():
            epsilon, held = _epsilon(result), int(n)
            delta = group_delta(epsilon, result.spec.delta, held)
            cells.append(f"{exposure_ceiling(held * epsilon, delta, limit):.2f}")
        rows.append(cells)
    _table(["sentences", "documents", *private], rows)


def plot(found: Mapping[str, Result], path: Path) -> None:
    """Exposure against occurrences, one line for each model."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "exposure", "font.size": 8, "svg.fonttype": "none"})
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    panel = figure.subplots()
    first = next(iter(found.values()))
    copies = copies_of(first)
    for (name, result), marker in zip(found.items(), "osd^vx", strict=False):
        y = [exposure(secrets(result), n) for n in copies]
        panel.plot(range(len(copies)), y, marker=marker, markersize=4, label=name)
    limit = first.leakage[ATTACK]["exposure_limit"].value
    panel.axhline(limit, color="0.6", linestyle=":", label="limit")
    panel.axhline(1 / math.log(2), color="0.6", linestyle="--", label="nothing leaks")
    panel.set_xticks(range(len(copies)), [f"{n:g}" for n in copies])
    panel.set_xlabel("sentences that hold a secret")
    panel.set_ylabel("mean exposure, bits")
    panel.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(folder: Path, picture: Path | None = None) -> None:
    found = arms(folder)
    print_arms(found)
    print()
    print_layouts(found["noiseless"])
    print()
    print_ceilings(found)
    if picture is not None:
        plot(found, picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of results")
    parser.add_argument("--plot", type=Path, help="an SVG or PNG file to write")
    options = parser.parse_args()
    main(options.folder, options.plot)
