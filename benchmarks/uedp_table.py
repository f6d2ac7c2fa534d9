"""UeDP (Lai et al. 2022) on CoNLL-2003: claimed beside proven epsilon, perplexity, leakage, audits.

    python benchmarks/uedp_table.py [leaderboard/results/reproductions] [--plots docs/reproductions]

Epsilon against rounds is computed here and reads no result; the rest is of the results in the
sub-folders `uedp-audit`, `uedp-conll2003` and `uedp-sampling`, where a folder is given. Half of the
95 % interval over seeds (Student's t) stands behind ±.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from uedp_bench.accounting.accountants.moments import moments_epsilon
from uedp_bench.accounting.events import PrivacyEvent, Protected, Repeated, UserEntityGaussian
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.statistics.intervals import seed_estimate

SPREADS = (0, 1, 3, 10)
Arms = dict[str, list[Result]]


class Data(NamedTuple):
    """A data set of Figure 4: users a round and in all, sensitive sentences and all of them."""

    users_per_round: int
    users: int
    sensitive: int
    sentences: int


FIGURE_4 = {
    "CoNLL-2003": Data(50, 946, 11_176, 14_040),
    "AG": Data(500, 7_536, 67_157, 112_000),
    "SEC": Data(100, 1_592, 2_166, 5_188),
}


def arms(folder: Path) -> Arms:
    """Finished results by what they are called, in the order of `FIRST`."""
    found: Arms = {}
    for result in load_results([folder]):
        if result.status == "finished":
            found.setdefault(arm_of(result), []).append(result)
    return {key: sorted(found[key], key=lambda r: r.spec.seed) for key in sorted(found, key=_order)}


FIRST = ("noiseless", "deidentify", "user-dp", "uedp-group", "uedp, as described", "uedp, as re")


def _order(name: str) -> tuple[int, str]:
    return next(at for at, first in enumerate(FIRST) if name.startswith(first)), name


def arm_of(result: Result) -> str:
    """What a run of `paper/uedp-audit-quick` or `paper/uedp-conll2003-quick` is called."""
    one = result.spec.mechanism[0]
    p = one.params
    if one.name == "uedp-group":
        return f"uedp-group, ε = {p['epsilon']:g} at k = {p['protected_sentences']}"
    if one.name == "user-dp":
        return f"user-dp, ε = {proven(result):.3g}"
    if one.name == "uedp":
        noise = "as described" if p["noise"] == "published" else "as released"
        plain = p["noise"] == "released" and p["server_optimizer"] == "sgd"
        return f"uedp, {noise}, {p['rounds']} rounds{', plain step' if plain else ''}"
    return one.name


def claimed(result: Result) -> float:
    """The claim, NaN where there is none."""
    return next((g.epsilon for g in result.guarantees if g.kind == "claimed"), math.nan)


def proven(result: Result, spread: int | None = None) -> float:
    """What is proven: at so many others who mention the entity, or as the result prints it."""
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
    """What is proven for an entity that everybody mentions; NaN where no entity is protected."""
    if not result.spec.mechanism[-1].name.startswith("uedp"):
        return math.nan
    return proven(result, FIGURE_4["CoNLL-2003"].users - 1)


def shown(values: Sequence[float], digits: int = 3) -> str:
    """The mean and half of its interval over seeds."""
    found = seed_estimate(values)
    if found.high is None:
        return f"{found.value:.{digits}g}"
    places = max(digits - 1 - math.floor(math.log10(max(abs(found.value), 1e-9))), 0)
    return f"{found.value:.{places}f} ±{found.high - found.value:.{places}f}"


def number(value: float) -> str:
    """An epsilon in a table."""
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table in Markdown."""
    print(f"| {' | '.join(head)} |")
    print(f"|{' :-- |'}{' --: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def perplexities(results: Sequence[Result]) -> list[float]:
    """Perplexity of each seed."""
    return [r.utility["perplexity"].value for r in results]


def largest(result: Result) -> float:
    """The largest lower bound on epsilon at 95 % that rests on the audit's coins alone."""
    return max(b.epsilon for b in result.lower_bounds if not b.assumptions)


def strict(result: Result) -> float:
    """The same with confidence 1 - 1e-6, at a delta that allows it: what refutes a claim."""
    return max(b.strict_epsilon or 0.0 for b in result.lower_bounds if not b.assumptions)


def print_promises(found: Arms) -> None:
    """Perplexity and claim of each arm beside what is proven, and the floors."""
    rows = []
    for name, results in found.items():
        one = results[0]
        curve = [number(proven(one, k)) for k in SPREADS]
        everybody = proven_for_all(one)
        cells = [name, shown(perplexities(results)), number(claimed(one))]
        rows.append([*cells, *curve, number(everybody)])
    table(["", "perplexity", "claimed ε", *(f"k = {k}" for k in SPREADS), "everybody"], rows)
    low, high = (
        sum(r.utility[f"{name}_perplexity"].value for r in results) / len(results)
        for name in ("bigram", "unigram")
    )
    print(f"Unigrams {high:.3g}, bigrams {low:.3g}.\n")


def above_noiseless(found: Arms, name: str) -> list[float]:
    """Perplexity of an arm above that of training without noise, seed by seed."""
    pairs = zip(found[name], found["noiseless"], strict=True)
    return [r.utility["perplexity"].value - n.utility["perplexity"].value for r, n in pairs]


def print_figure_6(found: Arms) -> None:
    """The arms of Figure 6 by what they promise and by what attacks find."""
    print_promises(found)
    rows = []
    for name, results in found.items():
        ratio = [r.diagnostics.get("signal_to_noise", math.nan) for r in results]
        sharer = [r.leakage["secret-sharer"] for r in results]
        rows.append([
            name, "–" if math.isnan(ratio[0]) else f"{sum(ratio) / len(ratio):.2g}",
            "–" if name == "noiseless" else shown(above_noiseless(found, name), 2),
            shown([r.leakage["membership"]["auc_user"].value for r in results], 2),
            shown([one["exposure_max_repeats"].value for one in sharer], 2),
            shown([one["exposure_entity"].value for one in sharer], 2),
        ])  # fmt: skip
    head = ["", "signal/noise", "above noiseless", "membership AUC", "exposure", "of names"]
    table(head, rows)


def print_audit(found: Arms) -> None:
    """What `print_promises` prints, and what the audit found."""
    print_promises(found)
    rows = []
    for name, results in found.items():
        ratio = [r.diagnostics.get("signal_to_noise", math.nan) for r in results]
        claims = [g for r in results for g in r.guarantees if g.kind == "claimed"]
        refuted = sum(claim.status == "refuted" for claim in claims)
        rows.append([
            name, "–" if math.isnan(ratio[0]) else f"{sum(ratio) / len(ratio):.2g}",
            shown([r.leakage["audit"]["auc"].value for r in results], 2),
            ", ".join(f"{largest(r):.2f}" for r in results),
            ", ".join(f"{strict(r):.2f}" for r in results),
            f"{refuted} of {len(results)}" if claims else "–",
        ])  # fmt: skip
    head = ["", "signal/noise", "AUC", "ε at least, 95 %", "ε at least, strict", "claim refuted"]
    table(head, rows)


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
        ratio = [r.diagnostics["signal_to_noise"] for r in runs.values()]
        one = next(iter(runs.values()))
        rows.append([
            f"{q_e:g}", f"{q_s:g}", shown(perplexities(list(runs.values())), 4),
            shown(gaps[q_e, q_s], 2) if rows else "–",
            f"{sum(ratio) / len(ratio):.3f}", *(number(proven(one, k)) for k in SPREADS),
        ])  # fmt: skip
    head = ["q_e", "q_s", "perplexity", "above the first row", "signal/noise"]
    table([*head, *(f"k = {k}" for k in SPREADS)], rows)
    low, high = one.utility["bigram_perplexity"].value, one.utility["unigram_perplexity"].value
    print(f"{len(runs)} seeds; unigrams {high:.4g}, bigrams {low:.3g}.\n")


def print_entity_rates() -> None:
    """What is claimed at some rates of entities on CoNLL-2003, and what is proven at any."""
    data, rows = FIGURE_4["CoNLL-2003"], []
    for q_e in (0.1, 0.5, 1.0):
        claims = claimed_of(data, 50, 2.0, q_e)
        curve = [number(proven_of(data, 50, 2.0, k)) for k in SPREADS]
        rows.append([f"{q_e:g}", *(f"{claims[name]:.3f}" for name in ("f_E+", "f_E")), *curve])
    table(["q_e", "f_E+", "f_E", *(f"k = {k}" for k in SPREADS)], rows)


SEC_CATEGORIES = {
    "GPE": (60, 0.19), "location": (273, 0.24), "PII": (357, 0.26),
    "organisation": (1_955, 0.73), "all": (2_166, 0.81),
}  # fmt: skip
"""Sensitive sentences (Table II) and the printed epsilon at 500 rounds (section VI)."""


def print_categories() -> None:
    """What is claimed for a category of SEC at 500 rounds, and what is proven: the same for all."""
    rows = []
    for name, (sensitive, printed) in SEC_CATEGORIES.items():
        data = FIGURE_4["SEC"]._replace(sensitive=sensitive)
        claim = claimed_of(data, 500, 2.0)["f_E+"]
        curve = [number(proven_of(data, 500, 2.0, k)) for k in SPREADS]
        rows.append([name, f"{sensitive:,}", f"{printed:g}", f"{claim:.3f}", *curve])
    spreads = [f"k = {k}" for k in SPREADS]
    table(["", "sensitive sentences", "printed", "claimed, ours", *spreads], rows)


CONTRACTS = {
    "party": ("1,060 | 4,823 | 95 % | 98 % | 99.5 %", (0, 0, 2)),
    "governing law": ("60 | 4,214 | 8 % | 8 % | 15 %", (12, 51, 277)),
}
"""Counts and spreads (at 50, 90 and 99 %) of names in CUAD, as `uedp-bench data describe` prints
them of what `benchmarks/contract_sentences.py` wrote."""


def print_contracts() -> None:
    """What is proven for names of the contracts, with SEC's setting at 50 rounds."""
    for name, (counts, spreads) in CONTRACTS.items():
        cells = [f"{k}: {number(proven_of(FIGURE_4['SEC'], 50, 2.0, k))}" for k in spreads]
        print(f"| {name} | {counts} | {' | '.join(cells)} |")
    print()


def proven_of(data: Data, rounds: int, z: float, spread: int) -> float:
    """Proven epsilon of Algorithm 1 with constant weights at a spread, delta 1e-5."""
    noise = z * (data.users_per_round + 1)
    event = UserEntityGaussian(
        rate=data.users_per_round / data.users, noise_multiplier=noise, users=data.users
    )
    events = [PrivacyEvent(unit="user-entity", event=Repeated(count=rounds, event=event))]
    return proven_at(
        events, unit="user-entity", adjacency="add-or-remove", delta=1e-5,
        point=Protected(spread=spread),
    )  # fmt: skip


def claimed_of(data: Data, rounds: int, z: float, q_e: float = 0.5) -> dict[str, float]:
    """Epsilons of Figure 4 by estimator."""
    q = data.users_per_round / data.users
    rates = {"f_E+": q * q_e * data.sensitive / data.sentences, "f_E": q * q_e, "user-level DP": q}
    return {name: moments_epsilon(rate, z, rounds, 1e-5) for name, rate in rates.items()}


def print_rounds() -> None:
    """Figure 4 at 50 and 500 rounds: what is claimed, and what is proven."""
    rows = []
    for name, data in FIGURE_4.items():
        for rounds in (50, 500):
            claims = [number(e) for e in claimed_of(data, rounds, 2.0).values()]
            curve = [number(proven_of(data, rounds, 2.0, k)) for k in (*SPREADS, data.users - 1)]
            rows.append([f"{name}, T = {rounds}", *claims, *curve])
    spreads = [f"k = {k}" for k in SPREADS]
    table(["", "f_E+", "f_E", "user-level", *spreads, "everybody"], rows)


def _panels(count: int, width: float) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "uedp", "font.size": 8, "svg.fonttype": "none"})
    figure = Figure(figsize=(width, 3.6), layout="constrained")
    return figure, figure.subplots(1, count, sharey=True)


