"""A table whose private rows beat its unprotected one says so, wherever it is shown."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from board_results import promise, seeds

from uedp_bench.contracts.results import Estimate
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.boards import boards
from uedp_bench.leaderboard.comparisons import (
    BETTER,
    better_than_unprotected,
    choice_note,
    references,
    warnings,
)
from uedp_bench.leaderboard.index_page import page_data
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.site_files import Contents, first_rows
from uedp_bench.leaderboard.table import to_csv, to_json, to_markdown, to_text
from uedp_bench.python_api.results import sheet_html

NOTHING = (promise("proven", math.inf),)
PROVEN = (promise("proven", 4.0),)


def bare(score=50.0, **more):
    return seeds("noiseless", score, guarantees=NOTHING, **more)


def board_of(*rows):
    (board,) = boards(aggregate([run for row in rows for run in row]))
    return board


def better(*rows):
    board = board_of(*rows)
    names = {row.group: row.label for row in board}
    return {names[group] for group in better_than_unprotected(board)}


def test_a_private_row_that_beats_the_unprotected_one_is_marked():
    assert better(bare(), seeds("user-dp", 40.0, guarantees=PROVEN)) == {"user-dp"}
    assert better(bare(), seeds("uedp", 40.0, guarantees=(promise("claimed", 1.0),))) == {"uedp"}
    assert better(bare(), seeds("user-dp", 60.0, guarantees=PROVEN)) == set()
    assert better(bare(), seeds("user-dp", 49.999, guarantees=PROVEN)) == set(), "within chance"
    assert better(bare()[:1], seeds("user-dp", 49.98, guarantees=PROVEN)) == {"user-dp"}
    assert better(seeds("user-dp", 40.0, guarantees=PROVEN)) == set(), "nothing to compare with"


def test_downloads_carry_the_warning():
    board = board_of(bare(), seeds("user-dp", 40.0, guarantees=PROVEN))
    expected = [warnings(board).get(row.group) for row in board]
    assert all(expected)
    assert [row["warning"] for row in json.loads(to_json(board))] == expected
    assert [row["warning"] for row in csv.DictReader(io.StringIO(to_csv(board)))] == expected
    honest = board_of(bare(), seeds("user-dp", 60.0, guarantees=PROVEN))
    assert [row["warning"] for row in json.loads(to_json(honest))] == [None, None]
    assert [row["warning"] for row in csv.DictReader(io.StringIO(to_csv(honest)))] == ["", ""]


def test_an_unprotected_row_that_learned_nothing_is_beaten_too():
    assert better(bare(500.0), seeds("public-only", 400.0, guarantees=PROVEN)) == {"public-only"}


@pytest.mark.parametrize(
    "guarantees",
    [(), NOTHING, (promise("proven", 0.0, "computation"),),
     (promise("proven", 1.0, status="refused", reason="sizes"),)],
)  # fmt: skip
def test_rows_that_promise_nothing_of_the_data_are_not_marked(guarantees):
    assert better(bare(), seeds("other", 40.0, guarantees=guarantees)) == set()


def test_larger_may_be_better():
    headline = {"metric": "f1_strict", "larger_is_better": True, "by_vocabulary": False}

    def row(name, value, guarantees):
        return [
            run.model_copy(update={"utility": {"f1_strict": Estimate(value=value)}})
            for run in seeds(name, 1.0, guarantees=guarantees, headline=headline, floors={"a": 0.1})
        ]

    low, high = row("user-dp", 0.4, PROVEN), row("user-dp", 0.6, PROVEN)
    assert better(row("noiseless", 0.5, NOTHING), low) == set()
    assert better(row("noiseless", 0.5, NOTHING), high) == {"user-dp"}


def test_every_surface_marks_it():
    runs = [*bare(), *seeds("user-dp", 40.0, guarantees=PROVEN)]
    rows = aggregate(runs)
    assert f"40.0 ±0.0<br>{BETTER}" in to_markdown(rows)
    assert f"{BETTER}: the unprotected row is under-trained" in to_markdown(rows)
    assert "\x1b[1;31m" in to_text(rows, 160, styles=True)
    (left, _) = sheets(rows)
    assert f';color:#b3261e">40.0 ±0.0<br>{BETTER}' in sheet_html(left)
    data = page_data(rows, {run.id: run for run in runs})
    assert [row["better"] for row in data["rows"]] == [True, False]
    assert [one[-1] for one in first_rows(rows)["rows"]] == [True, False]
    files = Contents().files(runs, lambda name: "").files
    pages = {name: str(files[name].make()) for name in files if name.endswith(".html")}
    assert all("under-trained" in page for name, page in pages.items() if name.startswith("runs/"))
    assert "under-trained" in pages["index.html"]
    assert BETTER in pages["table.html"]
    alone = Contents().files(bare(), lambda name: "").files
    own = next(name for name in alone if name.startswith("runs/"))
    assert "under-trained" not in str(alone[own].make())
    assert alone[own].key != files[own].key, "another row changes the page"


def test_strong_cheap_baselines_are_rows_before_floors():
    runs = bare(floors={"unigrams": 100.0, "public-only": 60.0})
    runs = [
        run.model_copy(update={"utility": {
            **run.utility, "bigram_perplexity": Estimate(value=40.0 + run.spec.seed)}})
        for run in runs
    ]  # fmt: skip
    (board,) = boards(aggregate(runs))
    assert [one.label for one in references(board)] == [
        "baseline: bigrams", "floor: public-only", "floor: unigrams",
    ]  # fmt: skip
    cells = sheets(board)[0].cells
    assert [line[0] for line in cells[1:]] == [one.label for one in references(board)]
    assert cells[1][2] == "42.0"
    names = [one["name"] for one in page_data(board, {})["sets"][0]["references"]]
    assert names == [one.label for one in references(board)]


def test_the_table_says_which_network_each_row_kept():
    chosen = [
        run.model_copy(update={"diagnostics": {"best_epoch": 3, "best_learning_rate": 0.01}})
        for run in bare()
    ]
    private = seeds("user-dp", 60.0, guarantees=PROVEN)
    assert choice_note(board_of(chosen, private)) == (
        "network that is kept: noiseless: epoch that does best on rows of the split valid; "
        "other rows: the last step, with the settings of the spec"
    )
    assert choice_note(board_of(private)) == ""
    tried = seeds("noiseless", 50.0, apart={"learning_rate_factors": [0.1, 1.0]},
                  diagnostics={"best_epoch": 3, "best_learning_rate": 0.01})  # fmt: skip
    assert "epoch and learning rate that does best" in choice_note(board_of(tried))
    assert "other rows" not in choice_note(board_of(tried))


def test_both_rows_of_the_contradiction_are_warned():
    rows = board_of(bare(), seeds("user-dp", 40.0, guarantees=PROVEN))
    assert set(warnings(rows)) == {row.group for row in rows}
    assert warnings(board_of(bare())) == {}
