"""UeDP (Lai et al. 2022): claimed beside proven epsilon, utility, leakage, audits.

    python benchmarks/uedp_table.py [leaderboard/results/reproductions] [--plots docs/reproductions]

Epsilon against rounds is computed (`uedp_claims.py`) and reads no result; the rest is of the
results in the sub-folders `uedp-audit`, `uedp-conll2003`, `uedp-categories`, `uedp-awd-lstm`,
`uedp-figure6`, `uedp-gpt2`, `uedp-contracts`, `uedp-contracts-awd-lstm`, `uedp-contracts-gpt2`,
`uedp-ag`, `uedp-ag-audit`, `uedp-sampling` and `uedp-sampling-released` of a folder, those that are
there. Half of the 95 % interval over seeds (Student's t) stands behind ±.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from printed_tables import table
from uedp_claims import (
    FIGURE_4,
    SPREADS,
    number,
    panels_of,
    plot_rounds,
    print_categories,
    print_contracts,
    print_entity_rates,
    print_rounds,
)

from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.leaderboard.bundles import holds_results
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.statistics.intervals import seed_estimate

Arms = dict[str, list[Result]]


def arms(folder: Path) -> Arms:
    """Finished results of a folder by what they are called, in the order of `FIRST`."""
    return named(load_results([folder]))


def named(results: Sequence[Result]) -> Arms:
    """Finished ones of these results by what they are called, in the order of `FIRST`."""
    found: Arms = {}
    for result in results:
        if result.status == "finished":
            found.setdefault(arm_of(result), []).append(result)
    return {key: sorted(found[key], key=lambda r: r.spec.seed) for key in sorted(found, key=_order)}


FIRST = ("majority", "public-only", "noiseless", "deidentify", "user-dp", "uedp-group",
         "uedp, as described", "uedp, as re")  # fmt: skip


def _order(name: str) -> tuple[int, list[str | float]]:
    """Sorts arms by their kind and by the size of numbers in them: 282 rounds are before 1,181."""
    texts = re.split(r"(\d+(?:\.\d+)?)", name)  # every second one is a number
    parts = [float(text) if at % 2 else text for at, text in enumerate(texts)]
    return next(at for at, first in enumerate(FIRST) if name.startswith(first)), parts


def arm_of(result: Result) -> str:
    """The name of the arm that a run of a quick spec of UeDP belongs to."""
    one = result.spec.mechanism[0]
    p = one.params
    if one.name == "uedp-group":
        return f"uedp-group, ε = {p['epsilon']:g} at k = {p['protected_sentences']}"
    if one.name == "user-dp" and p.get("noise") != "released":
        return f"user-dp, ε = {proven(result):.3g}"
    if one.name in ("uedp", "user-dp"):
        noise = "as described" if p["noise"] == "published" else "as released"
        plain = p["noise"] == "released" and p["server_optimizer"] == "sgd"
        extended = f", q_s = {p['sentence_rate']:g}" if p.get("sentence_rate", 1) != 1 else ""
        step = ", plain step" if plain else ""
        if p["local_optimizer"] == "adam":
            step = f", rate {p['local_learning_rate']:g}"
        estimator = ", f_E" if p.get("estimator") == "f_E" else ""
        return f"{one.name}, {noise}, {p['rounds']} rounds{step}{estimator}{extended}"
    types = p.get("entity_types")
    return f"{one.name}, {', '.join(types)}" if types else one.name


def claimed(result: Result) -> float:
    """The claim, NaN where there is none."""
    return next((g.epsilon for g in result.guarantees if g.kind == "claimed"), math.nan)


def proven(result: Result, spread: int | None = None) -> float:
    """The proven epsilon: at so many others who mention the entity, or as the result prints it."""
    proofs = [g for g in result.guarantees if g.kind == "proven"]
    main = next((g for g in proofs if g.unit == "user-entity"), proofs[0])
    if spread is None:
        return main.epsilon
    if main.unit != "user-entity":
        users = [g.epsilon for g in proofs if g.unit == "user"]
        return users[0] if spread == 0 and users else math.nan
    if main.status != "given" or (math.isinf(main.epsilon) and not main.curve):
        return math.inf  # of nobody; with a curve, only of those whom too many others mention
    return proven_at(
        result.events, unit="user-entity", adjacency="add-or-remove", delta=result.spec.delta,
        point=Protected(spread=spread),
    )  # fmt: skip


def proven_for_all(result: Result) -> float:
    """The proven epsilon of an entity that everybody mentions; NaN where none is protected."""
    if not result.spec.mechanism[-1].name.startswith("uedp"):
        return math.nan
    users = result.spec.mechanism[-1].params["users"] or FIGURE_4["CoNLL-2003"].users
    return proven(result, users - 1)


OFF_THE_SCALE = 1e6
"""Perplexity from which on a model has learnt nothing, and seeds differ by powers of ten."""


def shown(values: Sequence[float], digits: int = 3) -> str:
    """The mean and half of its interval over seeds; off the scale the least and the most."""
    found = seed_estimate(values)
    if found.value >= OFF_THE_SCALE:
        return f"{min(values):.0e} to {max(values):.0e}"
    places = max(digits - 1 - math.floor(math.log10(max(abs(found.value), 1e-9))), 0)
    half = "" if found.high is None else f" ±{found.high - found.value:.{places}f}"
    return f"{found.value:.{places}f}{half}"


def scores(results: Sequence[Result]) -> list[float]:
    """Perplexity of each seed, or the error in per cent."""
    metric = results[0].headline.metric
    return [r.utility[metric].value * (100.0 if metric == "error" else 1.0) for r in results]


def largest(result: Result) -> float:
    """The largest lower bound on epsilon at 95 % that rests on the audit's coins alone."""
    return max(b.epsilon for b in result.lower_bounds if not b.assumptions)


