"""Rows that learned nothing: a word on the row, the last ranks, no front, and floors as lines."""

from __future__ import annotations

import pytest

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.site import build


def run(mechanism, seed, score, exposure, *, floor=0.5):
    spec = {"task": {"name": "plug-in"}, "source": {"name": "s"}, "model": {"name": "m"},
            "mechanism": [{"name": mechanism}], "seed": seed}  # fmt: skip
    return Result.model_validate({
        "id": f"{mechanism}-{seed}", "group": mechanism, "status": "finished", "spec": spec,
        "utility": {"score": {"value": score + seed / 1000}},
        "headline": {"metric": "score", "larger_is_better": True},
        "floors": {"guess": floor, "public-only": floor - 0.1}, "learned": score > floor,
        "leakage": {"secret-sharer": {"exposure_max_repeats": {"value": exposure + seed / 100}}},
        "provenance": {"corpus": {"fingerprint": "c"}},
    })  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    out = tmp_path_factory.mktemp("learned")
    settings = [("good", 0.9, 5.0), ("fair", 0.7, 3.0), ("idle", 0.3, 1.5)]
    build(
        [
            run(name, seed, score, learned)
            for name, score, learned in settings
            for seed in (1, 2, 3)
        ],
        out,
    )
    return out / "table.html"


def test_the_table_says_so_ranks_them_last_and_has_floors(index, visit, accessible):
    page = visit(index, "metric=utility.score&sort=rank:asc")
    names = page.locator("#leaderboard tbody th .row-link").all_inner_texts()
    assert names == ["good", "fair", "idle"]
    badges = page.locator("#leaderboard tbody tr", has=page.locator(".idle")).all_inner_texts()
    assert len(badges) == 1
    assert "learned nothing" in badges[0]
    assert "idle" in badges[0]
    # It leaks least, and that is no merit.
    ranks = page.evaluate(
        "Object.fromEntries(uedp.ranks(uedp.shown(), 'secret-sharer.exposure_max_repeats'))"
    )
    assert ranks == {"fair": [1, 1], "good": [2, 2], "idle": [3, 3]}
    floors = page.locator("#leaderboard tfoot tr").all_inner_texts()
    assert [" ".join(text.split()) for text in floors] == [
        "floor: guess 0.50", "floor: public-only 0.40",
    ]  # fmt: skip
    assert (
        "learned nothing: no better than the best floor"
        in page.locator("#table-notes").inner_text()
    )
    accessible(page, within="#view-table")


def test_plots_draw_floors_and_leave_such_rows_off_the_front(index, visit):
    page = visit(index, "view=plots")
    page.wait_for_function("document.getElementById('plot-leakage')?.data")
    data = page.evaluate("document.getElementById('plot-leakage').data")
    (front,) = [one for one in data if one.get("meta") == "front"]
    assert len(front["y"]) == 2
    assert min(front["y"]) > 0.5
    (idle,) = [one for one in data if one.get("meta") == "idle"]
    assert idle["y"] == [pytest.approx(0.302)]
    shapes = page.evaluate("document.getElementById('plot-leakage').layout.shapes")
    floors = [(one["y0"], one["label"]["text"]) for one in shapes if one.get("name") == "floor"]
    assert floors == [(0.5, "floor: guess"), (0.4, "floor: public-only")]
    low, high = page.evaluate("document.getElementById('plot-leakage').layout.yaxis.range")
    assert low < 0.3
    assert high > 0.9
    text = page.locator("body").inner_text()
    assert "Dotted line: floor guess, 0.50." in text
