"""The tables of docs/reproductions: what we measured beside what the papers printed.

    cd leaderboard/results/reproductions
    python ../../../benchmarks/reproductions.py dpnr dpnr-ag
    python ../../../benchmarks/reproductions.py dpnr-maps dpnr-ag-figure4
    python ../../../benchmarks/reproductions.py vickrey vickrey-product-reviews
    python ../../../benchmarks/reproductions.py deepcandidate deepcandidate-imdb
    python ../../../benchmarks/reproductions.py federated-tagging federated-tagging-dp
    python ../../../benchmarks/reproductions.py wikipii wikipii
    python ../../../benchmarks/reproductions.py secure-inference secure-inference

Numbers of rows are means over seeds, with half of the 95 % interval (Student's t) where there are
several; all in percent but epsilon and inference errors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from printed_tables import table

from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import ComponentSpec, Result
from uedp_bench.statistics.intervals import seed_estimate

# Lyu, He and Li 2020, Tables 2 to 7: accuracy of the main task, empirical privacy (percent).
PRINTED: dict[str, dict[str, tuple[str, str]]] = {
    "dpnlp-ag": {
        "majority": ("57.79", "49.34"),
        "noiseless": ("78.75", "23.24"),
        "adversarial": ("57.04", "49.67"),
        "0.05": ("80.87", "54.37"),
        "0.1": ("80.78", ""),
        "0.5": ("79.71", ""),
        "1": ("79.36", ""),
        "5": ("79.59", ""),
        "mu 0.1": ("80.71", ""),
        "mu 0.3": ("79.18", ""),
        "mu 0.5": ("77.42", ""),
        "mu 0.8": ("69.57", ""),
    },
    "blog-authorship": {
        "majority": ("34.16", "46.96"),
        "noiseless": ("97.07", "33.88"),
        "adversarial": ("94.63", "35.04"),
        "0.05": ("96.69", "49.74"),
        "0.1": ("96.39", ""),
        "0.5": ("96.84", ""),
        "1": ("96.39", ""),
        "5": ("96.66", ""),
    },
}

# Jana and Biemann 2021, Tables 1 to 6 (the last line of 4 and 6): F-measure by what is compared.
PRINTED_TAGGING: dict[str, str] = {
    "softmax": "0.916",
    "softmax, σ 1": "0.906",
    "crf": "0.864",
    "crf, σ 1": "0.750",
    "5 clients, σ 0": "0.874",
    "5 clients, σ 1": "0.810",
    "20 clients, σ 0": "0.766",
    "20 clients, σ 1": "0.758",
    "5 clients, 10 rounds, σ 0": "0.846",
    "5 clients, 10 rounds, σ 1": "0.123",
}

SHOWN = ("majority", "noiseless", "adversarial", "0.05", "shared 0.05")
"""Rows of DPNR's tables by class and by group: what the paper's have, and the released code."""

Measure = Callable[[Result], float]


def main(paper: str, folder: Path) -> None:
    results = [r for r in load_results([folder]) if r.status == "finished"]
    tables = {"dpnr": dpnr, "dpnr-maps": dpnr_maps, "vickrey": vickrey,
              "deepcandidate": deepcandidate, "federated-tagging": federated_tagging,
              "wikipii": wikipii, "secure-inference": secure_inference}  # fmt: skip
    tables[paper](results)


def dpnr(results: Sequence[Result]) -> None:
    groups = _groups(results, _dpnr_key)
    printed = PRINTED[results[0].spec.source.name]
    rows = []
    for key, found in groups.items():
        claims = {g.epsilon for r in found for g in r.guarantees if g.kind == "claimed"}
        proofs = {g.epsilon for r in found for g in r.guarantees if g.unit == "word"
                  and (g.kind, g.status) == ("proven", "given")}  # fmt: skip
        name = key.removeprefix("shared ")
        accuracy, privacy = printed.get(name, ("", ""))
        rows.append(
            (key, _numbers(claims), _numbers(proofs), _cell(found, _utility("accuracy"), 100),
             accuracy, _cell(found, _leak("empirical_privacy_released"), 100),
             privacy, _cell(found, _leak("empirical_privacy"), 100))
        )  # fmt: skip
    head = ("mechanism", "claimed ε", "proven ε", "accuracy", "printed", "1 − X or 1 − F, the "
            "paper's attacker", "printed", "attacker who centres too")  # fmt: skip
    if "attribute-inference" not in results[0].details:
        table(head[:5], [row[:5] for row in rows])
        return
    table(head, rows)
    for title, chosen in (
        ("Accuracy of the attackers by class (Table 5)", _attacked),
        ("Accuracy of the main task by group (Tables 6 and 7)", _by_group),
    ):
        print(f"{title}:\n")
        names = list(results[0].details["attribute-inference"]["attributes"])
        kinds = [key for key in groups if key in SHOWN]
        cells = [(key, *[chosen(groups[key], name) for name in names]) for key in kinds]
        table(("mechanism", *names), cells)


def _dpnr_key(result: Result) -> str:
    part = result.spec.mechanism[0]
    if part.name != "dpnr":
        return part.name
    p = part.params
    if p["word_dropout"]:
        return f"mu {p['word_dropout']:g}"
    name = f"total {p['total_epsilon']:g}" if p["epsilon"] is None else f"{p['epsilon']:g}"
    return f"shared {name}" if p["noise"] == "shared" else name


def _attacked(found: Sequence[Result], attribute: str) -> str:
    """Accuracy of the attacker on each class of an attribute."""
    return _both(found, lambda r: [
        (name, cell["accuracy"]["value"])
        for name, cell in r.details["attribute-inference"]["attributes"][attribute][
            "by_class"].items()
    ])  # fmt: skip


def _by_group(found: Sequence[Result], attribute: str) -> str:
    """Accuracy of the main task in each group of an attribute."""
    return _both(found, lambda r: [
        (name, cell["accuracy"]["value"])
        for name, cell in r.details["attribute-inference"]["main_task_by_group"][attribute].items()
        if name != "difference"
    ])  # fmt: skip


def _both(found: Sequence[Result], read: Callable[[Result], list[tuple[str, float]]]) -> str:
    cells = [dict(read(result)) for result in found]
    return ", ".join(
        f"{name} {100 * seed_estimate([cell[name] for cell in cells]).value:.1f}"
        for name in cells[0]
    )


def dpnr_maps(results: Sequence[Result]) -> None:
    """What is told by a map alone, and by all coordinates."""
    names = list(_inference(results[0])["projection"]["attributes"])
    rows = []
    for key, found in _groups(results, _dpnr_key).items():
        cells = [(_cell(found, _told("labels"), 100), _cell(found, _utility("accuracy"), 100))]
        cells += [(_cell(found, _told(name), 100), _cell(found, _balanced(name), 100))
                  for name in names]  # fmt: skip
        rows.append((key, *[" / ".join(cell) for cell in cells]))
    table(("map / all coordinates", "label", *names), rows)


def _told(name: str) -> Measure:
    """How well each point of a map is told by its ten nearest neighbours there.

    Accuracy of the labels; of an attribute, balanced accuracy.
    """

    def measure(result: Result) -> float:
        from sklearn.metrics import accuracy_score, balanced_accuracy_score
        from sklearn.neighbors import KNeighborsClassifier

        kept = _inference(result)["projection"]
        classes = (kept["labels"] if name == "labels" else kept["attributes"][name])["labels"]
        known = [i for i, code in enumerate(classes) if code >= 0]
        points, truth = [kept["points"][i] for i in known], [classes[i] for i in known]
        # Without rows to predict: those of the fit, none of which is a neighbour of its own.
        said = KNeighborsClassifier(10).fit(points, truth).predict(None)
        score = accuracy_score if name == "labels" else balanced_accuracy_score
        return float(score(truth, said))

    return measure


def _balanced(name: str) -> Measure:
    """Balanced accuracy of the attacker."""
    return lambda r: float(_inference(r)["attributes"][name]["balanced_accuracy"]["value"])


def _inference(result: Result) -> dict[str, Any]:
    return result.details["attribute-inference"]


def vickrey(results: Sequence[Result]) -> None:
    groups = _groups(results, _words_key)
    rows = [
        (key, _cell(found, lambda r: float(r.spec.mechanism[0].params.get("epsilon", 0))),
         *(_cell(found, _leak(name), 1, 2) for name in ("inference_error", "inference_error_map",
                                                      "inference_error_nearest")),
         _cell(found, _loss, 100))
        for key, found in groups.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (row[0].rpartition(" ")[0], float(row[1])))
    rows = [(row[0], row[1] if float(row[1]) else "", *row[2:]) for row in rows]
    head = ("mechanism", "ε", "inference error (eq. 4)", "of the most likely word",
            "of the nearest word", "utility loss")  # fmt: skip
    table(head, [(row[0].rpartition(" ")[0], *row[1:]) for row in rows])


def _words_key(result: Result) -> str:
    part = result.spec.mechanism[0]
    p = part.params
    if part.name == "noiseless":
        return "noiseless 0"
    what = f"vickrey t={p['t']:g}, {p['candidates']}" if "t" in p else f"metric-dp, {p['noise']}"
    return f"{what} {p['epsilon']:g}"


def _loss(result: Result) -> float:
    utility = result.utility
    return utility["misclassified" if "misclassified" in utility else "error"].value


def deepcandidate(results: Sequence[Result]) -> None:
    groups = _groups(results, _sentences_key)
    rows = [
        (key, _numbers({g.epsilon for r in found for g in r.guarantees if g.kind == "proven"}),
         _cell(found, _utility("macro_f1"), 100), _cell(found, _utility("accuracy"), 100))
        for key, found in groups.items()
    ]  # fmt: skip
    table(("mechanism", "proven ε", "macro-F1", "accuracy"), rows)
    one = results[0].utility
    print(f"random guessing: accuracy {100 - 100 * one['random_error'].value:.1f}; "
          f"majority: {100 - 100 * one['majority_error'].value:.1f}")  # fmt: skip


def _sentences_key(result: Result) -> str:
    part = result.spec.mechanism[0]
    if part.name == "noiseless":
        return part.name
    depth = f", {part.params['depth']}" if "depth" in part.params else ""
    return f"{part.name}{depth}, ε {part.params['epsilon']:g}"


def federated_tagging(results: Sequence[Result]) -> None:
    """Entity scores, the score that the paper's numbers fit, and epsilons."""
    rows = []
    for key, found in _groups(results, _tagging_key).items():
        claimed = {g.epsilon for r in found for g in r.guarantees if g.kind == "claimed"}
        proven = {g.epsilon for r in found for g in r.guarantees if g.kind == "proven"}
        cells = [_cell(found, _utility(name), 100) for name in ("f1_strict", "f1_exact")]
        rows.append(
            (key, *cells, _cell(found, _utility("weighted_token_f1"), 1, 3),
             PRINTED_TAGGING[key], _numbers(claimed), _numbers(proven))
        )  # fmt: skip
    table(("", "entity F1", "boundaries alone", "weighted token F1", "printed F", "claimed ε",
            "proven ε"), sorted(rows))  # fmt: skip
    one = results[0].utility
    print(f"all outside: entity F1 0, weighted token F1 "
          f"{one['all_outside_weighted_token_f1'].value:.3f}; dictionary of public text: entity F1 "
          f"{100 * one['dictionary_f1'].value:.1f}")  # fmt: skip


