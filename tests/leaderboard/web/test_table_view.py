"""The table view says what the results say, and a link, a key or a click gets readers anywhere."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest
from board_results import plain_spec, promise

from uedp_bench.contracts.results import (
    ComponentSpec,
    Cost,
    Estimate,
    LowerBound,
    Result,
    RunError,
)
from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.site import build

PHONE = {"width": 390, "height": 844}
SAME = "add-or-remove"


def run(mechanism, seed, utility, *, task="next-word", source="embedded", **more):
    params = more.pop("params", {})
    model = "lstm-small" if task == "next-word" else "bert"
    values = {
        "status": "finished",
        "utility": {name: Estimate(value=value) for name, value in utility.items()},
        "provenance": {"corpus": {"fingerprint": source}, "vocabulary": {"fingerprint": "v1"}},
        "cost": Cost(train_seconds=12.0, peak_memory_mb=900.0),
    }
    name = f"{mechanism}{'-'.join(map(str, params.values()))}"
    return Result(
        id=f"{name}-{seed}".replace(".", "_"),
        group=name,
        spec=plain_spec(mechanism, source, seed=seed, **params).model_copy(
            update={"task": ComponentSpec(name=task), "model": ComponentSpec(name=model)}
        ),
        **{**values, **more},
    )


def seeds(mechanism, values, auc=None, **more):
    """Runs of one row: perplexities by seed."""
    leak = {} if auc is None else {"leakage": {"membership": {"auc": Estimate(value=auc)}}}
    return [
        run(mechanism, seed, {"perplexity": value, "accuracy": 0.5}, **leak, **more)
        for seed, value in enumerate(values, start=1)
    ]


def results():
    """One row of every kind that the table tells apart."""
    audited = LowerBound(unit="user", adjacency=SAME, epsilon=1.5, delta=1e-5, confidence=0.95,
                         strict_epsilon=1.2, method="one-run", attack="audit")  # fmt: skip
    refused = promise("proven", math.inf, notion="none", status="refused", reason="private sizes")
    refuted = promise("claimed", 0.25, "user-entity", status="refuted",
                      reason="audit finds at least 1.5")  # fmt: skip
    endless = promise("proven", math.inf, notion="none", reason="trained without noise")
    return [
        *seeds("noiseless", [10.0, 10.5, 9.5], 0.75, guarantees=(endless,)),
        *seeds("user-dp", [50.0, 51.0, 52.0], 0.5, guarantees=(promise("proven", 8.0),),
               params={"epsilon": 8.0}),
        *seeds("user-dp", [51.0, 52.0, 53.0], 0.5, guarantees=(promise("proven", 2.0),),
               params={"epsilon": 2.0}),
        run("user-dp", 4, {}, status="failed", params={"epsilon": 2.0},
            error=RunError(type="InputError", message="it broke", phase="train")),
        *seeds("uedp", [1000.0], guarantees=(refuted, refused), lower_bounds=(audited,)),
        *seeds("diverged", [math.inf, 5.0]),
        *(run("majority", seed, {"error": 0.4 + seed / 100, "macro_f1": 0.3},
              task="text-classification", source="imdb") for seed in (1, 2)),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("small")
    build(results(), out)
    return out / "table.html"


# ---------------------------------------------------------------------------------------- helpers


def tidy(text):
    return re.sub(r"\s+", " ", text).strip()


def heads(page):
    """What the columns that show are called."""
    texts = page.locator("#leaderboard thead th[scope=col]").all_inner_texts()
    return [tidy(text).removesuffix(" ?") for text in texts]


def column(page, name):
    """The texts of a column that begins with a name, down the table."""
    at = next(i for i, head in enumerate(in_order(page)) if head.startswith(name))
    texts = page.locator(f"#leaderboard tbody tr > :nth-child({at + 1})").all_inner_texts()
    return [tidy(text) for text in texts]


def in_order(page):
    """Headings in the order of the body's cells."""
    texts = page.evaluate("""
        [...document.querySelectorAll("#leaderboard thead th[scope=col]")]
            .sort((a, b) => a.dataset.dtColumn - b.dataset.dtColumn).map(th => th.innerText)
    """)
    return [tidy(text).removesuffix(" ?") for text in texts]


