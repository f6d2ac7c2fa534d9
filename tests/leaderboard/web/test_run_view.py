"""Pages of runs in a browser: figures, themes, copies, downloads, and nothing of a result runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from whole_results import HOSTILE, everything, failed, minimal

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.run_pages.detail_tables import COMMAND, spec_yaml
from uedp_bench.leaderboard.site import build

QUICKSTART = Path(__file__).parents[3] / "leaderboard" / "results" / "quickstart"
DRAWN = "[...document.querySelectorAll('[data-figure]')].filter(c => c.data).map(c => c.id)"
ALL_DRAWN = "[...document.querySelectorAll('[data-figure]')].every(c => c.data)"
HOSTILES = everything(9, HOSTILE).model_copy(update={"id": "hostile", "group": "hostile"})


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The folder of pages of a few runs."""
    out = tmp_path_factory.mktemp("runs")
    results = [one for one in load_results([QUICKSTART]) if one.label == "user-dp"]
    build([*results, *map(everything, (1, 2, 3)), failed(4), minimal(), HOSTILES], out)
    return out / "runs"


def draw_all(page):
    """Draws every figure, as for printing."""
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function("window.Plotly && document.readyState === 'complete'")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(ALL_DRAWN)
    return page


def test_figures_are_drawn_where_they_come_into_view(runs, visit):
    page = visit(runs / "everything-1.html")
    for name in ("#figure-1", "#figure-18"):
        assert name[1:] not in page.evaluate(DRAWN)
        page.locator(name).scroll_into_view_if_needed()
        page.wait_for_function(f"document.querySelector('{name}').data")
    assert len(page.evaluate(DRAWN)) < 18


def test_figures_have_their_axes_points_and_the_colours_of_the_theme(runs, visit):
    page = draw_all(visit(runs / "everything-1.html", color_scheme="light"))
    charts = {page.get_attribute(f"#{one}", "aria-label").partition(".")[0]: one
              for one in page.evaluate(DRAWN)}  # fmt: skip
    assert len(charts) == 18

    def full(title, path):
        return page.evaluate(f"document.getElementById('{charts[title]}').{path}")

    roc = "ROC of records, by score"
    assert full(roc, "_fullLayout.xaxis.type") == full(roc, "_fullLayout.yaxis.type") == "log"
    assert full(roc, "data.map(t => t.name)")[3:] == ["chance", "as reported"]
    assert full("Exposure of the canaries", "data[2].y[0]") == pytest.approx(6 * 513 / 1025)
    # Plotly draws what it was given: bars of both kinds, hatched where the second one is.
    drawn = page.locator(f"#{charts['Exposure of the canaries']} .barlayer .point path")
    assert drawn.count() == 20
    light = full(roc, "layout.font.color")
    assert light == page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
    )
    page.click("#theme")
    dark = full(roc, "layout.font.color")
    assert dark != light
    for title in charts:
        assert "var(" not in full(title, "data.map(one => JSON.stringify(one)).join()")
        assert "var(" not in full(title, "_fullLayout.hoverlabel.bgcolor")


@pytest.mark.parametrize(("name", "scheme"), [
    ("everything-1", "light"), ("everything-1", "dark"), ("failed-4", "light"),
])  # fmt: skip
def test_pages_are_accessible(runs, visit, accessible, name, scheme):
    page = visit(runs / f"{name}.html", color_scheme=scheme)
    if scheme == "dark":
        page.locator("#figure-1").scroll_into_view_if_needed()
        page.wait_for_function("document.querySelector('#figure-1').data")
        accessible(page, "color-contrast")
    else:
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        accessible(page)


def test_phones_scroll_tables_and_not_the_page(runs, visit):
    page = draw_all(visit(runs / "hostile.html", viewport={"width": 390, "height": 844}))
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    wide = page.evaluate("""[...document.querySelectorAll('.scroll')]
        .filter(one => one.scrollWidth > one.clientWidth).length""")
    assert wide > 0
    assert page.locator("[data-figure]").first.bounding_box()["width"] < 390
    # Metrics and samples are cards there: whoever reads them scrolls nothing sideways.
    assert page.locator(".readings").count() > 0
    assert (
        page.evaluate("""[...document.querySelectorAll('.cards-on-phones')]
        .filter(one => one.scrollWidth > one.parentElement.clientWidth
                       || one.parentElement.scrollWidth > one.parentElement.clientWidth)
        .map(one => one.innerText)""")
        == []
    )