def _tagging_key(result: Result) -> str:
    part, clients = result.spec.mechanism[0], result.spec.clients
    if clients is None:
        decoder = result.spec.task.params["decoder"]
        noise = part.params.get("noise_multiplier")
        return str(decoder) if noise is None else f"{decoder}, σ {noise:g}"
    rounds = part.params["rounds"]
    several = f", {rounds} rounds" if rounds > 1 else ""
    return f"{clients.count} clients{several}, σ {part.params['noise_multiplier']:g}"


def wikipii(results: Sequence[Result]) -> None:
    """Taggers that learnt from records, scored by what people mark."""
    scores = ("f1_strict", "f1_exact", "type_f1_paper", "partial_f1_paper")
    leaks = ("exposure", "exposure_held_out") if results[0].leakage else ()
    rows = []
    for key, found in _groups(results, _scenario).items():
        proven = {g.epsilon for r in found for g in r.guarantees if g.kind == "proven"}
        cells = [_cell(found, _utility(name), 100) for name in scores]
        cells += [_numbers(proven), *[_cell(found, _leak(name), 1, 2) for name in leaks]]
        rows.append((key, *cells))
    head = ("", "strict F1", "exact", "type (paper's)", "partial (paper's)", "proven ε")
    table((*head, *("exposure of facts", "of held-out subjects")[: len(leaks)]), rows)


