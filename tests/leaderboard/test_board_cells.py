"""Cells and columns: what no metric can be is not printed, and no two values share a column."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
from uedp_bench.contracts.results import Estimate, LowerBound, Result
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.cell_text import number, stat_text
from uedp_bench.leaderboard.rows import Stat, aggregate
from uedp_bench.leaderboard.table import to_csv, to_json, to_markdown, to_text


def guarantee(kind="proven", epsilon=8.0, **more):
    values = {"unit": "user", "adjacency": "add-or-remove", "delta": 1e-5, "accountant": "pld"}
    return Guarantee(kind=kind, epsilon=epsilon, **{**values, **more})


def result(mechanism, seed, perplexity=50.0, **more) -> Result:
    params = more.pop("params", {})
    group = f"{mechanism}{sorted(params.items())}".replace(" ", "")
    spec = {"task": {"name": "next-word"}, "source": {"name": "embedded"}, "model": {"name": "m"},
            "mechanism": [{"name": mechanism, "params": params}], "seed": seed}  # fmt: skip
    values = {"id": f"{group}-{seed}", "group": group, "status": "finished", "spec": spec,
              "utility": {"perplexity": Estimate(value=perplexity)}}  # fmt: skip
    return Result.model_validate({**values, **more})


def test_intervals_go_no_further_than_the_metric_and_few_seeds_are_named():
    leakage = [{"membership": {"auc": Estimate(value=value)}} for value in (0.31, 0.71)]
    leakage[1]["membership"]["auc_user"] = Estimate(value=0.9)
    utility = [{"perplexity": Estimate(value=value)} for value in (2.0, 8.0)]
    rows = aggregate([
        result("uedp", seed, leakage=leakages, utility=utilities)
        for seed, (leakages, utilities) in enumerate(zip(leakage, utility, strict=True), 1)
    ])  # fmt: skip
    (auc, perplexity) = rows[0].leakage["membership"]["auc"], rows[0].utility["perplexity"]
    assert (auc.low, auc.high) == (0.0, 1.0)
    assert perplexity.low == 1.0
    assert perplexity.high == pytest.approx(5.0 + 12.706205 * 3.0)
    left, right = sheets(rows)
    cells = dict(zip(right.columns, right.cells[0], strict=True))
    assert cells["member AUC"] == "0.51 (too few seeds)"
    assert cells["user AUC"].split("\n")[0] == "0.90 (n = 1)"
    assert (
        dict(zip(left.columns, left.cells[0], strict=True))["perplexity"] == "5.00 (1.00 to 43.1)"
    )


def test_metric_dp_is_per_unit_of_distance_in_every_form():
    epsilon = guarantee(notion="metric-dp", unit="word", epsilon=10.0)
    diagnostics = {"epsilon_at": {
        "nearest neighbour, 50th percentile": 31.0, "nearest neighbour, 5th percentile": 20.0,
        "random pair, 50th percentile": 57.0,
    }}  # fmt: skip
    rows = aggregate([
        result("metric-dp", 1, guarantees=(epsilon,), diagnostics=diagnostics),
        result("dpnr", 1, guarantees=(guarantee(unit="word", epsilon=160.0),)),
    ])  # fmt: skip
    cells = {cells[0]: dict(zip(sheets(rows)[0].columns, cells, strict=True))["proven ε"]
             for cells in sheets(rows)[0].cells}  # fmt: skip
    assert cells["metric-dp"] == (
        "10.0 word, per unit of distance\n(31.0 at the median nearest neighbour)\n"
        "(57.0 at the median random pair)"
    )
    assert cells["dpnr"] == "160 word"
    assert "10.0 word, per unit of distance" in to_markdown(rows)
    lines = {line["mechanism"]: line for line in csv.DictReader(io.StringIO(to_csv(rows)))}
    name = "proven.word.add-or-remove"
    assert lines["metric-dp"][f"{name}.epsilon_is"] == "per unit of distance"
    assert lines["dpnr"][f"{name}.epsilon_is"] == ""
    assert lines["metric-dp"]["epsilon_at.random pair, 50th percentile"] == "57.0"
    (row,) = (one for one in json.loads(to_json(rows)) if one["mechanism"] == "metric-dp")
    assert row["epsilon_at"]["random pair, 50th percentile"]["value"] == 57.0


def test_csv_has_parameters_and_runs():
    rows = aggregate([
        result("vickrey", seed, params={"epsilon": epsilon, "words": ["a", "b"], "all": True})
        for epsilon in (1.0, 5.0) for seed in (1, 2)
    ])  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert {line["params.mechanism.vickrey.epsilon"] for line in lines} == {"1.0", "5.0"}
    assert lines[0]["params.mechanism.vickrey.words"] == '["a", "b"]'
    assert lines[0]["params.mechanism.vickrey.all"] == "true"
    assert lines[0]["params.delta"] == "1e-05"
    assert lines[0]["runs"].split() == [run.id for run in rows[0].runs]
    assert len(lines[0]["runs"].split()) == len(lines[0]["seeds"].split()) == 2


def test_no_two_values_share_a_column():
    strange = {"auc": Estimate(value=0.1), "auc.low": Estimate(value=0.2),
               "auc%2Elow": Estimate(value=0.3)}  # fmt: skip
    rows = aggregate([result("m", 1, leakage={"x": strange, "params": strange, "x.auc": strange})])
    (heads, cells) = csv.reader(io.StringIO(to_csv(rows)))
    assert len(heads) == len(set(heads))
    line = dict(zip(heads, cells, strict=True))
    assert (line["x.auc"], line["x.auc.low"]) == ("0.1", "")
    assert (line["x.auc%2Elow"], line["x.auc%252Elow"]) == ("0.2", "0.3")
    assert line["%params.auc"] == "0.1"
    assert line["x%2Eauc.auc%2Elow"] == "0.2"


def test_one_refutation_has_the_same_numbers_in_the_table_and_in_its_explanation():
    bound = LowerBound(unit="user", epsilon=2.3, delta=1e-5, confidence=0.85, method="m",
                       attack="audit", strict_epsilon=1.004)  # fmt: skip
    reason = "lower bound 1.004 for user ... (m, confidence 1 - 1e-06) exceeds it"
    claim = guarantee("claimed", 0.41, status="refuted", reason=reason)
    (sheet, _) = sheets(aggregate([result("m", 1, guarantees=(claim,), lower_bounds=(bound,))]))
    bound_text = dict(zip(sheet.columns, sheet.cells[0], strict=True))["ε at least"]
    assert bound_text == "2.30 user (85 %), 1.00 (99.9999 %)"
    calm = guarantee("claimed", 8.0)
    (sheet, _) = sheets(aggregate([result("m", 1, guarantees=(calm,), lower_bounds=(bound,))]))
    assert dict(zip(sheet.columns, sheet.cells[0], strict=True))["ε at least"] == "2.30 user (85 %)"


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_column_of_a_table_is_cut(width):
    params = {"entity_rate": 0.1, "a_very_long_parameter_that_does_not_end": 3}
    exposures = {f"exposure_entity_spread_{k}": Estimate(value=k) for k in range(12)}
    rows = aggregate([
        result("uedp", 1, params=params, leakage={"secret-sharer": exposures}),
        result("uedp", 1, 60.0, params={**params, "entity_rate": 0.2}),
    ])  # fmt: skip
    text = to_text(rows, width)
    assert max(map(len, text.splitlines())) <= width
    for sheet in sheets(rows):
        for cell in [*sheet.columns, *(cell for cells in sheet.cells for cell in cells)]:
            for word in cell.split():
                # Words that no table has room for are broken, and not cut.
                assert word in text or len(word) > 24, (cell, word)


def cell(rows, column):
    sheet = sheets(rows)[0]
    return sheet.cells[0][sheet.columns.index(column)]


@pytest.mark.parametrize(
    ("spread", "each", "sentences", "text"),
    [
        (3, 1, 3, "8.00 user-entity (3 others' sentences)"),
        (3, 2, 6, "8.00 user-entity (3 others, 6 sentences)"),
        (3, 1, None, "8.00 user-entity (3 others)"),
        (1, 1, 1, "8.00 user-entity (1 other's sentence)"),
        (0, 1, 0, "8.00 user-entity (no others)"),
    ],
)
def test_a_proven_curve_names_its_point(spread, each, sentences, text):
    curve = (
        CurvePoint(spread=spread, sentences=sentences, epsilon=8.0),
        CurvePoint(spread=99, epsilon=500.0),
    )
    point = Protected(spread=spread, sentences_per_user=each)
    proof = guarantee(unit="user-entity", protected=point, curve=curve)
    rows = aggregate([result("a", 1, guarantees=(proof,))])
    assert cell(rows, "proven ε") == text
    (line,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert line["proven.user-entity.add-or-remove.protected.spread"] == str(spread)
    everybody = guarantee(unit="user-entity", epsilon=500.0, curve=curve)
    assert cell(aggregate([result("a", 1, guarantees=(everybody,))]), "proven ε") == (
        "500 user-entity"
    )


def test_a_selection_is_a_note():
    entry = {"unit": "user", "charged": True, "reason": ""}
    record = {"settings": 6, "scores": "validation", "method": "composition", "guarantees": [entry]}
    rows = aggregate([result("a", 1, selection=record)])
    note = "selection: a: best of 6 settings, compared on validation text; charged: composition"
    assert note in sheets(rows)[0].notes
    assert json.loads(to_json(rows))[0]["selection"] == record
    (line,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert json.loads(line["selection"]) == record
    not_charged = {**record, "method": "", "guarantees": [{**entry, "charged": False,
                                                           "reason": "because"}]}  # fmt: skip
    notes = sheets(aggregate([result("a", 1, selection=not_charged)]))[0].notes
    assert any(note.endswith("not charged (user): because") for note in notes)
    nothing = sheets(aggregate([result("a", 1, selection={**record, "method": "",
                                                          "guarantees": []})]))  # fmt: skip
    assert any("proven" in note for note in nothing[0].notes)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00123, "0.0012"), (0.5, "0.50"), (12.34, "12.3"), (1234.5, "1,234"),
     (math.inf, "∞"), (-0.25, "-0.25"), (1e-9, "1.00e-09"), (1.7e308, "1.70e+308")],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_missing_metric_is_a_dash():
    assert stat_text(None) == "–"


def test_equal_seeds_have_no_crooked_interval():
    """The mean of equal numbers is theirs but for its last digit."""
    equal = Stat(value=0.3775510204081633, low=0.37755102040816313, high=0.37755102040816346, n=3)
    assert stat_text(equal, 100) == "37.8 ±0.0"
