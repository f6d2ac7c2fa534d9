"""The tables of docs/user-entity.md: perplexity, noise, curve and exposure at one epsilon.

    python benchmarks/user_entity_table.py leaderboard/results/user-entity/embedded
    python benchmarks/user_entity_table.py leaderboard/results/user-entity/conll2003

Reads results of the specs `user-entity` and `user-entity-conll2003`. Noise is its standard
deviation on the sum, in units of what a user adds at most; the curve is proven epsilon at so many
others with a sentence each, as the results hold it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from uedp_bench.accounting.events import Repeated
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, Stat, aggregate
from uedp_bench.results import Result

POINTS = (0, 1, 3, 10, 30)
SPREADS = (0, 3, 10, 30)


def main(folder: Path) -> None:
    results = load_results([folder])
    rows = sorted(aggregate(results), key=_order)
    events = {result.group: result for result in results}
    head = ["mechanism", "protects", "proven ε", "noise", "perplexity"]
    head += [f"ε at {point}" for point in POINTS]
    head += [f"exposure, spread {spread}" for spread in SPREADS]
    print(f"| {' | '.join(head)} |")
    print(f"|{' :-- |' * 2}{' --: |' * (len(head) - 2)}")
    for row in rows:
        print(f"| {' | '.join(_cells(row, events[row.group]))} |")
    one = rows[0]
    print(
        f"\nunigrams {one.utility['unigram_perplexity'].value:.3g}, bigrams "
        f"{one.utility['bigram_perplexity'].value:.3g}; seeds {', '.join(map(str, one.seeds))}; "
        "± is half of the 95 % interval over seeds; δ = 1e-5"
    )


def _order(row: Row) -> tuple[Any, ...]:
    target = _target(row)
    names = ["noiseless", "user-dp", "uedp-group", "uedp-spread", "uedp"]
    params = row.spec.mechanism[0].params
    point = params.get("protected_sentences")
    point = params.get("protected_spread", 0) if point is None else point
    return -target, names.index(row.label), params.get("clipping", ""), point


def _target(row: Row) -> float:
    """Epsilon that the noise was chosen for; infinite without one."""
    params = row.spec.mechanism[0].params
    if row.label.startswith("uedp-"):
        return float(params["epsilon"])
    if row.label == "user-dp":
        return round(next(g.epsilon for g in row.guarantees if g.kind == "proven"))
    return float("inf") if row.label == "noiseless" else 0.0


def _cells(row: Row, result: Result) -> list[str]:
    params = row.spec.mechanism[0].params
    proofs = [g for g in row.guarantees if g.kind == "proven"]
    main = next((g for g in proofs if g.unit == "user-entity"), proofs[0])
    protects = "a user" if row.label == "user-dp" else "nobody"
    if main.unit == "user-entity":
        point = main.protected
        where = "all sentences" if point is None else f"{point.sentences} sentences of others"
        if point is not None and row.label == "uedp-spread":
            where = f"texts of {point.spread} others"
        protects = f"a user and an entity in {where}"
    name = row.label + (f", {params['clipping']}" if "clipping" in params else "")
    epsilon = f"{main.epsilon:.3g}" if main.epsilon < 1e9 else "∞"
    cells = [name, protects, epsilon, _noise(result), _stat(row.utility["perplexity"])]
    cells += [_at(result, main, spread) for spread in POINTS]
    canaries = row.leakage["secret-sharer"]
    return cells + [_stat(canaries[f"exposure_entity_spread_{k}"]) for k in SPREADS]


def _noise(result: Result) -> str:
    event = result.events[0].event
    base = event.event if isinstance(event, Repeated) else event
    gaussian = getattr(base, "event", base)
    noise = getattr(gaussian, "noise_multiplier", None)
    if noise is None:
        return "0"
    return f"{noise / getattr(base, 'sentences_per_user', 1):.3g}"


def _at(result: Result, main: Guarantee, spread: int) -> str:
    """Epsilon at so many others who mention the entity, on the curve that the run kept."""
    if main.unit != "user-entity":
        users = [g.epsilon for g in result.guarantees if (g.kind, g.unit) == ("proven", "user")]
        return f"{users[0]:.3g}" if spread == 0 and users[0] < 1e9 else "–"
    epsilon = next(point.epsilon for point in main.curve if point.spread == spread)
    return f"{epsilon:.3g}" if epsilon < 1e9 else "∞"


def _stat(stat: Stat) -> str:
    if stat.low is None or stat.high is None:
        return f"{stat.value:.3g}"
    half = (stat.high - stat.low) / 2
    digits = 2 if stat.value < 10 else 1
    return f"{stat.value:.{digits}f} ±{half:.{digits}f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