def _scenario(result: Result) -> str:
    part, errors = result.spec.mechanism[0], result.spec.source.params.get("noise", 1.0)
    if errors != 1.0:
        return f"{_scenario_name(part)}, errors {errors:g}"
    return _scenario_name(part)


def _scenario_name(part: ComponentSpec) -> str:
    if part.name != "cyclic":
        return {"noiseless": "central", "pooled": "text given to an operator"}.get(
            part.name, part.name
        )
    visits = f"epochs {part.params['epochs']} x {part.params['local_epochs']}"
    kept = part.params["compression"]
    return f"from client to client, {visits}{'' if kept == 'none' else f', {kept}'}"


def secure_inference(results: Sequence[Result]) -> None:
    """Prints proofs, accuracy and findings of the attacks, over seeds."""
    leaks = ("auc", "agreement", "agreement_public_labels", "agreement_majority", "auc_inputs")
    arms: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        arms.setdefault(tuple(part.name for part in result.spec.mechanism), []).append(result)
    rows = []
    for key in sorted(arms, key=lambda each: (len(each), each)):
        proofs = {g.unit: g for g in arms[key][0].guarantees if g.kind == "proven"}
        computed = proofs.pop("computation", None)
        cells = [f"{proof.unit}: {number(proof.epsilon)}" for proof in proofs.values()]
        cells += ["–" if computed is None else f"{number(computed.epsilon)}, {computed.delta:g}"]
        cells += [_cell(arms[key], _utility("accuracy"), digits=2)]
        cells += [_cell(arms[key], _leak(name), digits=2) or "–" for name in leaks]
        rows.append((" + ".join(key), *cells))
    head = ("", "proven ε", "computation: ε, δ", "accuracy", "membership AUC", "copy agrees",
            "public labels alone", "majority answer", "transcript AUC")  # fmt: skip
    table(head, rows)


