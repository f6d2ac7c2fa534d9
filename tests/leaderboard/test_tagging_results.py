"""What the stored results of taggers must show, and what the page about them says."""

from __future__ import annotations

from pathlib import Path

import pytest

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.validate import check
from uedp_bench.results import read_result

RESULTS = Path(__file__).parents[2] / "leaderboard" / "results" / "tagging"
EPSILONS = {
    "dp-sgd": [1.693, 1.1612, 0.84006, 0.6168],
    "user-dp": [2.5148, 1.5765, 1.0549, 0.7319],
}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return aggregate(load_results([RESULTS / "conll2003"]))


def noise(rows: list[Row], label: str) -> list[Row]:
    """Rows of a mechanism, the most noise first."""
    found = [row for row in rows if row.spec.mechanism[0].name == label]
    return sorted(found, key=lambda row: -row.spec.mechanism[0].params["noise_multiplier"])


def f1(row: Row) -> float:
    return row.utility["f1_strict"].value


def test_they_are_those_of_the_packaged_spec(rows: list[Row]) -> None:
    spec = read_spec("tagging-conll2003")
    spec["source"] = {"name": "conll2003", "params": {"path": "data/conll2003"}}
    wanted = expand(parse_spec({**spec, "seeds": [1]}))
    again = [expand(parse_spec(row.spec.model_dump(mode="json"))) for row in rows]
    found = [run.model_copy(update={"seed": 1}) for (run,) in again]
    assert len(found) == len(wanted)
    assert all(run in found for run in wanted)
    assert all(row.seeds == (1, 2, 3) for row in rows)


@pytest.mark.parametrize(("label", "unit"), [("dp-sgd", "record"), ("user-dp", "user")])
def test_curves_are_at_proven_epsilon_1_2_4_8(rows: list[Row], label: str, unit: str) -> None:
    found = noise(rows, label)
    assert [row.spec.mechanism[0].params["noise_multiplier"] for row in found] == EPSILONS[label]
    proven = [g.epsilon for row in found for g in row.guarantees
              if (g.kind, g.unit) == ("proven", unit)]  # fmt: skip
    assert proven == pytest.approx([1, 2, 4, 8], rel=1e-3)


def test_private_training_adds_to_public_text_and_stays_behind_training_without_noise(
    rows: list[Row],
) -> None:
    (noiseless,), (public,) = (
        [row for row in rows if row.label == name] for name in ("noiseless", "public-only")
    )
    assert f1(noiseless) > 0.74
    for label in EPSILONS:
        for row in noise(rows, label):
            assert f1(public) < f1(row) < f1(noiseless)


def test_they_hold_scores_of_each_type_and_are_valid(rows: list[Row]) -> None:
    files = sorted((RESULTS / "conll2003").rglob("result.json"))
    assert len(files) == sum(len(row.seeds) for row in rows)
    for file in files:
        assert check(file).valid
        assert {*read_result(file).details["tagging"]["types"]} == {"LOC", "MISC", "ORG", "PER"}


def test_finding_nothing_scores_746_in_the_metric_of_the_paper(rows: list[Row]) -> None:
    for row in rows:
        assert row.utility["all_outside_weighted_token_f1"].value == pytest.approx(0.746, abs=5e-4)
        assert row.utility["all_outside_f1"].value == 0.0
