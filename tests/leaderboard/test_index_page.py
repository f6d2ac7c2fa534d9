"""The index page's data say what rows say, in six digits, and stay the same where they must."""

from __future__ import annotations

import json
import math

import pytest
from board_results import plain_spec

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import (
    Cost,
    Estimate,
    LowerBound,
    Result,
    RunError,
)
from uedp_bench.leaderboard.index_page import page_data
from uedp_bench.leaderboard.rows import aggregate


def run(mechanism="uedp", seed=1, perplexity=50.0, *, corpus="c1", source="embedded", **more):
    params = more.pop("params", {})
    values = {
        "status": "finished",
        "utility": {"perplexity": Estimate(value=perplexity)},
        "provenance": {"corpus": {"fingerprint": corpus}, "vocabulary": {"fingerprint": "v1"}},
        "cost": Cost(train_seconds=12.0, rows_train=100),
    }
    return Result(
        id=f"{mechanism}-{source}-{corpus}-{len(repr(params))}-{seed}",
        group=f"{mechanism}-{source}-{corpus}-{params}",
        spec=plain_spec(mechanism, source, seed=seed, **params),
        **{**values, **more},
    )


def data(*results):
    page = page_data(aggregate(results), {result.id: result for result in results})
    json.dumps(page, allow_nan=False)  # what the page embeds
    return page


def values(page, at=0):
    """{key: [mean, low, high, n, text]} of a row."""
    columns = [column["key"] for column in page["columns"]]
    return {columns[place]: rest for place, *rest in page["rows"][at]["values"]}


def test_means_and_intervals_have_six_digits_and_seeds_their_own_values():
    page = data(run(seed=1, perplexity=1 / 3), run(seed=2, perplexity=2 / 3))
    mean, low, high, n, text = values(page)["utility.perplexity"]
    assert (mean, n, text) == (0.5, 2, "0.50 ±2.12")
    assert low < mean < high
    assert all(number == float(f"{number:.6g}") for number in (low, high))
    (row,) = page["rows"]
    assert row["n"] == 2
    assert row["seeds"]["1"][0] == 0.333333
    assert row["seeds"]["2"][0] == 0.666667
    assert [part["page"] for part in row["runs"]] == [
        "runs/uedp-embedded-c1-2-1.html", "runs/uedp-embedded-c1-2-2.html",
    ]  # fmt: skip


def test_one_seed_has_no_interval_and_infinity_is_a_string():
    endless = Guarantee(
        kind="proven", notion="none", unit="user", adjacency="add-or-remove", epsilon=math.inf,
        delta=1e-5, accountant="pld",
    )  # fmt: skip
    page = data(run(perplexity=math.inf, guarantees=(endless,)))
    assert values(page)["utility.perplexity"] == ["inf", None, None, 1, "∞ (n = 1)"]
    (guarantee,) = page["rows"][0]["guarantees"]
    assert (guarantee["epsilon"], guarantee["text"]) == ("inf", "∞ user")


def test_columns_are_what_rows_have_with_what_is_known_of_them():
    page = data(run(leakage={
        "membership": {"tpr_at_1pct_fpr": Estimate(value=0.5), "auc": Estimate(value=0.6)},
        "novel": {"odd": Estimate(value=1.0), "other": Estimate(value=2.0)},
    }))  # fmt: skip
    columns = {column["key"]: column for column in page["columns"]}
    assert list(columns)[:6] == [
        "utility.perplexity", "membership.auc", "membership.tpr_at_1pct_fpr", "novel.odd",
        "novel.other", "cost.train_seconds",
    ]  # fmt: skip
    # Counts that nobody knows are no columns: few of them compare.
    assert "cost.rows_train" not in columns
    rate = columns["membership.tpr_at_1pct_fpr"]
    assert (rate["better"], rate["percent"], rate["group"]) == (
        "lower",
        True,
        "leakage: membership",
    )
    # Of an attack that nobody knows, the first metric stands for it.
    assert [columns[f"novel.{name}"]["main"] for name in ("odd", "other")] == [True, False]


def test_sets_keep_their_names_where_other_sets_come():
    first = data(run())["sets"]
    both = data(run(), run(corpus="c0"), run(source="conll2003"))["sets"]
    assert len({one["id"] for one in both}) == 3
    by_name = {one["id"]: at for at, one in enumerate(both)}
    assert by_name[first[0]["id"]] > 0
    assert [one["letter"] for one in both] == ["A", "B", "C"]


