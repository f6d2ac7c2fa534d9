"""Figures are what Plotly takes, say what results say, and tell lines apart without colour."""

from __future__ import annotations

import json
import math
from itertools import combinations

import plotly.graph_objects as go
import pytest
from references import first_results
from whole_results import HOSTILE, details, everything

from uedp_bench.contracts.results import Estimate
from uedp_bench.leaderboard.run_pages import run_figures
from uedp_bench.leaderboard.run_pages.attack_figures import attack_figures
from uedp_bench.leaderboard.run_pages.detail_tables import ROWS, table, tables, text
from uedp_bench.leaderboard.run_pages.figures import line, plain, thinned
from uedp_bench.leaderboard.run_pages.score_figures import _null_shares


def figures_of(result):
    figures = [figure for name in {**result.leakage, **result.details}
               for figure in attack_figures(result.details.get(name, {}),
                                            result.leakage.get(name, {}))]  # fmt: skip
    figures += run_figures.curves(result) + run_figures.training(result)
    return figures + run_figures.diagnostics(result) + run_figures.cost(result)


def figures_by_title(details_, metrics=None):
    """Figures of one attack by title."""
    metrics = {name: Estimate(value=value) for name, value in (metrics or {}).items()}
    return {figure.title: figure for figure in attack_figures(details_, metrics)}


@pytest.mark.parametrize("word", ["plain", HOSTILE])
def test_plotly_takes_every_figure_of_a_result_with_everything(word):
    figures = figures_of(everything(word=word))
    assert len(figures) == 17
    for figure in figures:
        json.dumps(figure.figure, allow_nan=False)
        go.Figure(figure.figure)  # raises on properties that do not exist
        assert figure.table.rows, figure.title
        assert "<img" not in json.dumps(figure.figure)


@pytest.mark.long
def test_plotly_takes_the_figures_of_the_reference_results():
    seen = set()
    for result in first_results().values():
        for figure in figures_of(result):
            json.dumps(figure.figure, allow_nan=False)
            if (figure.title, result.label) not in seen:
                seen.add((figure.title, result.label))
                go.Figure(figure.figure)
    titles = {title for title, _ in seen}
    assert titles >= {"Exposure of the canaries", "ROC of records, by score", "ROC of users",
                      "ε by the spread of the entity", "Train loss", "Seconds by phase",
                      "What the attacker infers", "How often words stay hidden",
                      "Projection errors", "Epsilon at"}  # fmt: skip


def test_colour_never_alone_tells_lines_or_markers_apart():
    def look(trace):
        marker, stroke = trace.get("marker", {}), trace.get("line", {})
        pattern = marker.get("pattern", {}).get("shape")
        return trace["type"], trace.get("mode"), stroke.get("dash"), marker.get("symbol"), pattern

    for figure in figures_of(everything()):
        for one, other in combinations(figure.figure["data"], 2):
            assert look(one) != look(other), (figure.title, one["name"], other["name"])


def test_plain_leaves_no_markup_for_plotly():
    assert plain("<b>&lt;") == "&lt;b&gt;&amp;lt;"
    assert plain("5 % of %{x}") == "5 % of %&#123;x}"


def test_lines_are_thinned_with_their_ends_and_infinities_are_gaps():
    points = [(at, float(at)) for at in range(10_001)]
    trace = line(points, "x", 0)
    assert 900 < len(trace["x"]) < 1100
    assert (trace["x"][0], trace["x"][-1]) == (0, 10_000)
    assert line([(1, math.inf), (2, 1.0)], "x", 0)["y"] == [None, 1.0]
    assert thinned(points[:5]) == points[:5]


# --------------------------------------------------------------------------------------- exposure


@pytest.mark.parametrize("references_", [1, 31, 1000, 1024])
def test_the_null_of_exposure_is_that_of_a_uniform_rank(references_):
    limit = math.log2(references_)
    most = max(1, math.ceil(limit))
    counts = [0] * most
    for rank in range(1, references_ + 2):
        exposure = limit - math.log2(rank)
        counts[min(max(int(exposure + 1e-12), 0), most - 1)] += 1
    expected = [count / (references_ + 1) for count in counts]
    assert _null_shares(most, limit) == pytest.approx(expected)


def test_without_a_limit_the_null_of_exposure_is_exponential():
    shares = _null_shares(50, None)
    assert shares[:3] == [0.5, 0.25, 0.125]
    assert sum(shares) == pytest.approx(1.0)


