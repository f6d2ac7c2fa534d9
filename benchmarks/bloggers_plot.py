"""Draws perplexity against proven epsilon of a study of people, from its stored results.

    python benchmarks/bloggers_plot.py leaderboard/results/bloggers-larger docs/bloggers-larger.svg
    python benchmarks/bloggers_plot.py leaderboard/results/bloggers-larger \\
        leaderboard/results/bloggers-mechanisms docs/bloggers-mechanisms.svg
    python benchmarks/bloggers_plot.py leaderboard/results/ubuntu-irc \\
        leaderboard/results/ubuntu-irc-mechanisms docs/ubuntu-irc.svg --people nicks

Several folders are drawn into one picture; one of them holds the model without private text and the
one without protection. Vertical lines are 95 % intervals over seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, Stat, aggregate
from uedp_bench.results import Estimate


class People(NamedTuple):
    """Names of a user, a row and the private text of a study."""

    user: str
    row: str
    text: str


PEOPLE = {
    "bloggers": People("blogger", "sentence", "blogs"),
    "nicks": People("nick", "message", "messages"),
}
PRIVATE = {
    "user-dp": ("user", "o", "user-dp: a {user}"),
    "uedp-group": ("user-entity", "s", "uedp-group: a {user} with an entity"),
    "dp-ftrl": ("user", "^", "dp-ftrl: a {user}, turns in the open"),
    "uedp-spread": ("user-entity", "D", "uedp-spread: a {user} with an entity"),
    "dp-sgd": ("record", "v", "dp-sgd: a {row}"),
}
"""Unit of the epsilon, marker and name in the legend of each mechanism."""
APART = 1.02
"""Points of neighbouring mechanisms stand apart by this factor, so that each can be seen."""


def proven(row: Row, unit: str) -> float:
    """The proven epsilon of a row for a unit."""
    (found,) = (g.epsilon for g in row.guarantees if g.kind == "proven" and g.unit == unit)
    return found


def picture(width: float) -> Figure:
    """An empty picture, so wide in inches, that is the same whenever it is drawn."""
    mpl.rcParams.update({"svg.hashsalt": "bloggers", "font.size": 8, "svg.fonttype": "none"})
    return Figure(figsize=(width, 3.2), layout="constrained")


def line(
    panel: Any, across: Sequence[float], found: Sequence[Stat | Estimate], name: str, marker: str
) -> None:
    """Draws means with their intervals over seeds, those that have one."""
    bars = [0.0 if each.high is None else each.high - each.value for each in found]
    panel.errorbar(
        across, [each.value for each in found], yerr=bars, marker=marker, markersize=4, capsize=2,
        linewidth=1, elinewidth=0.8, label=name,
    )  # fmt: skip


def plot(folders: Sequence[Path], path: Path, people: str = "bloggers") -> None:
    """Draws the mechanisms with a guarantee, and what needs none or has none as levels.

    Args:
        folders: results of the study.
        path: of the picture.
        people: of `PEOPLE`.
    """
    names = PEOPLE[people]
    figure = picture(6.2)
    panel = figure.subplots()
    rows = aggregate(load_results(list(folders)))
    for place, (label, (unit, marker, meaning)) in enumerate(PRIVATE.items()):
        chosen = sorted((row for row in rows if row.label == label), key=lambda r: proven(r, unit))
        if not chosen:
            continue
        found = [row.utility["perplexity"] for row in chosen]
        at = [proven(row, unit) * APART**place for row in chosen]
        line(panel, at, found, meaning.format(**names._asdict()), marker)
    levels = {row.label: row.utility["perplexity"].value for row in rows}
    levels = {name: levels[name] for name in ("public-only", "noiseless")}
    levels[f"bigrams of the {names.text}"] = rows[0].utility["bigram_perplexity"].value
    for place, (name, level) in enumerate(levels.items()):
        panel.axhline(level, color="0.5", linestyle=("-.", "--", ":")[place], linewidth=0.8)
        panel.text(0.93 if place == 2 else 8.6, level, name, fontsize=7, color="0.3", va="bottom",
                   ha="left" if place == 2 else "right")  # fmt: skip
    panel.margins(y=0.1)
    panel.set_xscale("log", base=2)
    panel.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    panel.set_xlim(0.9, 8.9)
    panel.set_xlabel("proven ε (δ = 1e-5)")
    panel.set_ylabel(f"perplexity of held-out {people}")
    figure.legend(frameon=False, fontsize=7, loc="outside lower center", ncols=2)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    read = argparse.ArgumentParser(description="Draw a study of people.")
    read.add_argument("results", nargs="+", type=Path, help="folders of results")
    read.add_argument("picture", type=Path, help="the SVG to write")
    read.add_argument("--people", choices=PEOPLE, default="bloggers", help="default: bloggers")
    asked = read.parse_args()
    plot(asked.results, asked.picture, asked.people)