def test_rows_of_one_mechanism_are_told_apart_by_what_differs():
    page = data(
        run(perplexity=60.0, params={"epsilon": 2.0, "t": 1}),
        run(perplexity=50.0, params={"epsilon": 16.0, "t": 1}),
    )
    assert [row["mechanism"] for row in page["rows"]] == ["uedp (epsilon=16)", "uedp (epsilon=2)"]
    assert [row["differs"] for row in page["rows"]] == [
        {"mechanism0.uedp.epsilon": "16.0"}, {"mechanism0.uedp.epsilon": "2.0"},
    ]  # fmt: skip
    assert [row["label"] for row in page["rows"]] == ["uedp", "uedp"]


def test_failures_are_counted_and_linked():
    broken = run(seed=2, status="failed", utility={}, provenance={},
                 error=RunError(type="InputError", message="it broke", phase="train"))  # fmt: skip
    page = data(run(), broken)
    (row,) = page["rows"]
    assert (row["n"], row["failed"], page["runs"], page["failed"]) == (1, 1, 2, 1)
    assert [part["error"] for part in row["runs"]] == ["", "train: it broke"]


def test_bounds_name_their_point():
    bound = LowerBound(
        unit="user-entity", adjacency="add-or-remove", epsilon=1.5, delta=1e-5, confidence=0.95,
        strict_epsilon=None, spread=3, sentences=3, method="one-run", attack="audit",
    )  # fmt: skip
    (bound_cell,) = data(run(lower_bounds=(bound,)))["rows"][0]["bounds"]
    assert (bound_cell["spread"], bound_cell["sentences"], bound_cell["attack"]) == (3, 3, "audit")
    assert bound_cell["text"] == "1.50 user-entity (3 others' sentences; 95 %)"


def test_readers_first_see_where_most_mechanisms_are():
    page = data(run(), run(source="conll2003"), run("user-dp", source="conll2003"))
    (most,) = {row["set"] for row in page["rows"] if row["label"] == "user-dp"}
    assert page["initial"] == {
        "task": "next-word", "source": "conll2003", "set": page["sets"][most]["id"]
    }  # fmt: skip


def test_no_results_make_an_empty_page():
    page = data()
    assert (page["rows"], page["columns"], page["initial"]) == ([], [], {})


def test_no_attack_takes_the_place_of_utility_or_of_another_attack():
    page = data(run(perplexity=10.0, leakage={
        "utility": {"perplexity": Estimate(value=99.0)},
        "cost": {"train_seconds": Estimate(value=98.0)},
        "a.b": {"c": Estimate(value=1.0)},
        "a": {"b.c": Estimate(value=2.0)},
        "__proto__": {"__proto__": Estimate(value=3.0)},
    }))  # fmt: skip
    shown = values(page)
    assert shown["utility.perplexity"][0] == 10.0
    assert shown["cost.train_seconds"][0] == 12.0
    names = {(one["attack"], one["name"]): one["key"] for one in page["columns"]}
    assert len(set(names.values())) == len(page["columns"])
    assert shown[names["utility", "perplexity"]][0] == 99.0
    assert [shown[names[pair]][0] for pair in (("a.b", "c"), ("a", "b.c"))] == [1.0, 2.0]
    (row,) = page["rows"]
    of_run = {value for value in row["seeds"]["1"] if value is not None}
    assert of_run == {10.0, 99.0, 98.0, 1.0, 2.0, 3.0}


def test_numbers_beyond_floats_and_seeds_beyond_javascript_are_kept():
    many = {"diagnostics": {"signal_to_noise": 10**400}}
    runs = [run(seed=seed, perplexity=value, **many) for seed, value in
            ((2**60 + 1, 1.7e308), (-5, 1.7e308), (3, 1.6e308))]  # fmt: skip
    page = data(*runs)
    mean, low, high, n, _ = values(page)["utility.perplexity"]
    assert mean == pytest.approx(1.66667e308) and n == 3
    assert low is None and high is None  # its upper end is no float
    assert values(page)["diagnostics.signal_to_noise"][0] == "inf"
    assert [one["seed"] for one in page["rows"][0]["runs"]] == [-5, 3, str(2**60 + 1)]
    # Infinities of both signs have no mean; the runs still have their pages.
    both = data(run(seed=1, perplexity=math.inf), run(seed=2, perplexity=-math.inf))
    assert "utility.perplexity" not in values(both)