def table(page):
    return [
        [tidy(text) for text in row.locator("th, td").all_inner_texts()]
        for row in page.locator("#leaderboard tbody tr").all()
    ]


def sort_by(page, name):
    """Clicks a heading; DataTables sorts after the click."""
    head = page.locator("#leaderboard thead th", has_text=name)
    # Its middle may be the button that explains it.
    head.locator(".dt-column-title").click(position={"x": 4, "y": 4})
    page.locator("#leaderboard th[aria-sort]", has_text=name).wait_for()
    return head


def state(page):
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def saved(page, button):
    with page.expect_download() as waiting:
        page.get_by_role("button", name=button).click()
    return Path(waiting.value.path()).read_text()


# ------------------------------------------------------------------------------------ what it says


def test_cells_say_what_the_results_say(small, visit, accessible):
    page = visit(small, "view=table")
    names = column(page, "mechanism")
    assert len(names) == 6
    by_name = dict(zip([name.split(" seed")[0] for name in names], table(page), strict=True))
    at = {head.split(" ↓")[0].split(" ↑")[0]: i for i, head in enumerate(in_order(page))}
    uedp, noiseless, two = by_name["uedp"], by_name["noiseless"], by_name["user-dp epsilon=2"]
    assert noiseless[at["perplexity"]] == "10.0 ±1.2"
    assert uedp[at["perplexity"]] == "1,000 (n = 1)"
    assert by_name["diverged"][at["perplexity"]] == "∞"
    assert uedp[at["member AUC"]] == noiseless[at["error %"]] == "–"
    assert two[at["mechanism"]] == "user-dp epsilon=2 seeds" + "".join(
        f" user-dp (epsilon=2), seed {seed}" for seed in ("1", "2", "3", "4 ✗ failed")
    ) + " about"  # fmt: skip
    assert noiseless[at["proven ε"]] == f"∞ user: no protection {SAME}"
    assert two[at["proven ε"]] == f"2.00 user {SAME}"
    # The claim is refuted by the bound that no chance may fail.
    assert uedp[at["ε at least"]] == f"1.50 user (95 %), 1.20 (99.9999 %) {SAME}"
    assert uedp[at["claimed ε"]] == f"✗ 0.25 user-entity, refuted {SAME}"
    assert uedp[at["proven ε"]] == f"⊘ refused (user) {SAME}"
    assert [by_name[name][at["set"]] for name in ("uedp", "majority")] == ["B", "A"]
    # Real tables: headings have a scope, the table a caption, groups a heading of their own.
    assert page.locator("#leaderboard caption").inner_text() == "Mechanisms"
    assert page.locator("#leaderboard tbody th[scope=row]").count() == 6
    groups = page.locator("#leaderboard th[scope=colgroup]").all_inner_texts()
    assert list(map(tidy, groups)) == ["guarantee", "utility", "leakage: membership"]
    accessible(page)
    page.get_by_role("button", name="guarantee", exact=True).click()
    assert "3 (1 failed)" in column(page, "seeds")


def test_the_reason_of_a_refusal_opens_by_key_and_by_mouse(small, visit, accessible):
    page = visit(small, "q=uedp")
    why = page.get_by_text("⊘ refused (user)")
    assert not page.get_by_text("private sizes").is_visible()
    why.focus()
    page.keyboard.press("Enter")
    assert page.get_by_text("private sizes").is_visible()
    page.get_by_text("✗ 0.25 user-entity, refuted").click()
    assert page.get_by_text("audit finds at least 1.5").is_visible()
    accessible(page, within="#leaderboard")


# ---------------------------------------------------------------------------------------- sorting


