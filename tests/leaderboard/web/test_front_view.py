"""The front page: findings with their plots, the choice of a mechanism, and old links."""

from __future__ import annotations

import math

import pytest
from board_results import INVENTED, bound, promise, seeds

from uedp_bench.leaderboard.site import build

CUT = """
[...document.querySelectorAll("main :is(th, td, p, h1, h2, h3, li, .badge)")]
    .filter(one => one.offsetParent !== null && !one.closest(".visually-hidden, thead, .track")
        && (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline"
            || one.getBoundingClientRect().right > innerWidth + 1))
    .map(one => one.outerHTML.slice(0, 120))"""
"""What is wider than its place, or than the page."""


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    out = tmp_path_factory.mktemp("front")
    proven = (promise("proven", 4.0), promise("proven", 2.0, "record"))
    refuted = promise("claimed", 0.5, status="refuted", reason="audit")
    build([
        *seeds("idle", 300.0, guarantees=(promise("proven", 12.0),), source="zoo"),
        *seeds("noiseless", 50.0, 9.0),
        *seeds("deidentify", 55.0, 8.0, guarantees=(promise("proven", math.inf, "entity"),)),
        *(run for at in range(7) for run in seeds("user-dp", 60.0 + at, 1.6, guarantees=proven,
                                                  apart={"noise_multiplier": at})),
        *seeds("idle", 300.0, guarantees=(promise("proven", 1.0),)),
        *seeds("user-dp", 20.0, guarantees=(promise("proven", 16.0),), source=INVENTED),
        *seeds("uedp", 90.0, guarantees=(refuted,), lower_bounds=(bound(3.0, 1.5),)),
        *seeds("uedp-group", 500.0, guarantees=(promise("claimed", 0.5),)),
    ], out)  # fmt: skip
    return out / "index.html"


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_findings_are_there_at_once_and_nothing_is_cut(front, visit, accessible, width):
    page = visit(front, viewport={"width": width, "height": 900},
                 color_scheme="dark" if width == 1024 else "light")  # fmt: skip
    sentences = page.locator(".finding .said").all_inner_texts()
    assert len(sentences) == 4
    assert sentences[0].startswith("uedp claims ε = 0.50 for a person.")
    assert page.locator(".finding tr.subject .dot").count() == 4
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width < 1440:
        accessible(page, *(("color-contrast",) if width == 1024 else ()))


def test_a_finding_leads_to_its_run_and_to_its_rows(front, visit):
    page = visit(front)
    finding = page.locator("#finding-leak-at-the-floor")
    finding.get_by_role("link", name="noiseless").click()
    page.wait_for_url("**/runs/noiseless-conll2003-1.html")
    page.go_back()
    finding.get_by_role("link", name="rows behind it").click()
    page.wait_for_url("**/table.html#*")
    assert page.evaluate("uedp.shown().length") == 12


def test_the_rows_that_qualify_come_best_first_and_the_choice_is_a_link(front, visit):
    page = visit(front)
    first = page.locator(".chosen-set").first
    names = first.locator("tbody th").all_inner_texts()
    assert names == [f"user-dp (noise_multiplier={at})" for at in range(4)]
    assert "3 more, 1 of these rows learned nothing" in first.inner_text()
    assert "exposure 1.62 ±0.02 bits; 1.44 where nothing leaks" in first.inner_text()
    page.get_by_label("at a proven ε of").select_option("1")
    assert page.locator(".chosen-set tbody tr").count() == 0
    assert "all 1 of these rows learned nothing" in page.locator(".chosen-set").inner_text()
    page.get_by_label("at a proven ε of").select_option("16")
    texts = page.locator(".chosen-set").all_inner_texts()
    assert [("generated text" in one, "all 1 of these rows" in one) for one in texts] == [
        (False, False), (True, False), (False, True)]  # fmt: skip
    page.get_by_label("Protect", exact=True).select_option("record")
    assert page.locator(".chosen-set").count() == 1
    page.reload()
    assert page.get_by_label("Protect", exact=True).input_value() == "record"
    assert page.get_by_label("at a proven ε of").input_value() == "16"
    page.get_by_role("link", name="in the table").first.click()
    page.wait_for_url("**/table.html#*")
    assert page.evaluate("uedp.shown().length") == 7


def test_a_link_that_somebody_made_up_is_no_trouble(front, visit):
    page = visit(front, "choose=nobody:%E0:9")
    page.locator("#choice").wait_for()
    assert page.get_by_label("Protect", exact=True).input_value() == "record"
