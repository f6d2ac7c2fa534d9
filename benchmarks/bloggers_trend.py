"""Prints and draws how user-dp on bloggers gains from more work and from more people.

    python benchmarks/bloggers_trend.py leaderboard/results [--plot docs/bloggers-trend.svg]

It reads the folders `bloggers`, `bloggers-trend` and `bloggers-population` below a folder of
results, those that are there. All runs of user-dp in them have one proven epsilon. The *share of
the gain* is how much of the way from the model without private text to the one without protection a
run goes, of the same people: (public - private) / (public - unprotected), seed by seed. ± is half
of the 95 % interval over seeds (Student's t).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bloggers_plot import line, picture
from printed_tables import table

from uedp_bench.leaderboard.bundles import holds_results
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Estimate, Result
from uedp_bench.statistics.intervals import seed_estimate

FOLDERS = ("bloggers", "bloggers-trend", "bloggers-population")
Work = tuple[int, int]
"""Bloggers in a round, and rounds."""


class Study:
    """Runs of user-dp, beside training without protection of as many people.

    Attributes:
        private: perplexities of user-dp by seed, by people who are in the source and by work.
        plain: perplexities without protection by seed, by people who are in the source.
        public: perplexities of the model without private text by seed, likewise.
        bigrams: perplexities of bigrams of the private text, without a guarantee, likewise.
        noise: multipliers of user-dp, as `private`.
        trained: how many people of the source train, by people who are in the source.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self.private: dict[tuple[int, Work], dict[int, float]] = defaultdict(dict)
        self.plain: dict[int, dict[int, float]] = defaultdict(dict)
        self.public: dict[int, dict[int, float]] = defaultdict(dict)
        self.bigrams: dict[int, dict[int, float]] = defaultdict(dict)
        self.noise: dict[tuple[int, Work], float] = {}
        self.trained: dict[int, int] = {}
        for result in results:
            people, seed = int(result.spec.source.params["users"]), result.spec.seed
            found = result.utility["perplexity"].value
            (mechanism, *more) = result.spec.mechanism
            if mechanism.name == "noiseless" and not more:
                self.plain[people][seed] = found
                self.public[people][seed] = result.floors["public-only"]
                self.bigrams[people][seed] = result.utility["bigram_perplexity"].value
            elif mechanism.name == "user-dp":
                p = mechanism.params
                work = people, (int(p["users_per_round"]), int(p["rounds"]))
                self.private[work][seed] = found
                self.noise[work] = float(p["noise_multiplier"])
                self.trained[people] = int(p["users"])

    def share(self, people: int, work: Work) -> Estimate:
        """The share of the gain, over seeds."""
        runs, free, plain = self.private[people, work], self.public[people], self.plain[people]
        return seed_estimate([
            (free[seed] - found) / (free[seed] - plain[seed]) for seed, found in runs.items()
        ])  # fmt: skip

    def works(self, people: int) -> list[Work]:
        """Lists the work that was tried with so many people, from the least to the most."""
        return sorted(work for count, work in self.private if count == people)


def over_seeds(runs: dict[int, float]) -> Estimate:
    """The mean of runs by seed, with its interval."""
    return seed_estimate(list(runs.values()))


def shown(found: Estimate, digits: int = 1, unit: float = 1.0) -> str:
    """A mean with half of its interval, if it has one."""
    value = f"{found.value * unit:.{digits}f}"
    if found.high is None:
        return f"{value} (one seed)"
    return f"{value} ±{(found.high - found.value) * unit:.{digits}f}"


def print_tables(study: Study) -> None:
    """Prints perplexity by work of most people, and by people if their number varies."""
    most = max(study.trained)
    every, rows = study.works(most), []
    for users, rounds in every:
        at = most, (users, rounds)
        times = users * rounds / (every[0][0] * every[0][1])
        rows.append([
            f"{users:,}", str(rounds), f"{times:g}", f"{study.noise[at]:g}",
            shown(over_seeds(study.private[at])), shown(study.share(*at), 0, 100),
        ])  # fmt: skip
    head = "bloggers a round", "rounds", "work", "noise multiplier", "perplexity", "% of the gain"
    table(head, rows)
    if len(study.trained) > 1:
        _print_people(study)