def test_sorting_by_click_and_by_key_has_what_is_missing_last(small, visit):
    page = visit(small, "task=next-word")
    head = sort_by(page, "member AUC")
    assert column(page, "member AUC")[:3] == ["0.50 ±0.00", "0.50 ±0.00", "0.75 ±0.00"]
    assert column(page, "member AUC")[3:] == ["–", "–"]
    assert head.get_attribute("aria-sort") == "ascending"
    assert state(page)["sort"] == "membership.auc:asc"
    button = page.get_by_role("button", name=re.compile("^member AUC"))
    button.focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=descending]").wait_for()
    assert column(page, "member AUC")[0] == "0.75 ±0.00"
    assert column(page, "member AUC")[3:] == ["–", "–"]
    assert state(page)["sort"] == "membership.auc:desc"
    # By number, not by text: 10.0 < 51.0 < 52.0 < 1,000 < ∞.
    sort_by(page, "perplexity")
    shown = [text.split()[0] for text in column(page, "perplexity")]
    assert shown == ["10.0", "51.0", "52.0", "1,000", "∞"]
    # By the smallest epsilon of the kind; refused is infinite, and none at all comes last.
    sort_by(page, "proven")
    shown = [text.split()[0] for text in column(page, "proven ε")]
    assert shown[:2] == ["2.00", "8.00"]
    assert sorted(shown[2:4]) == ["∞", "⊘"]
    assert shown[4] == "–"


# ---------------------------------------------------------------------------------------- filters


def test_filters_count_what_they_would_leave(small, visit, accessible):
    page = visit(small, "view=table")
    task = page.get_by_label("Task", exact=True)
    assert [tidy(text) for text in task.locator("option").all_inner_texts()] == [
        "any (6)", "next-word (5)", "text-classification (1)",
    ]  # fmt: skip
    task.select_option("text-classification")
    assert len(table(page)) == 1
    assert "1 of 6 rows, 2 of 15 runs." in page.locator("#summary").inner_text()
    choices = page.locator("#filter-source option").all()
    assert {tidy(choice.inner_text()): choice.is_disabled() for choice in choices} == {
        "any (1)": False, "embedded (0)": True, "imdb (1)": False,
    }  # fmt: skip
    task.select_option("next-word")
    page.get_by_label("Guarantee", exact=True).select_option("claim refuted")
    assert [name.split()[0] for name in column(page, "mechanism")] == ["uedp"]
    assert state(page) == {"view": "table", "task": "next-word", "guarantee": "claim refuted"}
    page.get_by_role("button", name="Show everything").click()
    assert len(table(page)) == 6
    summary = page.locator("#summary")
    assert "ranks are within sets of rows that compare" in summary.inner_text()
    summary.locator("summary").click()
    accessible(page, within="#summary")
    page.get_by_role("button", name="Show set A only").click()
    assert len(table(page)) == 1
    assert "All rows compare: text-classification on imdb" in summary.inner_text()


def test_a_search_that_filters_hide_is_offered_without_them(small, visit, accessible):
    page = visit(small, "task=next-word")
    page.get_by_label("Search", exact=True).fill("MAJORITY bert")
    offer = page.get_by_role("button", name="Search without filters (1)")
    offer.wait_for()
    assert "0 of 6 rows" in page.locator("#summary").inner_text()
    accessible(page, within="#summary")
    offer.click()
    assert [name.split()[0] for name in column(page, "mechanism")] == ["majority"]
    assert state(page) == {"q": "MAJORITY bert"}
    page.get_by_label("Search", exact=True).fill("no such thing")
    page.get_by_text("The search finds no row at all.").wait_for()


def test_typing_draws_once(small, visit):
    page = visit(small, "view=table")
    page.evaluate("""() => {
        window.draws = -1;
        uedp.subscribe(() => { window.draws += 1; });
        const box = document.getElementById("q");
        for (const text of ["u", "us", "use", "user", "user-", "user-d", "user-dp"]) {
            box.value = text;
            box.dispatchEvent(new Event("input"));
        }
    }""")
    page.get_by_text("2 of 6 rows").wait_for()
    page.wait_for_timeout(250)
    assert page.evaluate("window.draws") == 1
    assert len(table(page)) == 2


