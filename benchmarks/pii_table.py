"""The rows of docs/pii-detection.md: runs of pii-detection in a folder, as a table in Markdown."""

from __future__ import annotations

import sys
from pathlib import Path

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Estimate, Result

COLUMNS = ("covered", "covered_entities", "precision", "hidden", "recall_type", "names_left")


def shown(found: Estimate | None) -> str:
    """Percent with the interval."""
    if found is None:
        return "-"
    value = f"{100 * found.value:.1f}"
    if found.low is None or found.high is None:
        return value
    return f"{value} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def detector(result: Result) -> str:
    """What found the pieces that were replaced."""
    params = result.spec.mechanism[0].params
    name = str(params.get("detector", "labels"))
    return f"{name} with a pipeline" if params.get("pipeline") and name != "spacy" else name


def main(folder: Path) -> None:
    """Prints the rows, those that cover most first, and the recall of each type."""
    done = [each for each in load_results([folder]) if "pii-detection" in each.details]
    done.sort(key=lambda each: -each.utility["covered"].value)
    print(f"| detector | {' | '.join(COLUMNS)} | found again |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for each in done:
        cells = [shown(each.utility.get(name)) for name in COLUMNS]
        again = each.leakage.get("reidentify", {}).get("recall_at_1")
        print(f"| {detector(each)} | {' | '.join(cells)} | {shown(again)} |")
    print()
    for each in done:
        told = each.details["pii-detection"]
        types = {
            name: f"{100 * one['covered']['value']:.1f} of {one['mentions']:,}"
            for name, one in told["recall"].items()
        }
        print(detector(each), types, {k: told["left"][k] for k in told["left"] if k != "types"})
    if done:
        first = done[0].leakage.get("reidentify", {})
        print({name: shown(value) for name, value in first.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
