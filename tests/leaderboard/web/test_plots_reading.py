"""Plots say which corner is better, name their points, draw floors, and leave no card empty; the
verdict of a comparison stands on top."""

from __future__ import annotations

import pytest
from board_results import promise, seeds
from plot_pages import drawn, layout

from uedp_bench.leaderboard.site import build


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    out = tmp_path_factory.mktemp("plots")
    proven = (promise("proven", 4.0),)
    build([
        *seeds("noiseless", 50.0, 9.0, guarantees=(promise("proven", float("inf")),)),
        *seeds("user-dp", 60.0, 1.6, guarantees=proven),
        *seeds("dp-sgd", 80.0, 3.6, guarantees=(promise("proven", 2.0),)),
        *seeds("uedp", 500.0, 1.2, guarantees=proven),
    ], out)  # fmt: skip
    return out / "table.html"


def test_corners_points_and_floors_have_names_and_no_card_is_empty(table, visit):
    page = drawn(visit(table, "view=plots"))
    notes = layout(page, "leakage", "annotations")
    (corner,) = [one for one in notes if one["name"] == "better"]
    assert (corner["text"], corner["xanchor"], corner["yanchor"]) == ("↙ better", "left", "bottom")
    named = {one["text"]: one["x"] for one in notes if one["name"] == "label"}
    assert named.keys() == {"noiseless", "user-dp", "dp-sgd", "uedp"}
    assert named["noiseless"] == pytest.approx(9.02)
    shapes = layout(page, "leakage", "shapes")
    lines = {one["label"]["text"]: one for one in shapes if "label" in one}
    assert lines["where nothing leaks"]["x0"] == pytest.approx(1.4427, abs=1e-3)
    assert lines["floor: unigrams"]["y0"] == 100.0
    text = page.locator(".plot-card-leakage").inner_text()
    assert "Dotted line: where nothing leaks, 1.44." in text
    # What these rows do not have is said below.
    cards = page.locator(".plot-card")
    seen = [at for at in range(cards.count()) if cards.nth(at).is_visible()]
    assert len(seen) == 4
    assert all(cards.nth(at).locator(".main-svg").count() for at in seen)
    missing = page.locator("#plots-missing li:visible").all_inner_texts()
    assert len(missing) == 1
    assert missing[0].startswith("Spread curve: No row here has a proven curve")


def test_plotly_comes_when_a_plot_is_looked_at(table, visit):
    page = visit(table, "view=table")
    page.locator("#leaderboard tbody a").first.wait_for()
    assert page.evaluate("window.Plotly === undefined")
    page.get_by_role("tab", name="Plots").click()
    page.wait_for_function("window.Plotly")


def test_the_verdict_of_a_comparison_comes_before_its_tables(table, visit):
    rows = ",".join(f"{name}-conll2003" for name in ("noiseless", "user-dp", "uedp"))
    page = visit(table, f"view=compare&rows={rows}")
    lines = page.locator(".verdict li").all_inner_texts()
    assert lines[0] == "1 · noiseless is the reference: nothing proven; perplexity ranks."
    assert lines[1].startswith("2 · user-dp: ")
    assert lines[1].endswith("proven ε 4.00 user.")
    assert lines[2].endswith("It learned nothing.")
    first = page.locator(".verdict").bounding_box()
    assert first["y"] < page.locator("#compare-side").bounding_box()["y"]