def test_exposures_are_counted_by_kind_and_the_null_has_as_many_canaries():
    figure = figures_by_title(details("x")["secret-sharer"], {"exposure_limit": 10.0})[
        "Exposure of the canaries"
    ].figure
    entity, word, null = figure["data"]
    # Ranks 1, 10, 512 and 2, 400, 1025: exposures 10, 6.7, 1 and 9, 1.4, -0.001.
    assert (entity["name"], entity["y"]) == ("entity canaries", [0, 1, 0, 0, 0, 0, 1, 0, 0, 1])
    assert (word["name"], word["y"]) == ("word canaries", [1, 1, 0, 0, 0, 0, 0, 0, 0, 1])
    assert figure["layout"]["barmode"] == "stack"
    assert sum(null["y"][:-1]) == pytest.approx(6)
    assert null["line"]["shape"] == "hv"


def test_losses_stand_over_the_histogram_of_references():
    card = figures_by_title(details("x")["secret-sharer"])[
        "The most exposed canary among its references"
    ]
    bars, *rugs = card.figure["data"]
    assert (bars["x"], bars["y"], bars["width"]) == ([18, 20, 22], [3, 7, 2], [2, 2, 2])
    # The first canary's loss is infinite: null in the file.
    assert [rug["x"] for rug in rugs] == [[19.0, 21.0], [18.0, 20.0, 22.0]]
    assert card.figure["layout"]["shapes"][0]["x0"] == 18.0
    assert card.table.rows[1] == ("19 to 21", "7")


# -------------------------------------------------------------------------------------------- ROC


def test_roc_curves_are_on_log_axes_with_chance_and_the_reported_rates():
    metrics = {"tpr_at_1pct_fpr": 0.1875, "tpr_at_0.1pct_fpr": 0.0625}
    card = figures_by_title(details("x")["membership"], metrics)["ROC of records, by score"]
    figure = card.figure
    loss, ratio, _, chance, reported = figure["data"]
    assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"
    assert ratio["name"] == "ratio (main and strongest)"
    assert all(value > 0 for trace in figure["data"] for value in [*trace["x"], *trace["y"]])
    assert chance["x"] == chance["y"]
    assert chance["line"]["dash"] == "dot"
    assert (reported["x"], reported["y"]) == ([0.01, 0.001], [0.1875, 0.0625])
    # On log axes shapes take values, and annotations exponents.
    assert [shape["x0"] for shape in figure["layout"]["shapes"]] == [0.01, 0.001]
    assert [note["x"] for note in figure["layout"]["annotations"]] == [-2.0, -3.0]
    row = dict(zip(card.table.head, card.table.rows[4], strict=True))
    assert row["FPR"] == "0.01"
    assert float(row["loss"]) == pytest.approx(0.01**0.9375, abs=5e-4)
    assert len(loss["x"]) == 6  # the point without any hit has no place on a log axis


def test_a_rate_below_the_resolution_is_not_marked():
    card = figures_by_title({"scores": {"loss": {"roc": [[0.0, 0.25], [0.25, 0.5], [1.0, 1.0]]}}},
                            {"tpr_at_1pct_fpr": 0.25})["ROC of records, by score"]  # fmt: skip
    assert card.figure["layout"]["shapes"] == []
    assert {trace["name"] for trace in card.figure["data"]} == {"loss", "chance"}
    # No false alarm, yet hits: at the left edge.
    floor = card.figure["data"][0]["x"][0]
    assert math.log10(floor) == card.figure["layout"]["xaxis"]["range"][0]


# ------------------------------------------------------------------------------------ other shapes


def test_scores_of_the_audit_are_counted_on_both_sides():
    by_title = figures_by_title(details("x")["audit"])
    included, excluded = by_title["Scores of the audit's canaries"].figure["data"]
    assert (included["name"], sum(included["y"])) == ("included", 48)
    assert (excluded["name"], sum(excluded["y"])) == ("excluded", 52)
    assert included["x"] == excluded["x"]
    assert "Scores over retrainings" in by_title


def test_a_map_has_a_trace_for_each_class_and_one_for_unknown_rows():
    kept = details("x")["attribute-inference"]
    by_title = figures_by_title(kept)
    by_gender = by_title["PCA by private attribute gender"]
    names = [trace["name"] for trace in by_gender.figure["data"]]
    assert names == ["yes x", "no", "unknown"]
    codes = kept["projection"]["attributes"]["gender"]["labels"]
    first = by_gender.figure["data"][0]
    points = [p for p, code in zip(kept["projection"]["points"], codes, strict=True) if code == 0]
    assert list(zip(first["x"], first["y"], strict=True)) == [tuple(p) for p in points]
    assert len({trace["marker"]["symbol"] for trace in by_gender.figure["data"]}) == 3
    assert "53.1 % of the variance" in by_gender.figure["layout"]["xaxis"]["title"]["text"]
    assert "PCA by label of the main task" in by_title