# ------------------------------------------------------------------------------------------ ranks


def test_ranks_hold_within_a_set_and_ties_say_so(small, visit, accessible):
    page = visit(small, "view=table")
    page.get_by_label("Rank by").select_option("utility.perplexity")
    assert state(page)["sort"] == "rank:asc"
    names = [name.split(" seed")[0] for name in column(page, "mechanism")]
    ranks = dict(zip(names, column(page, "rank"), strict=True))
    assert ranks == {
        "noiseless": "1",
        "user-dp epsilon=8": "2–3 tied, rank 2 to 3 tied",
        "user-dp epsilon=2": "2–3 tied, rank 2 to 3 tied",
        "uedp": "– not ranked: one seed has no interval (n = 1)",
        "diverged": "– not ranked: its mean has no interval (no interval)",
        "majority": "– not measured",
    }
    accessible(page, within="#leaderboard")
    page.get_by_label("Rank by").select_option("")
    assert "rank" not in " ".join(heads(page))
    assert "sort" not in state(page)


# -------------------------------------------------------------------------- columns, links, files


def test_columns_are_picked_kept_in_the_link_and_reset(small, visit, accessible):
    page = visit(small, "task=next-word")
    usual = heads(page)
    page.get_by_text("Pick columns").click()
    page.get_by_role("checkbox", name="peak MB").check()
    page.get_by_role("checkbox", name="member AUC").uncheck()
    assert "peak MB ↓ better lower is better" in heads(page)
    assert not any(head.startswith("member AUC") for head in heads(page))
    assert "cost.peak_memory_mb" in state(page)["columns"].split(",")
    accessible(page, within="#picker")
    page.keyboard.press("Escape")
    assert not page.get_by_role("checkbox", name="peak MB").is_visible()
    assert page.evaluate("document.activeElement.parentElement.id") == "picker"
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Reset to the preset").click()
    assert heads(page) == usual
    assert "columns" not in state(page)


def test_a_link_shows_the_same_view_again(small, visit):
    page = visit(small, "view=table")
    page.get_by_label("Task", exact=True).select_option("next-word")
    page.get_by_label("Search", exact=True).fill("user-dp")
    page.get_by_text("2 of 6 rows").wait_for()
    page.get_by_label("Rank by").select_option("utility.perplexity")
    page.get_by_text("Pick columns").click()
    page.get_by_role("checkbox", name="δ").check()
    page.keyboard.press("Escape")
    sort_by(page, "proven")
    page.get_by_label("Compare user-dp (epsilon=8)").check()
    assert page.locator("#picks").inner_text().startswith("1 picked")
    # Without a clipboard the link is selected, for the reader to copy.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function("getSelection().toString().includes('#')")
    link = page.locator("#link-told").inner_text()
    assert page.evaluate("getSelection().toString()") == link
    again = visit(small, link.partition("#")[2])
    assert table(again) == table(page)
    assert heads(again) == heads(page)
    assert again.get_by_label("Compare user-dp (epsilon=8)").is_checked()
    assert not again.get_by_label("Compare user-dp (epsilon=2)").is_checked()
    assert again.locator("th[aria-sort]").inner_text() == page.locator("th[aria-sort]").inner_text()
    assert again.get_by_label("Search").input_value() == "user-dp"
    assert again.get_by_label("Rank by").input_value() == "utility.perplexity"


