"""The table says what the results say: intervals, infinities, failures, and only equal things."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from html import unescape

import markdown
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
from uedp_bench.contracts.results import (
    ComponentSpec,
    Cost,
    Estimate,
    LowerBound,
    Result,
    RunError,
    RunSpec,
    SkippedAttack,
)
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.loading import Loader
from uedp_bench.leaderboard.rows import aggregate, select
from uedp_bench.leaderboard.sources import Folder
from uedp_bench.leaderboard.table import render, to_csv, to_json, to_latex, to_markdown
from uedp_bench.one_run.private_data import keep_result


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
        [result("uedp", seed, value) for seed, value in ((1, 11.0), (2, 12.0), (3, 13.0))]
    )
    assert len(rows) == 1
    stat = rows[0].utility["perplexity"]
    # t(0.975, 2 degrees of freedom) = 4.302653, standard error 1 / sqrt(3).
    assert (stat.value, stat.n) == (12.0, 3)
    assert stat.high - stat.value == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert stat.value - stat.low == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert "12.0 ±2.5" in shown(rows)


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
    assert "refused: uedp:" in text
    assert "∞" not in text


def test_the_larger_epsilon_of_the_seeds_counts():
    rows = aggregate([result("a", 1), result("a", 2, guarantees=(guarantee(epsilon=9.5),))])
    assert [g.epsilon for g in rows[0].guarantees] == [9.5]


def test_a_proof_that_a_seed_lacks_or_refuses_is_none_of_the_row():
    endless = {"epsilon": math.inf, "notion": "none", "accountant": "none"}
    refused = guarantee(status="refused", reason="private sizes", **endless)
    for odd in ((refused,), (guarantee(**endless),)):
        (row,) = aggregate([result("a", 1), result("a", 2, guarantees=odd)])
        assert row.guarantees == odd
    (row,) = aggregate([result("a", 1), result("a", 2), result("a", 3, guarantees=())])
    (left,) = row.guarantees
    assert (left.status, left.epsilon, left.unit) == ("refused", math.inf, "user")
    assert left.reason == "proven of 2 of 3 seeds only"


def test_a_refuted_claim_stays_refuted_beside_a_larger_one():
    small = guarantee("claimed", 5.0, status="refuted", reason="an attack")
    for order in ((1, 2), (2, 1)):
        ordered = zip(order, (small, guarantee("claimed", 6.0)), strict=True)
        (row,) = aggregate([result("a", seed, guarantees=(claim,)) for seed, claim in ordered])
        assert row.guarantees == (small,)


def test_csv_holds_no_formula_and_is_otherwise_what_the_results_say():
    nasty = "=HYPERLINK(1)"
    runs = [result(nasty, seed, leakage={"@sum": {"+1": Estimate(value=-0.5)}}) for seed in (-2, 3)]
    text = to_csv(aggregate(runs))
    (line,) = csv.DictReader(io.StringIO(text))
    assert line["mechanism"] == f"'{nasty}"
    assert line["seeds"] == "-2 3"
    assert float(line["'@sum.+1"]) == -0.5
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    numbers = re.compile(r"-inf|-?[0-9.e-]+( -?[0-9]+)*")
    assert not [c for c in cells if c[:1] in "=+-@\t\r" and c and not numbers.fullmatch(c)]


@pytest.mark.parametrize(
    "text",
    ["=1+1", "  =1+1", "\uff1d1+1", " \uff1d1", "\ufe0f=1", "\u3164=1", "\uff0b1", "\uff0dx",
     "\ufe63x", "\u2212x", "\uff20SUM", "\n=1", "\t1"],
)  # fmt: skip
def test_csv_guards_formulas_in_disguise(text):
    (line,) = csv.DictReader(io.StringIO(to_csv(aggregate([result(text, 1)]))))
    assert line["mechanism"].startswith("'")


@pytest.mark.parametrize("text", ["a=1", "uedp (z=1, q=-2)", "[-1]", "ε=1", "(=1)"])
def test_csv_leaves_other_text_alone(text):
    (line,) = csv.DictReader(io.StringIO(to_csv(aggregate([result(text, 1)]))))
    assert line["mechanism"] == text


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt; &amp;",
     "[x](javascript:alert(1))", "![x](https://example.org/a.png)", "<https://example.org/a>",
     "a\\", "\\|<b>", "x\\<script>y</script>", "`code` and `", "**bold**",
     "x{: onclick=alert(1) }", "{{ config }}", "[x]: javascript:alert(1)"],
)  # fmt: skip
def test_markdown_shows_text_of_results_as_text(text):
    plain, hostile = (
        to_markdown(aggregate([
            result(name, 1, source=name, skipped_attacks=(SkippedAttack(name="a", reason=name),)),
        ]))
        for name in ("name", text)
    )  # fmt: skip
    for html in (
        lambda page: MarkdownIt("commonmark").enable("table").render(page),
        lambda page: markdown.markdown(page, extensions=["tables", "attr_list", "md_in_html"]),
    ):
        tags = [re.findall(r"<[^>]*>", html(page)) for page in (plain, hostile)]
        assert tags[0] == tags[1]
        assert unescape(html(hostile)).count(text) == unescape(html(plain)).count("name")
    assert "{{" not in hostile


def test_failed_runs_are_rows_with_their_error():
    rows = aggregate([result("uedp", 1), failure("uedp", 2), failure("user-dp", 1)])
    by_label = {row.label: row for row in rows}
    assert by_label["uedp"].seeds == (1,)
    assert [run.seed for run in by_label["uedp"].failed] == [2]
    assert by_label["user-dp"].seeds == ()
    text = shown(rows)
    assert "1 (1 failed)" in text
    assert "failed: user-dp, seed 1:" in text
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
    tables = sheets(rows)
    assert len(tables) == 4
    assert all(len(sheet.cells) == 1 for sheet in tables)


def test_what_is_predicted_stands_in_the_title():
    rows = []
    for target in ("label", "gender"):
        one_result = result("noiseless", 1)
        task = ComponentSpec(name="text-classification", params={"target": target})
        spec = one_result.spec.model_copy(update={"task": task})
        rows.append(one_result.model_copy(update={"spec": spec, "id": target, "group": target}))
    text = shown(aggregate(rows))
    assert "text-classification on embedded" in text
    assert "text-classification of gender on embedded" in text


@pytest.mark.parametrize(
    ("params", "labels"),
    [
        (({"rounds": 50, "clip": 0.1}, {"rounds": 100, "clip": 0.1}), ["rounds=50", "rounds=100"]),
        # The name of a row has no part that the row leaves out.
        (({"epsilon": 1.0, "z": None}, {"epsilon": None, "z": 7.0}), ["epsilon=1", "z=7"]),
    ],
)
def test_rows_of_one_name_show_the_parameters_in_which_they_differ(params, labels):
    rows = aggregate([result("m", 1, at, params=own) for at, own in enumerate(params, 50)])
    assert [cells[0] for cells in sheets(rows)[0].cells] == [f"m ({label})" for label in labels]


def bound(epsilon, **more):
    values = {"unit": "user", "delta": 1e-5, "confidence": 0.95, "method": "m"}
    return LowerBound(epsilon=epsilon, **{**values, **more})


def cell(rows, column):
    sheet = sheets(rows)[0]
    return sheet.cells[0][sheet.columns.index(column)]


def test_bounds_of_every_unit_and_point_stand_beside_the_guarantees():
    bounds = (
        bound(2.0),
        bound(1.5, unit="user-entity", spread=0, sentences=0),
        bound(3.0, unit="user-entity", spread=3, sentences=3),
        bound(4.0, unit="user-entity", spread=10, sentences=30, confidence=0.999),
        bound(5.0, unit="user-entity", spread=1),
    )
    rows = aggregate([result("a", 1, lower_bounds=bounds)])
    assert cell(rows, "ε at least").splitlines() == [
        "2.00 user (95 %)",
        "1.50 user-entity (no others; 95 %)",
        "3.00 user-entity (3 others' sentences; 95 %)",
        "4.00 user-entity (10 others, 30 sentences; 99.9 %)",
        "5.00 user-entity (1 other; 95 %)",
    ]
    (line,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert line["at_least.user.add-or-remove.epsilon"] == "2.0"
    name = "at_least.user-entity.add-or-remove.spread=10.sentences=30"
    assert (line[f"{name}.epsilon"], line[f"{name}.confidence"]) == ("4.0", "0.999")
    assert "lower bounds by attacks" in to_markdown(rows)
    assert "lower bounds by attacks" not in to_markdown(aggregate([result("a", 1)]))


def test_the_highest_bound_of_several_seeds_pays_for_the_choice():
    def over(seeds, **more):
        runs = [
            result("a", seed, lower_bounds=(bound(seed / 2, strict_epsilon=seed / 4, **more),))
            for seed in range(1, seeds + 1)
        ]
        (merged,) = aggregate(runs)[0].lower_bounds
        return merged.epsilon, merged.confidence, merged.strict_epsilon

    assert over(1) == (0.5, 0.95, 0.25)
    assert over(3) == (1.5, pytest.approx(0.85), 0.75)
    # Too many to keep any confidence in the largest: the strict ones still have it.
    assert over(20) == (5.0, pytest.approx(1 - 2e-5), 5.0)
    assert over(20, confidence=0.999) == (10.0, pytest.approx(0.98), 5.0)


def test_bounds_that_assume_more_count_only_where_no_other_does():
    sure, bold = bound(1.0), bound(6.0, assumptions=("scores are Gaussian",))
    rows = aggregate([result("a", 1, lower_bounds=(sure, bold))])
    assert cell(rows, "ε at least") == "1.00 user (95 %)"
    alone = aggregate([result("a", 1, lower_bounds=(bold,))])
    assert cell(alone, "ε at least") == "6.00 user (95 %; assumed)"
    assert any(note.startswith("assumed:") for note in sheets(alone)[0].notes)


def test_of_many_bounds_that_assume_more_the_first_stands_for_all():
    runs = [
        result("a", seed, lower_bounds=(bound(float(seed), assumptions=("scores are Gaussian",)),))
        for seed in range(1, 21)
    ]
    assert cell(aggregate(runs), "ε at least") == "1.00 user (95 %; assumed)"
    assert cell(aggregate(runs[:2]), "ε at least") == "2.00 user (90 %; assumed)"


def test_a_table_shows_bounds_at_its_own_delta_where_there_are_some():
    strict, loose = bound(1.0, delta=1e-5), bound(0.5, delta=1e-10)
    both = aggregate([result("a", 1, lower_bounds=(loose, strict))])
    assert cell(both, "ε at least") == "1.00 user (95 %)"
    assert len(both[0].lower_bounds) == 2
    other = aggregate([result("a", 1, lower_bounds=(loose,))])
    assert cell(other, "ε at least") == "0.50 user (95 %)"


def test_a_refuted_claim_says_so_and_why():
    claim = guarantee("claimed", 0.22, unit="user-entity", status="refuted", reason="an attack")
    rows = aggregate([result("uedp", 1, guarantees=(claim,))])
    assert cell(rows, "claimed ε") == "0.22 user-entity, refuted"
    text = " ".join(shown(rows, 200).split())
    assert "refuted: uedp: 0.22 user-entity, refuted: an attack" in text
    (line,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert line["claimed.user-entity.add-or-remove.status"] == "refuted"
    assert line["claimed.user-entity.add-or-remove.reason"] == "an attack"
    assert "0.22 user-entity, refuted" in to_markdown(rows)


def test_a_row_with_a_selection_is_told_from_one_without():
    plain, chosen = result("a", 1, 50.0), result("a", 2, 60.0)
    spec_ = chosen.spec.model_copy(update={"selection": Selection(tried={"model.units": [8]})})
    chosen = chosen.model_copy(update={"spec": spec_, "group": "other"})
    labels = [cells[0] for cells in sheets(aggregate([plain, chosen]))[0].cells]
    assert labels == ["a (selection=none)", "a (selection=fixed)"]


def test_fits_120_columns_with_full_rows():
    wide = (
        guarantee(
            "claimed",
            12.345,
            unit="user-entity",
            source="paper",
            status="refuted",
            reason="of an attack",
        ),
        guarantee(
            epsilon=8.0,
            unit="user-entity",
            protected=Protected(spread=3),
            curve=(CurvePoint(spread=3, sentences=3, epsilon=8.0),),
        ),
        guarantee(epsilon=7.99),
    )
    rows = aggregate([
        result("deidentify+user-dp", seed, 123.4 + seed, guarantees=wide,
               lower_bounds=(bound(1.234, unit="user-entity", spread=3, sentences=3),))
        for seed in (1, 2, 3)
    ])  # fmt: skip
    lines = shown(rows).splitlines()
    assert max(map(len, lines)) <= 120
    text = " ".join(lines)
    assert "…" not in text
    # Nothing is cut off at the right: every cell of both tables is on the screen in full.
    for part in ("125 ±2", "25.0 ±0.0", "1.40 ±0.00", "9.97", "0.031", "900"):
        assert part in " ".join(text.split()), part
    for word in ("refuted", "sentences)", "sentences;", "85 %)"):
        assert word in text, word


def test_a_failed_run_without_fingerprints_joins_the_board_of_its_source():
    tables = sheets(aggregate([result("uedp", 1), failure("dp-sgd", 1)]))
    assert [[cells[0] for cells in sheet.cells] for sheet in tables] == [["uedp", "dp-sgd"]] * 2


def test_csv_and_json_carry_every_metric_and_the_way_back_to_the_runs(tmp_path):
    for seed in (1, 2):
        run = result("uedp", seed).model_copy(update={"id": f"run-{seed}"})
        keep_result(run, tmp_path)
    loaded = Loader([Folder(tmp_path)]).load()
    rows = aggregate(loaded.results, loaded.places)
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


def test_filters():
    rows = aggregate([result("a", 1), result("a", 1, source="conll2003")])
    assert [row.spec.source.name for row in select(rows, source="conll2003")] == ["conll2003"]
    assert select(rows, task="next-word") == rows
    with pytest.raises(InputError, match=r"'conl2003'.*'conll2003'"):
        select(rows, source="conl2003")


def test_exposures_by_spread_are_columns_in_order():
    exposures = {f"exposure_entity_spread_{k}": Estimate(value=k + 0.25) for k in (10, 1, 3)}
    leakage = {"secret-sharer": {"exposure_max_repeats": Estimate(value=1.4), **exposures}}
    sheet = sheets(aggregate([result("uedp", 1, leakage=leakage)]))[1]
    spreads = {name: cell for name, cell in zip(sheet.columns, sheet.cells[0], strict=True)
               if "spread" in name}  # fmt: skip
    assert list(spreads) == [f"exposure, spread {k} (bits)" for k in (1, 3, 10)]
    assert [*spreads.values()] == ["1.25", "3.25", "10.2"]
    assert "spread" not in shown(aggregate([result("uedp", 1)]))


def test_latex_has_every_row_and_no_active_sign_of_a_name():
    text = to_latex(aggregate([result("user-dp", 1, source="a_b&c%"), result("noiseless", 1)]))
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") >= 2
    assert r"a\_b\&c\%" in text
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    assert not set("".join(lines)) & set("εδμσ±∞")
    for line in lines:
        if line and not line.startswith("\\"):
            assert line.endswith(r"\\")
            assert not re.search(r"(?<!\\)[%#_]", line)
