"""Table, plots and comparison fit every width and are accessible in both themes."""

from __future__ import annotations

import pytest
from board_results import bound, members, promise, seeds

from uedp_bench.leaderboard.site import build

ROWS = "noiseless-conll2003,user-dp-conll2003"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    out = tmp_path_factory.mktemp("widths")
    refuted = promise("claimed", 0.123456, "user-entity", status="refuted", reason="audit")
    build([
        *seeds("noiseless", 50.0, guarantees=(promise("proven", float("inf")),), **members(0.2)),
        *seeds("user-dp", 60.0, guarantees=(promise("proven", 4.0),), **members(0.01, 0.0806)),
        *seeds("uedp-spread-of-a-long-name", 500.0, 1.2,
               guarantees=(refuted, promise("proven", 37.912, "user-entity")),
               lower_bounds=(bound(3.0, 1.5),)),
    ], out)  # fmt: skip
    return out / "table.html"


VIEWS = {
    "table": "#leaderboard tbody a",
    "plots": "#plot-leakage .main-svg",
    "compare": ".compare-chart .main-svg",
}
"""What of each view is there once it is drawn."""


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_every_view_fits_and_is_accessible(table, visit, accessible, width):
    page = visit(table, "view=table", viewport={"width": width, "height": 900},
                 color_scheme="light")  # fmt: skip
    page.locator("#leaderboard tbody a").first.wait_for()
    for view, seen in VIEWS.items():
        page.evaluate(f"uedp.set({{ view: '{view}', rows: '{ROWS}', preset: 'leakage' }})")
        for scheme, rules in (("light", ()), ("dark", ("color-contrast",))):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
            page.locator(seen).first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if view == "table":
                notes = page.locator("#leaderboard .beside").all_inner_texts()
                assert "unprotected 20.0, at most 8.06" in notes
                assert "no more than chance, and the attack finds it where it is there" in notes
            accessible(page, *rules, within=f"#view-{view}")


def test_stored_results_open_from_disk(site, visit, accessible):
    page = visit(site / "table.html", "view=table&task=next-word", color_scheme="dark")
    page.wait_for_load_state("load")
    assert page.evaluate("uedp.rows.length") > 100
    assert not page.evaluate("'Plotly' in window")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    for view in VIEWS:
        page.evaluate(f"uedp.set({{ view: '{view}' }})")
        page.locator(f"#view-{view}").wait_for()
        accessible(page)
