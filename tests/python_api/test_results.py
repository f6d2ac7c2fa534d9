"""Results as tables and data frames."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

import pytest

import uedp_bench as ub
from uedp_bench.contracts.results import RunError
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.loading import load_results as read_all
from uedp_bench.leaderboard.run_pages.in_words import in_words
from uedp_bench.python_api.results import Results

QUICKSTART = Path(__file__).parents[2] / "leaderboard" / "results" / "quickstart"


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(read_all([QUICKSTART]))


def test_a_line_a_run_with_its_parameters_and_intervals(results: Results) -> None:
    frame = ub.load_results(QUICKSTART).set_index("id")
    assert len(frame) == len(results)
    for result in results:
        line = frame.loc[result.id]
        assert line["seed"] == result.spec.seed
        assert line["status"] == "finished"
        assert line["utility.perplexity"] == result.utility["perplexity"].value
        assert line["utility.perplexity.low"] == result.utility["perplexity"].low
        auc = result.leakage["membership"]["auc"]
        assert line["membership.auc.high"] == auc.high
        mechanism = result.spec.mechanism[-1]
        for name, value in mechanism.params.items():
            if isinstance(value, float):
                assert line[f"params.mechanism.{mechanism.name}.{name}"] == value


def test_infinity_is_a_float_and_what_is_not_known_is_missing(results: Results) -> None:
    frame = results.frame()
    epsilon = frame["proven.user.add-or-remove.epsilon"]
    by_name = epsilon.groupby(frame["mechanism"]).max()
    assert math.isinf(by_name["noiseless"])
    assert 7 < by_name["user-dp"] < 8
    assert frame["claimed.user.add-or-remove.epsilon"].isna().any()
    assert set(frame["learned"]) == {True, False}


def test_a_line_a_row_has_intervals_over_seeds(results: Results) -> None:
    frame = results.frame(each="row")
    assert len(frame) == len(results.rows) < len(results)
    assert (frame["utility.perplexity.low"] < frame["utility.perplexity"]).all()
    assert set(frame["seeds"]) == {"1 2 3"}


def test_they_show_themselves_as_the_table_of_the_leaderboard(results: Results) -> None:
    shown = results._repr_html_()
    assert "<table>" in shown and "user-dp" in shown and "<li>" in shown
    assert "floor: unigrams" in shown and "learned nothing" in shown and "no protection" in shown
    assert "perplexity" in repr(results)
    some = results[:2]
    assert isinstance(some, Results) and len(some) == 2 and some[0] is results[0]
    assert results[:0]._repr_html_() == "<p>no results</p>"
    assert repr(results[:0]) == "no results"


def test_text_is_only_text_in_a_notebook(
    results: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "user-dp" in repr(results)
    assert capsys.readouterr().out == ""


def test_a_result_shows_itself_as_the_top_of_its_page(results: Results) -> None:
    one = next(r for r in results if r.label == "uedp" and r.spec.seed == 1)
    shown = one._repr_html_()
    for sentence in in_words(one):
        assert escape(sentence.text) in shown
    assert "floor: unigrams" in shown and "119" in shown
    assert "claimed" in shown and "proven" in shown and "user-entity" in shown
    assert "secret-sharer" in shown and "train seconds" in shown
    assert in_words(one)[0].text in repr(one) and repr(one) == str(one)


def test_a_result_equals_what_was_read(results: Results) -> None:
    read = next(one for one in read_all([QUICKSTART]) if one.id == results[0].id)
    assert results[0] == read and read == results[0] and results[1] != read
    assert results[0].model_dump_json() == read.model_dump_json()
    assert isinstance(results[0], type(read)) and ub.Result.from_recorded(results[0]) is results[0]


def test_a_refuted_claim_is_said_in_words(results: Results) -> None:
    first = next(r for r in results if r.label == "user-dp")
    claim = next(g for g in first.guarantees if g.kind == "claimed")
    refuted = claim.model_copy(update={"status": "refuted", "reason": "an attack <found> more"})
    shown = Results([first.model_copy(update={"guarantees": (refuted,)})])[0]._repr_html_()
    assert "<strong>The claim does not hold: an attack &lt;found&gt; more" in shown


def test_a_failed_run_says_its_error(results: Results) -> None:
    error = RunError(type="ValueError", message="no rows <here>", phase="train")
    shown = Results([results[0].model_copy(update={"status": "failed", "error": error})])[0]
    assert "no rows &lt;here&gt;" in shown._repr_html_() and "no rows" in repr(shown)


def test_names_in_a_notebook_are_escaped(results: Results) -> None:
    first = results[0]
    part = first.spec.mechanism[0].model_copy(update={"name": "<script>alert(1)</script>"})
    spec = first.spec.model_copy(update={"mechanism": (part,)})
    changed = Results([first.model_copy(update={"spec": spec})])
    for shown in (changed._repr_html_(), changed[0]._repr_html_()):
        assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        ub.load_results(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="places"):
        Results(read_all([QUICKSTART])).folder(Results(read_all([QUICKSTART]))[0])