def test_the_spec_and_the_command_are_copied(runs, visit):
    page = visit(runs / "everything-1.html", permissions=["clipboard-read", "clipboard-write"])
    for name, text in (("command", COMMAND), ("spec", spec_yaml(everything().spec))):
        page.click(f"[data-copy={name}]")
        page.wait_for_function("document.getElementById('told').textContent")
        assert page.inner_text("#told") == "Copied."
        assert page.evaluate("navigator.clipboard.readText()") == text
        page.evaluate("document.getElementById('told').textContent = ''")
    # Without a clipboard: by selection.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.click("[data-copy=command]")
    page.wait_for_function("document.getElementById('told').textContent === 'Copied.'")
    assert page.evaluate("String(getSelection())") == COMMAND


def test_the_spec_and_the_result_are_saved(runs, visit):
    page = visit(runs / "hostile.html")
    with page.expect_download() as saving:
        page.click("#save")
    assert saving.value.suggested_filename == "result.json"
    saved = json.loads(Path(saving.value.path()).read_text(encoding="utf-8"))
    assert Result.model_validate(saved) == HOSTILES
    with page.expect_download() as saving:
        page.click("a[download]")
    assert saving.value.suggested_filename == "spec.yaml"
    assert Path(saving.value.path()).read_text(encoding="utf-8") == spec_yaml(HOSTILES.spec)
    page.click("#shown summary")
    page.wait_for_function("document.querySelector('#shown pre').textContent")
    assert json.loads(page.text_content("#shown pre")) == saved


def test_seeds_and_the_way_back(runs, visit):
    page = visit(runs / "everything-1.html")
    page.click(".seeds a:has-text('2')")
    page.wait_for_url("**/everything-2.html")
    assert page.inner_text(".seeds [aria-current]") == "2"
    page.click(".seeds a:has-text('4 (failed)')")
    page.wait_for_url("**/failed-4.html")
    assert "users is 3" in page.inner_text("main")
    page.click("text=compare this row")
    page.wait_for_url("**/table.html*")  # a run's page has a `uedp` too, which knows no rows
    assert page.evaluate("[uedp.get('view'), uedp.get('rows')]") == ["compare", "everything"]
    assert page.evaluate("uedp.rowOf.has('everything')")


def test_the_table_of_contents_follows(runs, visit):
    page = visit(runs / "everything-1.html")
    assert page.inner_text(".contents [aria-current]") == "Summary"
    page.click(".contents a:has-text('Cost')")
    page.wait_for_function(
        "document.querySelector('.contents [aria-current]').textContent === 'Cost'"
    )


def test_nothing_of_a_result_runs(runs, visit):
    page = draw_all(visit(runs / "hostile.html"))
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("[window.hacked, document.images.length]") == [None, 0]
    assert page.locator("main").inner_text().count("<img src=x") > 20
    # Plotly read it as text too: the legend of the ROC has the name of a score as it is.
    legends = page.locator(".legendtext").all_text_contents()
    assert HOSTILE in legends


def test_pages_are_read_without_scripts(runs, visit):
    page = visit(runs / "everything-1.html", java_script_enabled=False)
    assert page.locator(".chart:visible").count() == 0
    assert page.locator("button:visible", has_text="Copy").count() == 0
    assert "ROC of records, by score" in page.inner_text("main")


def test_a_run_of_the_quickstart_has_its_curves(runs, visit):
    name = next(path.stem for path in runs.iterdir() if len(path.stem) == 16)
    page = draw_all(visit(runs / f"{name}.html"))
    titles = page.locator("figcaption strong").all_inner_texts()
    assert titles == [
        "Exposure of the canaries", "The most exposed canary among its references",
        "Least protected", "ROC of records, by score", "ROC of users", "Least protected users",
        "Train loss", "Units", "Seconds by phase",
    ]  # fmt: skip
