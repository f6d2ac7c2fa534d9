"""The tables of docs/attacks.md about gradient-inversion, from results of runs with that attack.

    python benchmarks/inversion_table.py leaderboard/results/tagging/gradient-inversion

A row for word vectors and noise at the clients; percent, a mean over seeds with the 95 % interval
(Student's t, within 0 and 100). A dash stands where no update shows words.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.statistics.intervals import seed_estimate

COLUMNS = {
    "words_precision": "words right",
    "words_recall": "words read",
    "words_recall_guessed": "a guess reads",
    "names_recall": "names read",
    "names_recall_guessed": "a guess reads",
    "labels_precision": "labels right",
    "labels_recall": "labels read",
}


def shown(results: Sequence[Result], metric: str) -> str:
    """Percent over seeds; what only some seeds have is left to them, and said."""
    leakage = [result.leakage["gradient-inversion"] for result in results]
    values = [100 * found[metric].value for found in leakage if metric in found]
    if not values:
        return "–"
    found = seed_estimate(values)
    some = "" if len(values) == len(results) else f" ({len(values)} of {len(results)} seeds)"
    if found.low is None or found.high is None:
        return f"{found.value:.1f}{some}"
    low, high = max(found.low, 0.0), min(found.high, 100.0)
    exact = high - low < 0.05
    return (
        f"{found.value:.1f}{some}"
        if exact
        else f"{found.value:.1f} ({low:.1f} to {high:.1f}){some}"
    )


def key(result: Result) -> tuple[bool, float]:
    """Frozen word vectors, and noise at the clients."""
    frozen = bool(result.spec.model.params.get("frozen_embedding"))
    return frozen, float(result.spec.mechanism[0].params["noise_multiplier"])


def main(folder: Path) -> None:
    """Prints the table."""
    groups: defaultdict[tuple[bool, float], list[Result]] = defaultdict(list)
    for result in load_results([folder]):
        groups[key(result)].append(result)
    print(f"| word vectors | noise | proven ε, record | {' | '.join(COLUMNS.values())} |")
    print(f"|---|{'---:|' * (len(COLUMNS) + 2)}")
    for (frozen, noise), results in sorted(groups.items()):
        (epsilon,) = {g.epsilon for g in results[0].guarantees if g.kind == "proven"}
        cells = [shown(results, metric) for metric in COLUMNS]
        proven = "∞" if math.isinf(epsilon) else f"{epsilon:.3g}"
        state = "frozen" if frozen else "trained"
        print(f"| {state} | {noise:g} | {proven} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
