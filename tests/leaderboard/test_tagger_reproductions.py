"""What docs/reproductions says of taggers is what the committed results say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "leaderboard" / "results" / "reproductions"
TABLES = {
    "federated-tagging-dp": "federated-tagging",
    "federated-tagging-clients": "federated-tagging",
    "federated-tagging-incremental": "federated-tagging",
    "wikipii": "wikipii",
    "wikipii-conll2003": "wikipii",
    "wikipii-noise": "wikipii",
}


def mean(name: str, metric: str, mechanism: str, **params: object) -> float:
    """Mean over seeds of a utility, of the runs whose parameters (or clients) are these."""
    found = [
        result.utility[metric].value
        for result in load_results([FOLDER / name])
        if result.spec.mechanism[0].name == mechanism and _fits(result, params)
    ]
    assert len(found) == 3, found
    return sum(found) / len(found)


def _fits(result: Result, wanted: dict[str, object]) -> bool:
    spec = result.spec
    known = {**spec.source.params, **spec.task.params, **spec.mechanism[0].params}
    if spec.clients is not None:
        known["clients"] = spec.clients.count
    return all(known[name] == value for name, value in wanted.items())


@pytest.mark.parametrize("name", TABLES)
def test_pages_hold_the_tables_that_results_print(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "reproductions.py"))
    script["main"](TABLES[name], FOLDER / name)
    page = ROOT / "docs" / "reproductions" / f"{TABLES[name]}.md"
    assert capsys.readouterr().out.strip() in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("clients", "noise", "printed"),
    [(5, 0.0, 0.874), (5, 1.0, 0.810), (20, 0.0, 0.766), (20, 1.0, 0.758)],
)
def test_printed_scores_of_clients_are_those_of_labels_with_outside(
    clients: int, noise: float, printed: float
) -> None:
    which = {"clients": clients, "noise_multiplier": noise}
    name, mechanism = "federated-tagging-clients", "federated-dp-sgd"
    assert mean(name, "weighted_token_f1", mechanism, **which) == pytest.approx(printed, abs=0.02)
    assert mean(name, "f1_strict", mechanism, **which) < 0.4


def test_noise_moves_entities_and_hardly_the_mean_over_labels() -> None:
    name = "federated-tagging-dp"
    for decoder in ("softmax", "crf"):
        entities, labels = (
            mean(name, metric, "noiseless", decoder=decoder)
            - mean(name, metric, "dp-sgd", decoder=decoder)
            for metric in ("f1_strict", "weighted_token_f1")
        )
        assert entities > 0.1 > 0.05 > labels
    assert mean(name, "f1_strict", "dp-sgd", decoder="crf") > mean(
        name, "f1_strict", "dp-sgd", decoder="softmax"
    )


def test_the_proven_epsilon_grows_with_the_number_of_clients_and_the_claim_does_not() -> None:
    epsilons: dict[tuple[str, int], set[float]] = {}
    for result in load_results([FOLDER / "federated-tagging-clients"]):
        if result.spec.mechanism[0].params["noise_multiplier"] and result.spec.clients:
            for given in result.guarantees:
                key = (given.kind, result.spec.clients.count)
                epsilons.setdefault(key, set()).add(given.epsilon)
    assert epsilons["claimed", 5] == epsilons["claimed", 20]
    assert min(epsilons["proven", 20]) > 2 * max(epsilons["proven", 5])


def test_a_travelling_model_is_as_good_as_the_central_one_and_worse_in_eight_bits() -> None:
    central = mean("wikipii", "f1_exact", "noiseless")
    whole = {"compression": "none", "epochs": 4}
    assert mean("wikipii", "f1_exact", "cyclic", **whole) > central - 0.02
    assert mean("wikipii", "f1_exact", "cyclic", compression="int8") < central - 0.01


def test_errors_of_labels_cost_more_than_the_noise_of_training() -> None:
    def strict(mechanism: str, errors: float) -> float:
        return mean("wikipii-noise", "f1_strict", mechanism, noise=errors)

    assert strict("noiseless", 0.0) > 0.95
    assert strict("user-dp", 0.0) > strict("noiseless", 1.0) + 0.2
    assert strict("user-dp", 0.0) > strict("user-dp", 0.5) > strict("user-dp", 1.0)
