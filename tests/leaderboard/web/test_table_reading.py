"""The table can be read at every width: presets, explanations, and nothing cut or overlapping."""

from __future__ import annotations

import pytest
from board_results import bound, promise, seeds

from uedp_bench.leaderboard.site import build

CUT = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const place = text.parentElement.closest(
      "#leaderboard :is(th, td), button, summary, label, .name");
    if (!place || !text.data.trim() || text.parentElement.closest(".visually-hidden, #about-column")
        || !text.parentElement.checkVisibility()) {
      continue;
    }
    const box = place.getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const rect of range.getClientRects()) {
      if (rect.right > box.right + 1 || rect.left < box.left - 1 || rect.bottom > box.bottom + 2) {
        found.push(`${text.data.trim()} in ${place.outerHTML.slice(0, 80)}`);
      }
    }
  }
  return found;
})()"""
"""Text that leaves its cell or its button: it would lie on the next one, or be cut."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    out = tmp_path_factory.mktemp("reading")
    nothing = promise("proven", float("inf"))
    refuted = promise("claimed", 0.123456, "user-entity", status="refuted", reason="audit")
    build([
        *seeds("noiseless", 50.0, 9.0, guarantees=(nothing,)),
        *seeds("deidentify + user-dp", 60.0, 1.6, guarantees=(promise("proven", 4.0),),
               apart={"noise_multiplier": 0.694152, "server_learning_rate": 0.1}),
        *seeds("uedp-spread-of-a-long-name", 5123456.0, 1.2,
               guarantees=(refuted, promise("proven", 37.912, "user-entity")),
               lower_bounds=(bound(3.0, 1.5),)),
    ], out)  # fmt: skip
    return out / "table.html"


@pytest.mark.parametrize("width", [390, 1024, 1440])
@pytest.mark.parametrize("preset", ["", "preset=guarantee"])
def test_nothing_is_cut_or_overlaps(table, visit, width, preset):
    page = visit(table, f"view=table&{preset}", viewport={"width": width, "height": 900})
    page.locator("#leaderboard tbody a").first.wait_for()
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_text_that_leaves_its_cell_is_seen(table, visit):
    page = visit(table, "view=table")
    page.evaluate("""
        const cell = document.querySelector("#leaderboard tbody td.number div");
        cell.style.cssText = "position: relative; left: 20rem";
    """)
    assert len(page.evaluate(CUT)) >= 1


def test_epsilon_is_in_sight_on_a_phone(table, visit):
    page = visit(table, viewport={"width": 390, "height": 844})
    cells = page.locator("#leaderboard tbody td.promise")
    first = [cells.nth(at).bounding_box() for at in range(cells.count())]
    seen = [box["x"] + box["width"] <= 390 for box in first]
    assert sum(seen) == 3  # of every row, what is proven
    assert "4.00 user" in page.locator("#leaderboard tbody").inner_text()


def test_presets_change_the_columns_and_are_in_the_link(table, visit):
    page = visit(table, "view=table")

    def heads():
        texts = page.locator("#leaderboard thead th[scope=col]").all_inner_texts()
        return [" ".join(text.split("↓")[0].replace("?", "").split()) for text in texts]

    # A refuted claim stands beside what is proven.
    assert {"proven ε", "claimed ε", "ε at least", "perplexity", "exposure (bits)"} <= set(heads())
    assert "train s" not in heads()
    page.get_by_role("button", name="cost", exact=True).click()
    assert "preset=cost" in page.url
    assert "proven ε" not in heads()
    assert page.locator(".presets [aria-pressed=true]").all_inner_texts() == ["cost"]
    page.get_by_role("button", name="guarantee", exact=True).click()
    assert {"δ", "learned", "seeds"} <= set(heads())
    page.get_by_text("Pick columns").click()
    page.get_by_label("δ", exact=True).uncheck()
    assert page.locator(".presets [aria-pressed=true]").count() == 0
    page.get_by_role("button", name="Reset to the preset").click()
    assert "δ" in heads()


def test_every_column_is_explained_with_a_link_into_the_glossary(table, visit, accessible):
    page = visit(table, "view=table&sort=proven:asc")
    buttons = page.locator("#leaderboard thead button.about")
    columns = page.locator("#leaderboard thead th[scope=col]").count() - 1
    assert buttons.count() == columns
    one = page.get_by_role("button", name="About exposure (bits)")
    one.focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("dialog")
    assert "mean bits of the most repeated canaries" in box.inner_text().lower()
    assert "Lower is better." in box.inner_text()
    assert "sort=proven:asc" in page.url  # nothing was sorted
    accessible(page, within="#about-column")
    page.keyboard.press("Escape")
    assert not box.is_visible()
    one.click()
    box.get_by_role("link").click()
    page.wait_for_url("**/glossary.html#metric-secret-sharer-exposure-max-repeats")
    assert page.locator("dt:target").inner_text() == "exposure (bits)"
    accessible(page)


def test_no_protection_is_said_in_words_and_mechanisms_lead_to_what_they_are(table, visit):
    page = visit(table, "view=table")
    row = page.locator("#leaderboard tbody tr", has_text="noiseless")
    assert "∞ user: no protection" in row.inner_text()
    page.get_by_role("link", name="About user-dp: paper, code and threat model").click()
    page.wait_for_url("**/glossary.html#mechanism-user-dp")
    about = page.locator("dt:target + dd").inner_text()
    assert "Threat model" in about
    assert "McMahan et al. 2018" in about
    assert "mechanisms/private_training/user_dp.py" in about
