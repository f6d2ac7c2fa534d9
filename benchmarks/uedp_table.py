"""UeDP (Lai et al. 2022) on CoNLL-2003: claimed beside proven epsilon, perplexity, leakage, audits.

    python benchmarks/uedp_table.py leaderboard/results/reproductions --plots docs/reproductions

Reads the folders `uedp-conll2003`, `uedp-audit` and `uedp-sampling` of results. The figure of
epsilon against rounds is computed here and reads no result. Half of the 95 % interval over seeds
(Student's t) stands behind ±.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from uedp_bench.accounting.accountants.moments import moments_epsilon
from uedp_bench.accounting.events import PrivacyEvent, Protected, Repeated, UserEntityGaussian
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result
from uedp_bench.statistics.intervals import seed_estimate

SPREADS = (0, 1, 3, 10)
CATEGORIES = {"PER": "person", "ORG": "organisation", "LOC": "location", "MISC": "miscellaneous"}
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


def arms(folder: Path, name: Callable[[Result], str]) -> Arms:
    """Finished results by what they are called, in the order of the names."""
    found: Arms = {}
    for result in load_results([folder]):
        if result.status == "finished":
            found.setdefault(name(result), []).append(result)
    return {key: sorted(found[key], key=lambda r: r.spec.seed) for key in sorted(found, key=_order)}


FIRST = ("noiseless", "de-identified", "user-dp", "uedp-group", "uedp, as described", "uedp, as re")


def _order(name: str) -> tuple[int, str]:
    return next(at for at, first in enumerate(FIRST) if name.startswith(first)), name


def arm_of(result: Result) -> str:
    """What a run of `paper/uedp-conll2003-quick` or `paper/uedp-audit-quick` is called."""
    first, last = result.spec.mechanism[0], result.spec.mechanism[-1]
    p = last.params
    if first.name == "deidentify":
        types = first.params["entity_types"]
        return "de-identified: " + ("all" if types is None else CATEGORIES[types[0]])
    if last.name == "uedp-group":
        return f"uedp-group, ε = {p['epsilon']:g}"
    if last.name == "user-dp":
        if p["noise_multiplier"] == 2.0:
            return f"user-dp, z = 2, {p['rounds']} rounds"
        return f"user-dp, ε = {proven(result):.3g}"
    if last.name == "uedp":
        noise = "as described" if p["noise"] == "published" else "as released"
        step = ", SGD" if noise == "as released" and p["server_optimizer"] == "sgd" else ""
        return f"uedp, {noise}, {p['estimator']}, {p['rounds']} rounds{step}"
    return last.name


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
    if main.status != "given" or math.isinf(main.epsilon):
        return math.inf
    return proven_at(
        result.events, unit="user-entity", adjacency="add-or-remove", delta=result.spec.delta,
        point=Protected(spread=spread),
    )  # fmt: skip


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


def _leak(results: Sequence[Result], attack: str, metric: str) -> str:
    return shown([r.leakage[attack][metric].value for r in results], 2)


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


def print_conll(found: Arms) -> None:
    """Perplexity beside claimed and proven epsilon; then what leaks."""
    spreads = [f"k = {k}" for k in SPREADS]
    rows = []
    for name, results in found.items():
        one = results[0]
        curve = [number(proven(one, k)) for k in SPREADS]
        everybody = proven(one) if "uedp" in one.spec.mechanism[-1].name else math.nan
        last = one.spec.mechanism[-1].name
        if last == "uedp-group":
            everybody = math.inf if math.isinf(proven(one, 945)) else proven(one, 945)
        signal = [r.diagnostics.get("signal_to_noise", math.nan) for r in results]
        ratio = f"{sum(signal) / len(signal):.2g}" if not math.isnan(signal[0]) else "–"
        rows.append([name, shown(perplexities(results)), number(claimed(one)), *curve,
                     number(everybody), ratio])  # fmt: skip
    head = ["", "perplexity", "claimed ε", *spreads, "everybody", "signal/noise"]
    table(head, rows)
    head = ["", "exposure", "entity exposure", "member AUC", "user AUC"]
    table(head, [
        [name, _leak(results, "secret-sharer", "exposure_max_repeats"),
         _leak(results, "secret-sharer", "exposure_entity"),
         _leak(results, "membership", "auc"), _leak(results, "membership", "auc_user")]
        for name, results in found.items()
    ])  # fmt: skip


def strict(result: Result) -> float:
    """The largest lower bound on epsilon that rests on the audit's coins alone."""
    return max(b.strict_epsilon or 0.0 for b in result.lower_bounds if not b.assumptions)