def strict(result: Result) -> float:
    """The same with confidence 1 - 1e-6, at a delta that allows it: what refutes a claim."""
    return max(b.strict_epsilon or 0.0 for b in result.lower_bounds if not b.assumptions)


def print_promises(found: Arms) -> None:
    """Utility and claim of each arm beside what is proven, and the floors."""
    rows, first = [], next(iter(found.values()))[0]
    metric = first.headline.metric
    pieces = ["perplexity a token"] if first.spec.model.name == "gpt2" else []
    for name, results in found.items():
        one = results[0]
        curve = [number(proven(one, k)) for k in SPREADS]
        everybody = proven_for_all(one)
        cells = [name, shown(scores(results))]
        if pieces:
            cells.append(shown([r.utility["perplexity_token"].value for r in results]))
        rows.append([*cells, number(claimed(one)), *curve, number(everybody)])
    head = "error, %" if metric == "error" else metric
    table(["", head, *pieces, "claimed ε", *(f"k = {k}" for k in SPREADS), "everybody"], rows)
    if metric == "error":
        return
    low, high = (
        sum(r.utility[f"{name}_perplexity"].value for r in results) / len(results)
        for name in ("bigram", "unigram")
    )
    print(f"Unigrams {high:.3g}, bigrams {low:.3g}.\n")


def above_noiseless(found: Arms, name: str) -> list[float]:
    """Scores of an arm above those of training without noise, by seeds that both have."""
    plain, there = (
        dict(zip([run.spec.seed for run in runs], scores(runs), strict=True))
        for runs in (found["noiseless"], found[name])
    )
    return [there[seed] - plain[seed] for seed in there if seed in plain]


def by_category(folder: Path) -> dict[str, Arms]:
    """Arms of `paper/uedp-categories-quick` by the category of entities, in alphabetical order."""
    every = load_results([folder])
    of = {r.id: ", ".join(r.spec.source.params["entity_types"]) for r in every}
    return {
        name: named([r for r in every if of[r.id] == name]) for name in sorted(set(of.values()))
    }


def print_by_category(found: dict[str, Arms]) -> None:
    """Prints utility, claim, proofs and exposure of names where one category is the entities."""
    rows = []
    for category, of in found.items():
        for name, results in of.items():
            curve = [number(proven(results[0], k)) for k in SPREADS]
            rows.append([
                category, name, shown(scores(results)), number(claimed(results[0])), *curve,
                number(proven_for_all(results[0])), LEAKAGE["of names"][1](results),
                LEAKAGE["membership AUC"][1](results),
            ])  # fmt: skip
    head = ["entities", "", "perplexity", "claimed ε", *(f"k = {k}" for k in SPREADS), "everybody"]
    table([*head, "exposure of names", "membership AUC"], rows)