def test_a_copied_link_is_the_address(small, visit):
    page = visit(small, "q=uedp", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_files_hold_the_rows_that_show_in_their_order(small, visit):
    page = visit(small, "task=next-word&sort=utility.perplexity:desc")
    names = [row[0] for row in page.evaluate(
        "uedp.grid.inOrder().map(row => [row.label, row.id])")]  # fmt: skip
    assert names[0] == "diverged"
    lines = list(csv.DictReader(io.StringIO(saved(page, "Download these rows as CSV"))))
    assert [line["mechanism"] for line in lines] == names
    means = [float(line["utility.perplexity"]) for line in lines]
    assert means == sorted(means, reverse=True)
    cells = [text.split()[0] for text in column(page, "perplexity")]
    assert cells == [number(mean) for mean in means]
    by_group = {line["group"]: line for line in lines}
    two, uedp = by_group["user-dp2_0".replace("_", ".")], by_group["uedp"]
    assert (two["seeds"], two["failed"], two["utility.perplexity.n"]) == ("1 2 3", "1", "3")
    assert two["proven.user.add-or-remove.epsilon"] == "2"
    assert two["runs"].split()[-1] == "user-dp2_0-4"
    assert float(two["utility.perplexity.high"]) > 52
    assert uedp["utility.perplexity.low"] == ""
    assert uedp["proven.user.add-or-remove.reason"] == "private sizes"
    assert uedp["at_least.user.add-or-remove.epsilon"] == "1.5"
    objects = json.loads(saved(page, "Download these rows as JSON"))
    assert [one["mechanism"] for one in objects] == names
    assert objects[0]["utility.perplexity"] == "inf"
    (same,) = (one for one in objects if one["group"] == "uedp")
    assert (same["utility.perplexity"], same["utility.perplexity.low"]) == (1000, None)


# --------------------------------------------------------------------------------- ways around it


def test_a_mechanism_leads_to_its_run(small, visit):
    page = visit(small, "q=noiseless")
    page.locator("#leaderboard tbody").get_by_role("link", name="noiseless", exact=True).click()
    page.wait_for_url("**/runs/noiseless-1.html")
    assert "noiseless" in page.locator("h1").inner_text()
    page.go_back()
    page.get_by_role("link", name="noiseless, seed 3").click()
    page.wait_for_url("**/runs/noiseless-3.html")


def test_tabs_go_by_arrow_keys_and_back_goes_back(small, visit):
    page = visit(small, "q=uedp")
    tab = page.get_by_role("tab", selected=True)
    assert tab.inner_text() == "Table"
    tab.focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", selected=True).inner_text() == "Plots"
    assert page.evaluate("document.activeElement.id") == "tab-plots"
    assert page.locator("#view-plots").is_visible()
    assert not page.locator("#view-table").is_visible()
    assert [t.get_attribute("tabindex") for t in page.get_by_role("tab").all()] == ["-1", "0", "-1"]
    page.keyboard.press("End")
    assert state(page) == {"q": "uedp", "view": "compare"}
    page.go_back()
    page.get_by_role("tab", name="Plots", selected=True).wait_for()
    page.go_back()
    page.get_by_role("tab", name="Table", selected=True).wait_for()
    assert page.locator("#view-table").is_visible()
    page.evaluate("location.hash = '#q=majority'")
    page.get_by_role("row", name="majority").wait_for()
    assert page.get_by_label("Search", exact=True).input_value() == "majority"


def test_the_theme_is_the_readers_choice_and_stays(small, visit):
    page = visit(small, "view=table", color_scheme="light")
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 30)"


def test_on_a_phone_only_the_table_scrolls(site, visit):
    page = visit(site / "table.html", "view=table", viewport=PHONE)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) == 390
    region = page.get_by_role("region", name=re.compile("Leaderboard"))
    region.focus()
    assert page.evaluate("document.activeElement.scrollWidth > document.activeElement.clientWidth")
    region.evaluate("node => { node.scrollLeft = 400; }")
    cell = page.locator("#leaderboard tbody th").first.bounding_box()
    assert 0 <= cell["x"] < 30  # the mechanism stays
    page.get_by_text("Pick columns").click()
    page.get_by_text(re.compile("^Filters")).click()
    assert page.evaluate(wide) == 390


def test_a_phone_has_everything_for_everyone(small, visit, accessible):
    page = visit(small, "view=table&metric=utility.error", viewport=PHONE, color_scheme="dark")
    page.get_by_text(re.compile("^Filters")).click()
    page.locator("#summary summary").click()
    page.get_by_text("What the columns mean").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    accessible(page)
