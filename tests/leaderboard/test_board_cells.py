"""Cells and columns: what no metric can be is not printed, and no two values share a column."""

from __future__ import annotations

import csv
import io
import json

import pytest

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import Estimate, LowerBound, Result
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.rows import aggregate
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


def test_intervals_go_no_further_than_the_metric_or_say_too_few_seeds():
    leakage = [{"membership": {"auc": Estimate(value=value)}} for value in (0.31, 0.71)]
    utility = [{"perplexity": Estimate(value=value)} for value in (2.0, 8.0)]
    rows = aggregate([
        result("uedp", seed, leakage=found, utility=said)
        for seed, (found, said) in enumerate(zip(leakage, utility, strict=True), 1)
    ])  # fmt: skip
    (auc, perplexity) = rows[0].leakage["membership"]["auc"], rows[0].utility["perplexity"]
    assert (auc.low, auc.high) == (0.0, 1.0)
    assert perplexity.low == 1.0
    assert perplexity.high == pytest.approx(5.0 + 12.706205 * 3.0)
    left, right = sheets(rows)
    cell = dict(zip(right.columns, right.cells[0], strict=True))["member AUC"]
    assert cell == "0.51 (too few seeds)"
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
    told = dict(zip(sheet.columns, sheet.cells[0], strict=True))["ε at least"]
    assert told == "2.30 user (85 %), 1.00 (99.9999 %)"
    calm = guarantee("claimed", 8.0)
    (sheet, _) = sheets(aggregate([result("m", 1, guarantees=(calm,), lower_bounds=(bound,))]))
    assert dict(zip(sheet.columns, sheet.cells[0], strict=True))["ε at least"] == "2.30 user (85 %)"


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_column_of_a_table_is_cut(width):
    params = {"entity_rate": 0.1, "a_very_long_parameter_that_does_not_end": 3}
    found = {f"exposure_entity_spread_{k}": Estimate(value=k) for k in range(12)}
    rows = aggregate([
        result("uedp", 1, params=params, leakage={"secret-sharer": found}),
        result("uedp", 1, 60.0, params={**params, "entity_rate": 0.2}),
    ])  # fmt: skip
    text = to_text(rows, width)
    assert max(map(len, text.splitlines())) <= width
    for sheet in sheets(rows):
        for cell in [*sheet.columns, *(cell for cells in sheet.cells for cell in cells)]:
            for word in cell.split():
                # Words that no table has room for are broken, and not cut.
                assert word in text or len(word) > 24, (cell, word)