Column = Callable[[Sequence[Result]], str]


def _shown_of(attack: str, metric: str) -> Column:
    return lambda results: shown([r.leakage[attack][metric].value for r in results], 2)


def _audit_auc(results: Sequence[Result]) -> str:
    """Over retrainings where there are some, else over the canaries of one training."""
    name = "auc_retrainings" if "auc_retrainings" in results[0].leakage["audit"] else "auc"
    return shown([r.leakage["audit"][name].value for r in results], 2)


def _refuted(results: Sequence[Result]) -> str:
    claims = [g for r in results for g in r.guarantees if g.kind == "claimed"]
    refuted = sum(claim.status == "refuted" for claim in claims)
    return f"{refuted} of {len(results)}" if claims else "–"


def _signal(results: Sequence[Result]) -> str:
    ratio = [r.diagnostics.get("signal_to_noise", math.nan) for r in results]
    return "–" if math.isnan(ratio[0]) else f"{sum(ratio) / len(ratio):.2g}"


LEAKAGE: dict[str, tuple[str, Column]] = {
    "membership AUC": ("membership", _shown_of("membership", "auc_user")),
    "exposure": ("secret-sharer", _shown_of("secret-sharer", "exposure_max_repeats")),
    "of names": ("secret-sharer", _shown_of("secret-sharer", "exposure_entity")),
    "audit AUC": ("audit", _audit_auc),
    "ε at least, 95 %": ("audit", lambda rs: ", ".join(f"{largest(r):.2f}" for r in rs)),
    "ε at least, strict": ("audit", lambda rs: ", ".join(f"{strict(r):.2f}" for r in rs)),
    "claim refuted": ("audit", _refuted),
}
"""Columns of leakage and the attacks that they are of."""


def print_leakage(found: Arms) -> None:
    """Prints signal to noise, the gap to training without noise, and findings of the attacks."""
    there = {attack for results in found.values() for attack in results[0].leakage}
    columns = {head: each for head, each in LEAKAGE.items() if each[0] in there}
    gap = ["above noiseless"] if "noiseless" in found else []
    rows = []
    for name, results in found.items():
        cells = [name, _signal(results)]
        if gap:
            cells.append("–" if name == "noiseless" else shown(above_noiseless(found, name), 2))
        for attack, column in columns.values():
            cells.append(column(results) if results[0].leakage.get(attack) else "–")
        rows.append(cells)
    table(["", "signal/noise", *gap, *columns], rows)


Rates = tuple[float, float]
"""q_e and q_s."""


def sampled(folder: Path) -> dict[Rates, dict[int, Result]]:
    """Finished results of `paper/uedp-sampling-quick` by rates and by seed, the highest first."""
    found: dict[Rates, dict[int, Result]] = {}
    for result in load_results([folder]):
        p = result.spec.mechanism[0].params
        if result.status == "finished":
            rates = (p["entity_rate"], p["sentence_rate"])
            found.setdefault(rates, {})[result.spec.seed] = result
    return {key: dict(sorted(found[key].items())) for key in sorted(found, reverse=True)}


def above_the_highest(found: dict[Rates, dict[int, Result]]) -> dict[Rates, list[float]]:
    """Perplexity above that at the highest rates, seed by seed."""
    highest = next(iter(found.values()))
    plain = {seed: r.utility["perplexity"].value for seed, r in highest.items()}
    return {
        rates: [r.utility["perplexity"].value - plain[seed] for seed, r in runs.items()]
        for rates, runs in found.items()
    }


def print_sampling(found: dict[Rates, dict[int, Result]]) -> None:
    """Perplexity at rates of sampling and one noise, paired by seed, beside the proofs."""
    rows, gaps = [], above_the_highest(found)
    for (q_e, q_s), runs in found.items():
        one = next(iter(runs.values()))
        rows.append([
            f"{q_e:g}", f"{q_s:g}", shown(scores(list(runs.values())), 4),
            shown(gaps[q_e, q_s], 2) if rows else "–",
            _signal(list(runs.values())), *(number(proven(one, k)) for k in SPREADS),
        ])  # fmt: skip
    head = ["q_e", "q_s", "perplexity", "above the first row", "signal/noise"]
    table([*head, *(f"k = {k}" for k in SPREADS)], rows)
    low, high = one.utility["bigram_perplexity"].value, one.utility["unigram_perplexity"].value
    print(f"{len(runs)} seeds; unigrams {high:.4g}, bigrams {low:.3g}.\n")