def plot_rounds(path: Path) -> None:
    """Epsilon against rounds: claims as lines, proofs as dashes (Figure 4)."""
    figure, panels = _panels(len(FIGURE_4), 8.0)
    at = (1, 10, 50, 100, 200, 350, 500)
    for panel, (name, data) in zip(panels, FIGURE_4.items(), strict=True):
        lines = [claimed_of(data, rounds, 2.0) for rounds in at]
        for estimator, colour in (("f_E+", "C0"), ("f_E", "C1"), ("user-level DP", "C2")):
            panel.plot(at, [line[estimator] for line in lines], color=colour,
                       label=f"claimed, {estimator}")  # fmt: skip
        for number_, spread in enumerate((*SPREADS, data.users - 1)):
            values = [proven_of(data, rounds, 2.0, spread) for rounds in at]
            label = f"proven, k = {spread}" if spread in SPREADS else "proven, everybody"
            panel.plot(at, values, linestyle="--", color=str(0.75 - 0.18 * number_), label=label)
        panel.set_title(name)
        panel.set_xlabel("rounds")
        panel.set_yscale("log")
    panels[0].set_ylabel("ε at δ = 1e-5")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=4, loc="outside lower center")
    figure.savefig(path, metadata={"Date": None})


def plot_perplexity(found: Arms, path: Path) -> None:
    """Perplexity against the claim, and against what is proven at each spread."""
    figure, panels = _panels(2, 8.0)
    infinite = 300.0
    for at, (name, results) in enumerate(found.items()):
        y = seed_estimate(perplexities(results)).value
        style = {"color": f"C{at % 10}", "marker": "osd^vxP*<>"[at % 10], "markersize": 4}
        claim = claimed(results[0])
        if not math.isnan(claim):
            panels[0].plot([claim], [y], linestyle="none", label=name, **style)
        curve = [proven(results[0], k) for k in SPREADS]
        curve.append(proven_for_all(results[0]))
        curve = [e for e in curve if not math.isnan(e)]
        panels[1].plot([min(max(e, 1e-3), infinite) for e in curve], [y] * len(curve),
                       linewidth=0.8, label=name, **style)  # fmt: skip
    for panel in panels:
        panel.set_xscale("log")
        panel.set_yscale("log")
    panels[0].set_xlabel("claimed ε")
    panels[1].set_xlabel("proven ε: user alone, spread 1, 3, 10, everybody")
    ticks = (0.01, 0.1, 1.0, 10.0, infinite)
    panels[1].set_xticks(ticks, ["0.01", "0.1", "1", "10", "∞"])
    panels[0].set_ylabel("perplexity")
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=3, loc="outside lower center")
    figure.savefig(path, metadata={"Date": None})


def main(folder: Path | None = None, plots: Path | None = None) -> None:
    print_rounds()
    print_categories()
    print_entity_rates()
    print_contracts()
    if plots is not None:
        plot_rounds(plots / "uedp-rounds.svg")
    if folder is None:
        return
    found = arms(folder / "uedp-audit")
    print_audit(found)
    if (folder / "uedp-conll2003").is_dir():
        first_point = arms(folder / "uedp-conll2003")
        print_figure_6(first_point)
        if plots is not None:
            plot_perplexity(first_point, plots / "uedp-first-point.svg")
    if (folder / "uedp-sampling").is_dir():
        print_sampling(sampled(folder / "uedp-sampling"))
    if plots is not None:
        plot_perplexity(found, plots / "uedp-perplexity.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        help="results of paper/uedp-{audit,conll2003,sampling}-quick",
    )
    parser.add_argument("--plots", type=Path, help="a folder for the SVG files")
    options = parser.parse_args()
    main(options.folder, options.plots)
