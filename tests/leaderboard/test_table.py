"""The table says what the results say: intervals, infinities, failures, and only equal things."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from rich.console import Console

from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.rows import aggregate, load_results, load_rows, select
from uedp_bench.leaderboard.sheets import number, sheets, stat_text
from uedp_bench.leaderboard.table import render, to_csv, to_json, to_markdown
from uedp_bench.results import (
    ComponentSpec,
    Cost,
    Estimate,
    LowerBound,
    Result,
    RunError,
    RunSpec,
    write_result,
)


def spec(mechanism, seed, source="embedded", **params):
    names = mechanism.split("+")
    return RunSpec(
        task=ComponentSpec(name="next-word"),
        source=ComponentSpec(name=source),
        model=ComponentSpec(name="lstm-small"),
        mechanism=tuple(
            ComponentSpec(name=name, params=params if name == names[-1] else {}) for name in names
        ),
        attacks=(ComponentSpec(name="membership"), ComponentSpec(name="secret-sharer")),
        seed=seed,
    )


def guarantee(kind="proven", epsilon=8.0, **more):
    values = {"unit": "user", "adjacency": "add-or-remove", "delta": 1e-5, "accountant": "pld"}
    return Guarantee(kind=kind, epsilon=epsilon, **{**values, **more})


def result(mechanism, seed, perplexity=50.0, *, source="embedded", vocabulary="v1", **more):
    params = more.pop("params", {})
    values = {
        "utility": {
            "perplexity": Estimate(value=perplexity, low=perplexity - 1, high=perplexity + 1),
            "accuracy": Estimate(value=0.25),
            "unigram_perplexity": Estimate(value=321.0),
            "bigram_perplexity": Estimate(value=98.0),
        },
        "guarantees": (guarantee(),),
        "leakage": {
            "membership": {
                "auc": Estimate(value=0.5 + seed / 100),
                "auc_user": Estimate(value=0.5),
                "auc_bag_of_words": Estimate(value=0.5),
                "tpr_at_1pct_fpr": Estimate(value=0.0123),
                "tpr_at_0.1pct_fpr": Estimate(value=0.001),
            },
            "secret-sharer": {
                "exposure_max_repeats": Estimate(value=1.4),
                "exposure_mean": Estimate(value=1.4),
                "exposure_limit": Estimate(value=9.97),
                "extracted_random_sampling": Estimate(value=0.0),
                "extracted_beam_search": Estimate(value=0.5),
            },
        },
        "cost": Cost(train_seconds=12.0, peak_memory_mb=900.0),
        "diagnostics": {"signal_to_noise": 0.031, "note": "text"},
        "tracking": {"mlflow_run_id": f"run{seed}"},
        "provenance": {"vocabulary": {"fingerprint": vocabulary}, "corpus": {"fingerprint": "c1"}},
    }
    return Result(
        id=f"{mechanism}-{source}-{vocabulary}-{params}-{seed}".replace("/", ""),
        group=f"{mechanism}-{source}-{vocabulary}-{params}",
        status="finished",
        spec=spec(mechanism, seed, source, **params),
        **{**values, **more},
    )


def failure(mechanism, seed):
    return Result(
        id=f"{mechanism}-failed-{seed}",
        group="no-corpus",
        status="failed",
        error=RunError(type="InputError", message="it broke", phase="train"),
        spec=spec(mechanism, seed),
    )


def shown(rows, width=120):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(render(rows))
    return console.export_text()


def test_mean_and_student_interval_over_three_seeds():
    rows = aggregate(
        [result("uedp", seed, value) for seed, value in ((1, 1.0), (2, 2.0), (3, 3.0))]
    )
    assert len(rows) == 1
    stat = rows[0].utility["perplexity"]
    # t(0.975, 2 degrees of freedom) = 4.302653, standard error 1 / sqrt(3).
    assert (stat.value, stat.n) == (2.0, 3)
    assert stat.high - stat.value == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert stat.value - stat.low == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert "2.00 ±2.48" in shown(rows)


def test_one_seed_has_no_interval_and_says_so():
    rows = aggregate([result("uedp", 1)])
    stat = rows[0].utility["perplexity"]
    assert (stat.low, stat.high, stat.n) == (None, None, 1)
    text = shown(rows)
    assert "n = 1" in text
    assert "50.0 ±" not in text
    assert "n = 1" not in shown(aggregate([result("uedp", 1), result("uedp", 2)]))


def test_infinity_is_a_sign_in_tables_and_a_string_in_json():
    endless = (guarantee(epsilon=math.inf, notion="none"),)
    rows = aggregate([result("noiseless", 1, math.inf, guarantees=endless)])
    assert "∞ user" in shown(rows)
    assert "∞ user" in to_markdown(rows)
    (row,) = json.loads(to_json(rows))
    assert row["guarantees"][0]["epsilon"] == "inf"
    assert row["utility"]["perplexity"]["value"] == "inf"


def test_refused_is_not_a_number_and_its_reason_is_printed():
    refused = guarantee(epsilon=math.inf, status="refused", reason="private denominators")
    claim = guarantee("claimed", 1.25, unit="user-entity", source="paper")
    text = shown(aggregate([result("uedp", 1, guarantees=(claim, refused))]))
    assert "refused (user)" in text
    assert "1.25 user-entity" in text
    assert "refused: uedp: private denominators" in text
    assert "∞" not in text


def test_the_larger_epsilon_of_the_seeds_counts():
    rows = aggregate([result("a", 1), result("a", 2, guarantees=(guarantee(epsilon=9.5),))])
    assert [g.epsilon for g in rows[0].guarantees] == [9.5]


def test_failed_runs_are_rows_with_their_error():
    rows = aggregate([result("uedp", 1), failure("uedp", 2), failure("user-dp", 1)])
    by_label = {row.label: row for row in rows}
    assert by_label["uedp"].seeds == (1,)
    assert [run.seed for run in by_label["uedp"].failed] == [2]
    assert by_label["user-dp"].seeds == ()
    text = shown(rows)
    assert "1 (1 failed)" in text
    assert "failed: user-dp, seed 1: train: it broke" in text
    (line,) = [line for line in csv.DictReader(io.StringIO(to_csv(rows))) if line["error"] and
               line["mechanism"] == "user-dp"]  # fmt: skip
    assert line["error"] == "train: it broke"


def test_a_failure_that_was_mended_is_gone():
    rows = aggregate([failure("uedp", 1), result("uedp", 1)])
    assert [len(row.failed) for row in rows] == [0]


def test_rows_sort_by_utility_within_one_board():
    rows = aggregate([result("c", 1, 90.0), result("a", 1, 70.0), result("b", 1, 80.0)])
    assert [row.label for row in rows] == ["a", "b", "c"]
    assert len(sheets(rows)) == 2


def test_different_vocabularies_never_share_a_table():
    rows = aggregate([result("a", 1, vocabulary="v1"), result("a", 1, vocabulary="v2")])
    made = sheets(rows)
    assert len(made) == 4
    assert all(len(sheet.cells) == 1 for sheet in made)


def test_rows_of_one_name_show_the_parameters_in_which_they_differ():
    rows = aggregate([
        result("user-dp", 1, 50.0, params={"rounds": 50, "clip": 0.1}),
        result("user-dp", 1, 60.0, params={"rounds": 100, "clip": 0.1}),
    ])  # fmt: skip
    labels = [cells[0] for cells in sheets(rows)[0].cells]
    assert labels == ["user-dp (rounds=50)", "user-dp (rounds=100)"]


def test_a_bound_above_a_guarantee_is_marked():
    def bound(epsilon, **more):
        values = {"unit": "user", "delta": 1e-5, "confidence": 0.95, "method": "m"}
        return LowerBound(epsilon=epsilon, **{**values, **more})

    both = (guarantee(epsilon=8.0), guarantee("claimed", 1.0))
    low = aggregate([result("a", 1, guarantees=both, lower_bounds=(bound(2.0),))])
    assert "2.00 user > claimed" in " ".join(shown(low, 200).split())
    fine = aggregate([result("a", 1, guarantees=both, lower_bounds=(bound(0.5),))])
    other = aggregate([result("a", 1, guarantees=both, lower_bounds=(bound(9.0, unit="record"),))])
    curve = (guarantee(epsilon=1.0, curve=(CurvePoint(spread=3, epsilon=1.0),)),)
    point = aggregate([result("a", 1, guarantees=curve, lower_bounds=(bound(9.0, spread=3),))])
    for rows in (fine, other, point):
        assert " > " not in sheets(rows)[0].cells[0][6]


def test_fits_120_columns_with_full_rows():
    wide = (
        guarantee("claimed", 12.345, unit="user-entity", source="paper"),
        guarantee(epsilon=math.inf, unit="user-entity"),
        guarantee(epsilon=7.99),
    )
    rows = aggregate([
        result("deidentify+user-dp", seed, 123.4 + seed, guarantees=wide,
               lower_bounds=(LowerBound(unit="user-entity", epsilon=1.234, delta=1e-5,
                                        confidence=0.95, method="m"),))
        for seed in (1, 2, 3)
    ])  # fmt: skip
    lines = shown(rows).splitlines()
    assert max(map(len, lines)) <= 120
    text = " ".join(lines)
    assert "…" not in text
    # Nothing is cut off at the right: every cell of both tables is on the screen in full.
    for cell in ("125 ±2", "25.0 ±0.0", "1.40 ±0.00", "9.97", "0.031", "1.23 user-entity", "900"):
        assert cell in " ".join(text.split()), cell


def test_a_failed_run_without_fingerprints_joins_the_board_of_its_source():
    made = sheets(aggregate([result("uedp", 1), failure("dp-sgd", 1)]))
    assert [[cells[0] for cells in sheet.cells] for sheet in made] == [["uedp", "dp-sgd"]] * 2


def test_csv_and_json_carry_every_metric_and_the_way_back_to_the_runs(tmp_path):
    for seed in (1, 2):
        made = result("uedp", seed)
        (tmp_path / made.id).mkdir()
        write_result(made, tmp_path / made.id / "result.json")
    rows = load_rows([tmp_path])
    (line,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert float(line["utility.perplexity"]) == 50.0
    assert float(line["membership.auc"]) == pytest.approx(0.515)
    assert line["membership.tpr_at_0.1pct_fpr.n"] == "2"
    assert line["mlflow_runs"] == "run1 run2"
    (row,) = json.loads(to_json(rows))
    assert row["n"] == 2
    assert "seed" not in row["spec"]
    assert [run["tracking"]["mlflow_run_id"] for run in row["runs"]] == ["run1", "run2"]
    assert all((tmp_path / run["id"] / "result.json").samefile(run["path"]) for run in row["runs"])


def test_results_are_found_at_any_depth_once_and_not_among_mlflow_copies(tmp_path):
    made = result("uedp", 1)
    for place in ("a", "b/c", "mlartifacts/1/x/artifacts"):
        (tmp_path / place).mkdir(parents=True)
        write_result(made, tmp_path / place / "result.json")
    (tmp_path / "mlartifacts" / "result.json").write_text("not a result")
    assert [found.id for found in load_results([tmp_path])] == [made.id]


def test_broken_files_are_all_named(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("{")
    with pytest.raises(InputError, match=r"(?s)one/result.json.*two/result.json"):
        load_results([tmp_path])


def test_filters():
    rows = aggregate([result("a", 1), result("a", 1, source="conll2003")])
    assert [row.spec.source.name for row in select(rows, source="conll2003")] == ["conll2003"]
    assert select(rows, task="next-word") == rows
    with pytest.raises(InputError, match="did you mean 'conll2003'"):
        select(rows, source="conl2003")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00123, "0.0012"), (0.5, "0.50"), (12.34, "12.3"), (1234.5, "1,234"),
     (math.inf, "∞"), (-0.25, "-0.25"), (1e-9, "0.000000")],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_missing_metric_is_a_dash():
    assert stat_text(None) == "–"


def test_exposures_by_spread_are_columns_in_order():
    found = {f"exposure_entity_spread_{k}": Estimate(value=k + 0.25) for k in (10, 1, 3)}
    leakage = {"secret-sharer": {"exposure_max_repeats": Estimate(value=1.4), **found}}
    text = shown(aggregate([result("uedp", 1, leakage=leakage)]))
    head = next(line for line in text.splitlines() if "spread 10" in line)
    assert head.index("spread 1 ") < head.index("spread 3") < head.index("spread 10")
    values = next(line for line in text.splitlines() if "10.2" in line)
    assert values.index("1.25") < values.index("3.25") < values.index("10.2")
    assert "k + 1 users mention" in text
    assert "spread" not in shown(aggregate([result("uedp", 1)]))