MARKERS = "osd^vxP*<>DhX"
"""Thirteen, beside ten colours: 130 arms differ in one or the other."""


def plot_utility(found: Arms, path: Path) -> None:
    """Utility against the claim, and against what is proven at each spread; bars are over seeds.

    De-identification of one category, and what is off the scale, are left to the tables, so that
    the others can be told apart.
    """
    found = {
        name: each
        for name, each in found.items()
        if not name.startswith("deidentify, ") and max(scores(each)) < OFF_THE_SCALE
    }
    figure, panels = panels_of(2, 8.0)
    infinite = 300.0
    for at, (name, results) in enumerate(found.items()):
        y = seed_estimate(scores(results))
        bar = 0.0 if y.high is None else y.high - y.value
        style: dict[str, Any] = {
            "color": f"C{at % 10}", "marker": MARKERS[at % len(MARKERS)], "markersize": 4,
            "elinewidth": 0.6, "label": name,
        }  # fmt: skip
        claim = claimed(results[0])
        if not math.isnan(claim):
            panels[0].errorbar([claim], [y.value], [bar], linestyle="none", **style)
        curve = [*(proven(results[0], k) for k in SPREADS), proven_for_all(results[0])]
        proofs = [min(max(e, 1e-3), infinite) for e in curve if not math.isnan(e)]
        if proofs:
            values = [y.value] * len(proofs)
            panels[1].errorbar(proofs, values, [bar] * len(proofs), linewidth=0.8, **style)
    metric = next(iter(found.values()))[0].headline.metric
    for panel in panels:
        panel.set_xscale("log")
        panel.set_yscale("linear" if metric == "error" else "log")
    panels[0].set_xlabel("claimed ε")
    panels[1].set_xlabel("proven ε: user alone, spread 1, 3, 10, everybody")
    ticks = (0.01, 0.1, 1.0, 10.0, infinite)
    panels[1].set_xticks(ticks, ["0.01", "0.1", "1", "10", "∞"])
    panels[0].set_ylabel("error, %" if metric == "error" else metric)
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=3, loc="outside lower center")
    figure.savefig(path, metadata={"Date": None})


ARMS = {
    "uedp-audit": "uedp-perplexity.svg",
    "uedp-conll2003": "uedp-first-point.svg",
    "uedp-awd-lstm": None,  # a seed or two are no plot
    "uedp-figure6": "uedp-figure6.svg",
    "uedp-gpt2": "uedp-gpt2.svg",
    "uedp-contracts": "uedp-contracts.svg",
    "uedp-contracts-awd-lstm": None,
    "uedp-contracts-gpt2": "uedp-contracts-gpt2.svg",
    "uedp-ag": "uedp-ag.svg",
    "uedp-ag-audit": None,  # one arm
}
"""Folders of arms beside each other, and the plots of them."""


def main(folder: Path | None = None, plots: Path | None = None) -> None:
    print_rounds()
    print_categories()
    print_entity_rates()
    print_contracts()
    if plots is not None:
        plot_rounds(plots / "uedp-rounds.svg")
    if folder is None:
        return
    for name, plot in ARMS.items():
        if holds_results(folder / name):
            found = arms(folder / name)
            print_promises(found)
            print_leakage(found)
            if plots is not None and plot is not None:
                plot_utility(found, plots / plot)
    if holds_results(folder / "uedp-categories"):
        print_by_category(by_category(folder / "uedp-categories"))
    for name in ("sampling", "sampling-released"):
        if holds_results(folder / f"uedp-{name}"):
            print_sampling(sampled(folder / f"uedp-{name}"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        help="folder of results of paper/uedp-*-quick, a sub-folder for each",
    )
    parser.add_argument("--plots", type=Path, help="a folder for the SVG files")
    options = parser.parse_args()
    main(options.folder, options.plots)
