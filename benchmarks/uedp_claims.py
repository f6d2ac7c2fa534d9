"""UeDP (Lai et al. 2022): claims beside proofs, by rounds, categories and rates of entities.

Everything here is computed, and reads no result; `uedp_table.py` prints it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from printed_tables import table

from uedp_bench.accounting.accountants.moments import moments_epsilon
from uedp_bench.accounting.events import PrivacyEvent, Protected, Repeated, UserEntityGaussian
from uedp_bench.accounting.ledger import proven_at

SPREADS = (0, 1, 3, 10)


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


def number(value: float) -> str:
    """An epsilon in a table."""
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.3g}"


def print_entity_rates() -> None:
    """Prints the claims at some rates of entities on CoNLL-2003, and the proofs, equal at all."""
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
    """Prints the claim for each category of SEC at 500 rounds, and the proofs, equal for all."""
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
    """Prints the proofs for names of the contracts, with SEC's setting at 50 rounds."""
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


def panels_of(count: int, width: float) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "uedp", "font.size": 8, "svg.fonttype": "none"})
    figure = Figure(figsize=(width, 3.6), layout="constrained")
    return figure, figure.subplots(1, count, sharey=True)


def plot_rounds(path: Path) -> None:
    """Epsilon against rounds: claims as lines, proofs as dashes (Figure 4)."""
    figure, panels = panels_of(len(FIGURE_4), 8.0)
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