def test_attributes_stand_beside_the_most_frequent_class():
    metrics = {"accuracy_gender": 0.625, "majority_gender": 0.5}
    majority, attacker = figures_by_title({}, metrics)["What the attacker infers"].figure["data"]
    assert (attacker["name"], attacker["x"], attacker["y"]) == ("attacker", [0.625], ["gender"])
    assert (majority["name"], majority["x"]) == ("most frequent class", [0.5])


def test_the_curve_of_a_guarantee_marks_its_protected_point_and_the_bounds():
    (card,) = run_figures.curves(everything())
    curve, point, bounds = card.figure["data"]
    assert curve["y"] == [4.5, 8.25, 300.5, None]  # infinity is a gap
    assert curve["x"][0] == card.figure["layout"]["xaxis"]["tickvals"][0] > 0
    assert card.figure["layout"]["xaxis"]["ticktext"] == ["0", "3", "100", "2,699"]
    assert (point["x"], point["y"]) == ([3], [8.25])
    assert (bounds["x"], bounds["y"]) == ([3], [2.625])
    assert card.table.rows[-1][1:] == ("2,699", "any number", "∞")


def test_series_say_what_a_deployment_could_not_print():
    losses, own = run_figures.training(everything())
    assert [trace["name"] for trace in losses.figure["data"]] == ["train loss", "valid loss"]
    assert "could not print" in losses.note
    assert not own.note
    assert losses.table.rows == (("1", "4.50", "4.75"), ("2", "3.25", "–"), ("3", "∞", "3.50"))


@pytest.mark.parametrize("kept", [
    {"canaries": "none", "scores": 3, "roc_user": [[1]], "projection": []},
    {"valid_loss": {"a": "b"}, "canaries": {}, "deep": {"valid_loss": [[1.0]]}},
    {"canaries": [{"exposure": "high"}], "scores": {"loss": {"roc": [[0, "x"]]}}},
    {"canaries": [], "scores": {}, "roc_user": [], "reference_losses": {"edges": [1.0]}},
    {"canaries": [{"text": "a", "exposure": math.inf}], "scores": {"loss": {"roc": []}}},
    {"canaries": [{"text": "a", "exposure": 1e9}], "scores": {"members": [], "nonmembers": [1.0]}},
    {"scores": {"members": [1e308], "nonmembers": [-1e308]}},
    {"projection": {"method": "pca", "points": [[0, 0]],
                    "attributes": {"a": {"classes": [], "labels": []}}}},
    {"reference_losses": {"canary": "a", "loss": 1.0, "edges": [0.0, "inf"], "counts": [1]}},
])  # fmt: skip
def test_values_of_other_shapes_are_left_to_tables(kept):
    assert figures_by_title(kept) == {}


# ----------------------------------------------------------------------------------------- tables


def test_records_side_by_side_become_one_table():
    by_caption = {one.caption: one for one in tables(details("x")["attribute-inference"], "")}
    by_class = by_caption["attributes: by class"]
    assert by_class.head == ("", "", "share", "accuracy")
    assert by_class.rows[0] == ("gender", "first", "0.41", "0.25 [0.12, 0.88]")
    assert [row[:2] for row in by_class.rows[2:]] == [("age", "first"), ("age", "second")]
    assert by_caption["attributes: confusion: gender"].head == ("truth", "yes x", "no")
    assert by_caption["attributes: confusion: gender"].rows[1] == ("no", "13", "22")


def test_tables_of_deep_and_long_values_end():
    deep: dict[str, object] = {"end": 1}
    for _ in range(100):
        deep = {"a": 1, "b": deep}
    wide = {str(at): {str(at): at, "x": {"y": [[at]]}} for at in range(1000)}
    assert 0 < len(tables(deep, "")) <= 60
    assert 0 < len(tables(wide, "")) <= 60
    long = table("", ("n",), [(at,) for at in range(ROWS + 7)])
    assert (len(long.rows), long.left_out) == (ROWS, 7)


@pytest.mark.parametrize(("value", "shown"), [
    (None, "–"), (True, "yes"), (12345, "12,345"), (0.12345, "0.12"), ("inf", "∞"), ("", "–"),
    ({"value": 0.5, "low": 0.25, "high": 0.75}, "0.50 [0.25, 0.75]"),
    ({"value": 0.5, "low": None, "high": None}, "0.50"),
    ({"train": 1, "valid": 2}, "train: 1, valid: 2"), ([1, 2], "1, 2"), ([], "–"),
    (list(range(99)), "0, 1, 2, 3, 4, 5, 6, 7, … (99 values)"), ([1, [2]], "[1, [2]]"),
])  # fmt: skip
def test_cells(value, shown):
    assert text(value) == shown
