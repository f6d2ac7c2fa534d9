"""Where readers could be misled: filters that share a promise, mixed epsilons, missing seeds."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest
from board_results import plain_spec, promise

from uedp_bench.contracts.results import (
    Estimate,
    LowerBound,
    Result,
    RunError,
)
from uedp_bench.leaderboard.site import build


def runs(mechanism, *guarantees, auc=(0.5, 0.5, 0.5), accuracy=(0.5, 0.5, 0.5), **more):
    """Three runs of a row; None is a metric that a run does not have."""
    return [
        Result(
            id=f"{mechanism}-{seed}",
            group=mechanism,
            spec=plain_spec(mechanism, seed=seed),
            **{
                "status": "finished",
                "utility": {"perplexity": Estimate(value=50.0 + seed)}
                | ({} if right is None else {"accuracy": Estimate(value=right)}),
                "leakage": {"membership": {"auc": Estimate(value=learned)}},
                "guarantees": guarantees,
                "provenance": {"corpus": {"fingerprint": "c"}, "vocabulary": {"fingerprint": "v"}},
                **more,
            },
        )
        for seed, (learned, right) in enumerate(zip(auc, accuracy, strict=True), start=1)
    ]


RESULTS = [
    *runs("both", promise("claimed", 0.2, "user-entity"), promise("proven", 0.001)),
    *runs("users", promise("claimed", 4.0), promise("proven", 3.0), auc=(0.5, 0.51, 0.52)),
    *runs("words", promise("proven", 0.5, "word", notion="metric-dp", adjacency="replace-one"),
          auc=(0.3, 0.31, 0.32)),
    *runs("nothing", promise("proven", math.inf, notion="none"), auc=(0.8, 0.81, 0.82),
          accuracy=(0.5, None, 0.7)),
    *runs("zero", promise("proven", 0.0, "word", adjacency="replace-one", delta=0.0),
          auc=(0.4, 0.41, 0.42),
          lower_bounds=(LowerBound(unit="user", epsilon=0.25, delta=1e-10, confidence=0.95,
                                   method="m", attack="membership"),)),
]  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("edges")
    build(RESULTS, out)
    return out / "table.html"


def shown(page):
    """First words of the mechanism column, down the table."""
    labels = page.locator("#leaderboard tbody th .row-link").all_inner_texts()
    return [text.split()[0] for text in labels]


def cell(page, mechanism, text):
    """Whether a row says something."""
    row = page.locator("#leaderboard tbody tr", has=page.get_by_role("link", name=mechanism))
    return " ".join(row.first.inner_text().split()).count(text)


def test_unit_and_guarantee_are_of_one_promise(index, visit):
    # "both" claims for users with entities and proves for users, and not the other way round.
    page = visit(index, "unit=user&guarantee=claimed")
    assert shown(page) == ["users"]
    kinds = page.locator("#filter-guarantee option").all_inner_texts()
    assert kinds == ["any (2)", "claimed (1)", "not proven (0)", "proven (2)"]
    units = page.locator("#filter-unit option").all_inner_texts()
    assert units == ["any (2)", "user (1)", "user-entity (1)", "word (0)"]
    page.get_by_label("Privacy unit", exact=True).select_option("user-entity")
    assert shown(page) == ["both"]
    page.get_by_label("Guarantee", exact=True).select_option("not proven")
    assert shown(page) == ["both"]


def test_epsilons_sort_among_those_that_compare(index, visit):
    page = visit(index, "view=table&sort=proven:asc&preset=guarantee")
    assert shown(page) == ["both", "users", "zero", "words", "nothing"]
    assert cell(page, "words", "per unit of distance") == 1
    # A bound at another δ than the row's says so; pure guarantees hold at any.
    assert cell(page, "zero", "δ = 1e-10") == 1
    assert cell(page, "zero", "δ") == 1
    assert "within one notion, privacy unit" in page.locator("#table-notes").inner_text()


def test_less_than_chance_is_chance(index, visit):
    page = visit(index, "metric=membership.auc&sort=rank:asc")
    ranks = page.evaluate("Object.fromEntries(uedp.ranks(uedp.shown(), 'membership.auc'))")
    assert ranks == {
        "both": [1, 4], "users": [1, 4], "words": [1, 4], "zero": [1, 4], "nothing": [5, 5],
    }  # fmt: skip
    assert "Nothing leaks at 0.50; less is chance" in page.locator("#table-notes").inner_text()
    assert page.evaluate(
        "[['membership.auc', 0.3], ['membership.auc', 0.5], ['membership.auc', 0.6],"
        " ['utility.accuracy', 0.1]]"
        ".map(([key, value]) => uedp.worth(uedp.columnOf.get(key), value))"
    ) == [0.5, 0.5, 0.6, 0.1]


def test_a_metric_that_some_seeds_lack_says_how_many_have_it(index, visit):
    page = visit(index, "view=table&columns=utility.accuracy")
    assert cell(page, "nothing", "60.0 (too few seeds) (n = 2)") == 1
    assert cell(page, "both", "(n =") == 0


def test_the_link_past_the_header_keeps_the_view(index, visit):
    page = visit(index, "q=users&view=table")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate("location.hash") == "#q=users&view=table"
    assert shown(page) == ["users"]


def test_pages_of_nothing_and_of_failures_open(tmp_path, visit):
    broken = RunError(type="InputError", message="it broke", phase="train")
    failed = runs("failed", status="failed", error=broken, utility={}, leakage={}, provenance={})
    shown = (("none", [], "No row to show."), ("failed", failed, "failed, seed"))
    for name, results, message in shown:
        build(results, tmp_path / name)
        page = visit(tmp_path / name / "table.html")
        assert message in page.locator("#leaderboard").inner_text()
        if name == "none":
            page.get_by_role("tab", name="Plots").click()
            page.wait_for_function("window.Plotly")
        page.get_by_role("tab", name="Compare").click()
        page.get_by_text("No row to compare.").wait_for()


def test_plots_say_so_where_the_script_that_draws_them_is_missing(tmp_path, browser):
    build(runs("user-dp"), tmp_path)
    (tmp_path / "assets" / "plotly.min.js").unlink()
    with browser.new_context() as context:
        page = context.new_page()
        page.goto((tmp_path / "table.html").as_uri())
        page.get_by_role("tab", name="Plots").click()
        page.get_by_text("plotly.min.js, which could not be loaded").wait_for()


def test_focus_is_never_behind_the_headings_and_paper_has_no_controls(site, visit):
    page = visit(site / "table.html", "view=table")
    page.locator("#leaderboard tbody tr").nth(30).locator("a").first.focus()
    covered = """() => {
        const { left, top, width, height } = document.activeElement.getBoundingClientRect();
        const over = document.elementFromPoint(left + Math.min(width / 2, 20), top + height / 2);
        return Boolean(over && over.closest("thead"));
    }"""
    for _ in range(60):
        page.keyboard.press("Shift+Tab")
        assert not page.evaluate(covered)
    page.emulate_media(media="print")
    for name in (".filters", ".toolbar", ".downloads", "#leaderboard .column-pick"):
        assert not page.locator(name).first.is_visible()
    assert page.locator("#leaderboard").is_visible()


def test_files_keep_notions_apart(index, visit):
    page = visit(index, "view=table")

    def saved(button):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=button).click()
        return Path(waiting.value.path()).read_text()

    lines_of_file = list(csv.DictReader(io.StringIO(saved("Download these rows as CSV"))))
    all_of_them = (index.parent / "results.csv").read_text()
    for lines in (lines_of_file, list(csv.DictReader(io.StringIO(all_of_them)))):
        column = "proven.word.replace-one"
        by_mechanism = {line["mechanism"]: line for line in lines}
        notions = {name: line[f"{column}.notion"] for name, line in by_mechanism.items()}
        assert notions == {
            "words": "metric-dp", "zero": "dp", "both": "", "users": "", "nothing": "",
        }  # fmt: skip
        assert float(by_mechanism["words"][f"{column}.epsilon"]) == 0.5