def _print_people(study: Study) -> None:
    rows = []
    for people in sorted(study.trained):
        work = study.works(people)[0]
        levels = (study.public[people], study.private[people, work], study.plain[people])
        rows.append([
            f"{study.trained[people]:,}", str(work[0]),
            *(shown(over_seeds(level)) for level in levels),
            shown(study.share(people, work), 0, 100),
        ])  # fmt: skip
    head = "bloggers who train", "a round", "public-only", "`user-dp`", "`noiseless`"
    table([*head, "% of the gain"], rows)


def plot(study: Study, path: Path) -> None:
    """Draws perplexity against work, and against people if their number varies."""
    panels = 1 if len(study.trained) == 1 else 2
    figure = picture(3.1 * panels + 0.6)
    drawn = figure.subplots(1, panels, squeeze=False)[0]
    _work(study, drawn[0])
    if panels == 2:
        _people(study, drawn[1])
    for panel in drawn:
        panel.margins(x=0.1, y=0.15)
    figure.savefig(path, metadata={"Date": None})


def _work(study: Study, panel: Any) -> None:
    most = max(study.trained)
    works = study.works(most)
    steps = [users * rounds / (works[0][0] * works[0][1]) for users, rounds in works]
    found = [over_seeds(study.private[most, work]) for work in works]
    line(panel, steps, found, "user-dp, ε = 8", "o")
    levels = {"public-only": study.public[most], "noiseless": study.plain[most],
              "bigrams of the blogs": study.bigrams[most]}  # fmt: skip
    for (name, runs), style in zip(levels.items(), ("-.", "--", ":"), strict=True):
        level = over_seeds(runs).value
        panel.axhline(level, color="0.5", linestyle=style, linewidth=0.8)
        panel.text(steps[-1], level, name, fontsize=7, color="0.3", va="bottom", ha="right")
    panel.set_xscale("log", base=2)
    panel.set_xticks(steps, [f"{users:,} × {rounds}" for users, rounds in works])
    panel.minorticks_off()
    panel.set_xlabel("bloggers a round × rounds")
    panel.set_ylabel("perplexity of held-out bloggers")


def _people(study: Study, panel: Any) -> None:
    people = sorted(study.trained)
    least = {each: study.private[each, study.works(each)[0]] for each in people}
    lines = (("user-dp, ε = 8", least, "o"), ("noiseless", study.plain, "s"))
    for name, of, marker in lines:
        relative = [
            seed_estimate([100 * run / study.public[each][seed] for seed, run in of[each].items()])
            for each in people
        ]
        line(panel, [study.trained[each] for each in people], relative, name, marker)
    panel.set_xscale("log", base=2)
    panel.set_xticks([study.trained[each] for each in people],
                     [f"{study.trained[each]:,}" for each in people])  # fmt: skip
    panel.minorticks_off()
    panel.set_xlabel("bloggers who train, one in 18 a round")
    panel.set_ylabel("perplexity, % of public-only")
    panel.legend(frameon=False, fontsize=7)


def main() -> None:
    """Prints the tables, and draws where asked."""
    read = argparse.ArgumentParser(description="Work and people of user-dp on bloggers.")
    read.add_argument("results", type=Path, help="folder with the folders of results")
    read.add_argument("--plot", type=Path, help="where to draw")
    asked = read.parse_args()
    folders = [asked.results / name for name in FOLDERS if holds_results(asked.results / name)]
    study = Study(load_results(folders))
    print_tables(study)
    if asked.plot:
        plot(study, asked.plot)


if __name__ == "__main__":
    main()
