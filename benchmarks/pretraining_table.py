"""Private pre-training beside Hoory et al. 2021: exposure against occurrences, and what bounds it.

    python benchmarks/pretraining_table.py leaderboard/results/reproductions/private-pretraining \\
      [--plot docs/reproductions/private-pretraining.svg]

Exposure is the mean over secrets of all seeds, of all layouts unless one is named, in bits, with
half of its 95 % interval over secrets; words and nats have it over seeds (Student's t both).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from printed_tables import mean_of, shown, table

from uedp_bench.accounting.accountants.basic_composition import group_delta
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.statistics.exposure import exposure_ceiling

ATTACK = "secret-sharer"


Arms = Mapping[str, Sequence[Result]]
"""Results by what trained them, one for each seed."""


def arms(folder: Path) -> dict[str, list[Result]]:
    """Finished results by what trained them: without noise, by epsilon from above, public text."""
    found: dict[str, list[Result]] = {}
    for result in load_results([folder]):
        if result.status == "finished":
            found.setdefault(_name(result), []).append(result)
    return dict(sorted(found.items(), key=lambda item: _epsilon(item[1][0]), reverse=True))


def _epsilon(result: Result) -> float:
    return next(g.epsilon for g in result.guarantees if g.kind == "proven")


def _name(result: Result) -> str:
    (mechanism,) = result.spec.mechanism
    return f"ε = {_epsilon(result):.3g}" if mechanism.name == "dp-sgd" else mechanism.name


def secrets(results: Iterable[Result]) -> list[Mapping[str, Any]]:
    """What is known of each secret that was ranked, in all seeds."""
    return [row for result in results for row in result.details[ATTACK]["canaries"]]


def bits(rows: Iterable[Mapping[str, Any]], copies: float, layout: str = "") -> list[float]:
    """Exposure of each secret that so many rows hold."""
    return [
        float(row["exposure"])
        for row in rows
        if row["copies"] == copies and layout in ("", row["layout"])
    ]


def exposure(rows: Iterable[Mapping[str, Any]], copies: float, layout: str = "") -> float:
    """Mean bits of the secrets that so many rows hold; NaN where none is ranked."""
    return mean_of(bits(rows, copies, layout))[0]


def copies_of(found: Arms) -> list[float]:
    """How often secrets were planted."""
    first = next(iter(found.values()))[0]
    return sorted({row["copies"] for row in first.details[ATTACK]["by_occurrences"]})


def print_arms(found: Arms) -> None:
    """What each model predicts, and how exposed secrets are by occurrences."""
    copies = copies_of(found)
    head = ["", "words right, %", "nats a piece", *(f"n = {n:g}" for n in copies), "extracted, %"]
    rows = []
    for name, results in found.items():
        right = [100 * result.utility["accuracy"].value for result in results]
        nats = [math.log(result.utility["pseudo_perplexity_piece"].value) for result in results]
        cells = [shown(right, 1), shown(nats)]
        cells += [shown(bits(secrets(results), n)) for n in copies]
        rate = [100 * one.leakage[ATTACK]["extracted_filling"].value for one in results]
        rows.append([name, *cells, f"{mean_of(rate)[0]:.0f}"])
    table(head, rows)


def print_layouts(results: Sequence[Result], copies: Sequence[float]) -> None:
    """Exposure by layout, of the model without noise."""
    layouts = dict.fromkeys(row["layout"] for row in secrets(results))
    rows = [
        [layout, *(shown(bits(secrets(results), n, layout)) for n in copies)] for layout in layouts
    ]
    table(["", *(f"n = {n:g}" for n in copies)], rows)


def print_ceilings(found: Arms) -> None:
    """The most that the mean exposure can be, by the proven epsilon of a sentence."""
    private = {name: results[0] for name, results in found.items() if name.startswith("ε")}
    first = next(iter(found.values()))
    limit = first[0].leakage[ATTACK]["exposure_limit"].value
    groups = [row for result in first for row in result.details[ATTACK]["by_occurrences"]]
    rows = []
    for n in (n for n in copies_of(found) if n):
        users = [group["users"] for group in groups if group["copies"] == n and group["scored"]]
        cells = [f"{n:g}", f"{math.fsum(users) / len(users):.0f}"]
        for result in private.values():
            epsilon, held = _epsilon(result), int(n)
            delta = group_delta(epsilon, result.spec.delta, held)
            cells.append(f"{exposure_ceiling(held * epsilon, delta, limit):.2f}")
        rows.append(cells)
    table(["sentences", "documents", *private], rows)


def plot(found: Arms, path: Path) -> None:
    """Exposure against occurrences with 95 % intervals, one line for each model."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "exposure", "font.size": 8, "svg.fonttype": "none"})
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    panel = figure.subplots()
    copies = copies_of(found)
    for number, ((name, results), marker) in enumerate(zip(found.items(), "osd^vx", strict=False)):
        known = [mean_of(bits(secrets(results), n)) for n in copies]
        # Side by side, so that no bar hides another.
        x = [at + 0.07 * (number - (len(found) - 1) / 2) for at in range(len(copies))]
        y, half = zip(*known, strict=True)
        panel.errorbar(x, y, yerr=half, marker=marker, markersize=4, capsize=2, label=name,
                       linewidth=1, elinewidth=0.8)  # fmt: skip
    first = next(iter(found.values()))[0]
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
    print_layouts(found["noiseless"], copies_of(found))
    print_ceilings(found)
    if picture is not None:
        plot(found, picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of results")
    parser.add_argument("--plot", type=Path, help="an SVG or PNG file to write")
    options = parser.parse_args()
    main(options.folder, options.plot)