def print_audit(found: Arms) -> None:
    """Claims at the audit's delta beside lower bounds."""
    rows = []
    for name, results in found.items():
        refuted = sum(g.status == "refuted" for r in results for g in r.guarantees)
        rows.append([
            name, _leak(results, "audit", "auc"), number(claimed(results[0])),
            ", ".join(f"{strict(r):.2f}" for r in results), f"{refuted} of {len(results)}",
        ])  # fmt: skip
    table(["", "AUC", "claimed ε", "ε at least, by seed", "claim refuted"], rows)


def _rates(result: Result) -> tuple[str, float, float]:
    p = result.spec.mechanism[0].params
    return p["noise"], p["sentence_rate"], p["entity_rate"]


def sampled(folder: Path) -> dict[tuple[str, float, float], list[Result]]:
    """Results by noise, q_s and q_e."""
    found: dict[tuple[str, float, float], list[Result]] = {}
    for result in load_results([folder]):
        found.setdefault(_rates(result), []).append(result)
    return {
        key: sorted(found[key], key=lambda r: r.spec.seed) for key in sorted(found, reverse=True)
    }


def print_sampling(found: dict[tuple[str, float, float], list[Result]]) -> None:
    """Perplexity by q_s as released; then by q_e and q_s at one proven epsilon."""
    base = next((found[key] for key in found if key == ("published", 1.0, 1.0)), None)
    for noise in ("released", "published"):
        rows = []
        for (kind, q_s, q_e), results in found.items():
            if kind != noise:
                continue
            row = [f"{q_s:g}", f"{q_e:g}", shown(perplexities(results))]
            if noise == "published" and base is not None:
                row += [_ratio(results, base), number(proven(results[0], 3))]
            rows.append(row)
        extra = ["times that of q_s = q_e = 1", "proven ε at k = 3"] if noise == "published" else []
        table(["q_s", "q_e", "perplexity", *extra], rows)


def _ratio(results: Sequence[Result], base: Sequence[Result]) -> str:
    """Ratio of perplexities in pairs of one seed, by the mean of its logarithm."""
    logs = [
        math.log(a / b)
        for a, b in zip(perplexities(results), perplexities(base), strict=True)
    ]  # fmt: skip
    found = seed_estimate(logs)
    if found.low is None or found.high is None or results is base:
        return f"{math.exp(found.value):.2f}"
    return f"{math.exp(found.value):.2f} ({math.exp(found.low):.2f} to {math.exp(found.high):.2f})"


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


def claimed_of(data: Data, rounds: int, z: float) -> dict[str, float]:
    """Epsilons of Figure 4 by estimator."""
    q = data.users_per_round / data.users
    rates = {"f_E+": q * 0.5 * data.sensitive / data.sentences, "f_E": q * 0.5, "user-level DP": q}
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
    figure = Figure(figsize=(width, 3.2), layout="constrained")
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
    panels[-1].legend(frameon=False, fontsize=6, loc="center right")
    figure.savefig(path, metadata={"Date": None})


def plot_perplexity(found: Arms, path: Path) -> None:
    """Perplexity against the claim, and against what is proven at each spread."""
    figure, panels = _panels(2, 8.0)
    infinite = 300.0
    for at, (name, results) in enumerate(
        (name, results) for name, results in found.items() if not name.startswith("de-")
    ):
        y = seed_estimate(perplexities(results)).value
        style = {"color": f"C{at % 10}", "marker": "osd^vxP*<>"[at % 10], "markersize": 4}
        claim = claimed(results[0])
        if not math.isnan(claim):
            panels[0].plot([claim], [y], linestyle="none", label=name, **style)
        curve = [proven(results[0], k) for k in SPREADS] + [proven(results[0])]
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
    panels[1].legend(frameon=False, fontsize=5.5, loc="upper right")
    figure.savefig(path, metadata={"Date": None})


def main(folder: Path, plots: Path | None = None) -> None:
    conll = arms(folder / "uedp-conll2003", arm_of)
    print_conll(conll)
    print_audit(arms(folder / "uedp-audit", arm_of))
    print_sampling(sampled(folder / "uedp-sampling"))
    print_rounds()
    if plots is not None:
        plot_perplexity(conll, plots / "uedp-perplexity.svg")
        plot_rounds(plots / "uedp-rounds.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder of the folders of results")
    parser.add_argument("--plots", type=Path, help="a folder for the two SVG files")
    options = parser.parse_args()
    main(options.folder, options.plots)