def _groups(results: Iterable[Result], key: Callable[[Result], str]) -> dict[str, list[Result]]:
    out: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (_order(r), key(r))):
        out.setdefault(key(result), []).append(result)
    return out


def _order(result: Result) -> tuple[int, bool, float]:
    """Baselines first, then by the mechanism's variant and its epsilon."""
    name, params = result.spec.mechanism[0].name, result.spec.mechanism[0].params
    baselines = ("majority", "noiseless", "adversarial")
    epsilon = params.get("epsilon") or 1e6 + float(params.get("total_epsilon") or 0)
    variant = params.get("noise") == "shared" or params.get("depth") == "highest"
    rank = baselines.index(name) if name in baselines else len(baselines) + (name > "n")
    return rank, variant, float(epsilon)


def _utility(name: str) -> Measure:
    return lambda result: result.utility[name].value


def _leak(name: str) -> Measure:
    return lambda result: next(m[name].value for m in result.leakage.values() if name in m)


def _cell(found: Sequence[Result], measure: Measure, scale: float = 1, digits: int = 1) -> str:
    try:
        estimate = seed_estimate([scale * measure(result) for result in found])
    except StopIteration:
        return ""
    if scale == 1 and digits == 1:
        return f"{estimate.value:g}"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} ±{(estimate.high - estimate.low) / 2:.{digits}f}"


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(number(value) for value in sorted(values)) or "–"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
