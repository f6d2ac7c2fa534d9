"""Plots: what stands where is what the results say, and readers can reach all of it."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from machine_pace import browser_pace
from plot_pages import drawn, layout, points
from references import shown_results

from uedp_bench.leaderboard.boards import boards
from uedp_bench.leaderboard.rows import Row, aggregate

CARDS = ("budget", "leakage", "promise", "cost", "spread")
EMBEDDED = "view=plots&task=next-word&source=embedded"


@cache
def largest_board(source: str) -> list[Row]:
    all_boards = boards(aggregate(shown_results()))
    return max((b for b in all_boards if b[0].spec.source.name == source), key=len)


def undominated(values: dict[str, tuple[float, float]]) -> set[str]:
    """Less is better in both. Along x, each best y so far: another way than comparing all pairs."""
    best, lowest = set(), float("inf")
    for x in sorted({x for x, _ in values.values()}):
        least = min(y for at, y in values.values() if at == x)
        if least < lowest or (least == lowest == float("inf") and not best):
            best |= {name for name, value in values.items() if value == (x, least)}
            lowest = least
    return best


# ----------------------------------------------------------------------------------- pure functions


def test_the_front_is_that_of_an_oracle(site, visit):
    page = visit(site / "table.html", "view=table")
    rng = np.random.default_rng(3)
    ways = {"lower": 1.0, "higher": -1.0}
    for size in (1, 2, 5, 40, 300):
        for x_better, x_sign in ways.items():
            for y_better, y_sign in ways.items():
                # Few distinct values: many ties and twins.
                corners = rng.integers(0, 12, (size, 2)).astype(float).tolist()
                flags = page.evaluate(
                    "([found, better]) => uedp.plots.dominated("
                    "found.map(([x, y]) => ({x, y})), better)",
                    [corners, {"x": x_better, "y": y_better}],
                )
                values = {str(n): (x_sign * x, y_sign * y) for n, (x, y) in enumerate(corners)}
                best = {str(n) for n, flag in enumerate(flags) if not flag}
                assert best == undominated(values)


# -------------------------------------------------------------------------------- reference results


def test_points_stand_where_the_results_say(site, visit):
    page = drawn(visit(site / "table.html", EMBEDDED))
    board = {row.group: row for row in largest_board("embedded")}
    values = {
        name: (row.leakage["secret-sharer"]["exposure_max_repeats"], row.utility["perplexity"])
        for name, row in board.items()
    }
    means = {name: (x.value, y.value) for name, (x, y) in values.items()}
    # Less exposure than of what was never seen is chance.
    # What learned nothing is on no front: it leaks little because it knows little.
    idle = {name for name, row in board.items() if row.learned is False}
    assert idle
    best = undominated({
        name: (max(x, 1 / math.log(2)), y) for name, (x, y) in means.items() if name not in idle
    })  # fmt: skip
    assert 1 < len(best) < len(board)
    marks = points(page, "leakage")
    assert {point["row"] for point in marks} == set(board)
    for point in marks:
        assert (point["x"], point["y"]) == pytest.approx(means[point["row"]], rel=1e-5)
        y = values[point["row"]][1]
        assert point["bar"] == pytest.approx([y.value - max(y.low, 1), y.high - y.value], rel=1e-3)
        dominated = point["row"] not in best
        assert point["meta"] == ("dominated" if dominated else "points")
        assert point["symbol"].endswith("-open") == dominated
        assert (point["opacity"] < 1) == dominated
        assert ("learned nothing" in point["hover"]) == (point["row"] in idle)
        assert ("dominated" in point["hover"]) == (dominated and point["row"] not in idle)
    front = page.evaluate(
        "(() => { const [t] = document.getElementById('plot-leakage').data"
        ".filter((t) => t.meta === 'front'); return t.x.map((x, at) => [x, t.y[at]]); })()"
    )
    assert front == sorted(front)
    expected = sorted(means[name] for name in best)
    assert [pytest.approx(place, rel=1e-5) for place in expected] == front

    proven = {
        name: min(g.epsilon for g in row.guarantees if (g.kind, g.unit) == ("proven", "user"))
        for name, row in board.items()
    }
    places = {point["row"]: point["x"] for point in points(page, "budget")}
    finite = {name: epsilon for name, epsilon in proven.items() if epsilon < np.inf}
    assert places.keys() == proven.keys()
    assert {name: places[name] for name in finite} == pytest.approx(finite, rel=1e-5)
    (noiseless,) = proven.keys() - finite.keys()
    ticks = layout(page, "budget", "xaxis")
    assert dict(zip(ticks["ticktext"], ticks["tickvals"], strict=True))[
        "<b>∞</b>"
    ] == pytest.approx(places[noiseless])
    shapes = layout(page, "budget", "shapes")
    (line,) = [shape for shape in shapes if shape.get("name") != "floor"]
    assert len(shapes) == 3  # the infinite line, a floor, and a baseline
    assert max(finite.values()) < line["x0"] < places[noiseless]

    curves = [point for point in points(page, "spread") if point["meta"] == "curve"]
    expected_points = [
        (name, at.spread, at.epsilon)
        for name, row in board.items()
        for g in row.guarantees
        for at in g.curve
    ]
    assert len(curves) == len(expected_points) > 100
    got = {(point["row"], round(point["x"])): point["y"] for point in curves}
    assert all(
        got[name, spread] == pytest.approx(epsilon, rel=1e-5)
        for name, spread, epsilon in expected_points
        if spread > 0 and epsilon < np.inf
    )
    above = {got[name, spread] for name, spread, epsilon in expected_points if epsilon == np.inf}
    (infinity,) = above
    assert infinity > max(epsilon for *_, epsilon in expected_points if epsilon < np.inf)
    # A mechanism that promises nothing for everybody's entity has a curve too.
    assert any(g.curve and g.notion == "none" for row in board.values() for g in row.guarantees)


def test_a_click_opens_the_run_and_hovering_names_it(site, visit):
    page = drawn(visit(site / "table.html", EMBEDDED))
    page.locator("#plot-budget").scroll_into_view_if_needed()
    x, y, identifier = page.evaluate(
        """(() => {
          const chart = document.getElementById("plot-budget");
          const trace = chart.data.find((one) => one.name === "uedp" && one.customdata);
          const box = chart.getBoundingClientRect();
          const { xaxis, yaxis } = chart._fullLayout;
          return [box.left + xaxis._offset + xaxis.d2p(trace.x[0]),
            box.top + yaxis._offset + yaxis.d2p(trace.y[0]), trace.customdata[0]];
        })()"""
    )
    page.mouse.move(x, y)
    page.wait_for_selector("#plot-budget .hoverlayer .hovertext")
    text = page.locator("#plot-budget .hoverlayer").text_content()
    row = next(row for row in largest_board("embedded") if row.group == identifier)
    assert "uedp" in text
    assert f"n = {len(row.seeds)} seeds" in text
    assert "proven ε" in text
    page.mouse.click(x, y)
    page.wait_for_url(f"**/runs/{row.runs[0].id}.html")


def test_the_view_follows_the_filters_and_draws_once_per_change(site, visit):
    page = drawn(visit(site / "table.html", "view=compare&task=next-word&source=embedded"))
    assert points(page, "budget") == []  # out of sight, nothing is drawn
    page.evaluate(
        "(() => { const react = Plotly.react; window.draws = [];"
        " Plotly.react = (chart, ...rest) => { draws.push(chart.id);"
        " return react(chart, ...rest); }; })()"
    )

    def draws(change: str) -> list[str]:
        page.evaluate(f"draws.length = 0; {change}")
        drawn(page)
        identifiers: list[str] = page.evaluate("draws")
        return identifiers

    everything = [f"plot-{name}" for name in CARDS]
    assert draws('uedp.set({view: "plots"})') == everything
    colours = {point["row"]: (point["colour"], point["symbol"]) for point in points(page, "budget")}
    assert draws('uedp.set({q: "uedp-group"}); uedp.set({q: "uedp-group epsilon=8"})') == everything
    left = points(page, "cost")
    assert len(left) == 4
    assert all(colours[point["row"]] == (point["colour"], point["symbol"]) for point in left)
    assert draws('uedp.set({sort: "cost.train_seconds:asc"})') == []
    assert draws('uedp.set({plotcost: "cost.peak_memory_mb"})') == ["plot-cost"]
    assert draws('uedp.set({view: "table"})') == []
    assert draws('uedp.set({view: "plots"})') == []
    assert draws('uedp.set({q: "no such row"})') == []
    assert page.locator("#plots-status").inner_text() == (
        "No row passes the filters: clear one of them."
    )
    assert not page.locator(".plot-grid").is_visible()


def test_links_restore_choices_and_choices_make_links(site, visit):
    link = (
        f"{EMBEDDED}&plotutility=utility.accuracy_with_unknown&plotcost=cost.peak_memory_mb"
        "&plotleakage=secret-sharer.extracted_beam_search"
        "&plotunit=user-entity:dp:add-or-remove&plotkind=claimed"
    )
    page = drawn(visit(site / "table.html", link))
    heading = page.locator("#view-plots h2").inner_text()
    assert "next-word on embedded" in heading
    titles = {
        name: [layout(page, name, f"{axis}axis.title.text").replace("<br>", " ") for axis in "xy"]
        for name in CARDS[:4]
    }
    epsilon = "claimed ε for user-entity, add-or-remove (lower is better)"
    accuracy = "accuracy with unknown % (higher is better)"
    assert titles["budget"] == [epsilon, accuracy]
    assert "extracted, beam search %" in titles["leakage"][0]
    assert "peak" in titles["cost"][0]
    assert {point["row"] for point in points(page, "budget")} <= {
        row.group for row in largest_board("embedded")
    }
    # One row claims something for this unit; noiseless claims nothing and proves nothing.
    assert len(points(page, "budget")) == 2
    assert page.locator("#plot-spread").is_hidden()
    assert "No row here has a claimed curve" in page.locator(".plot-missing-spread").inner_text()
    assert "Choose proven ε above." in page.locator(".plot-missing-spread").inner_text()

    page.select_option("#plotkind", "proven")
    drawn(page)
    assert "plotkind=proven" in page.url
    assert len(points(page, "budget")) > 20
    sets = page.locator("#plotset option")
    assert sets.count() > 1
    other = sets.filter(has_text="(6 rows)").get_attribute("value")
    page.select_option("#plotset", other)
    drawn(page)
    assert page.locator("#view-plots h2").inner_text() != heading
    assert len(points(page, "cost")) == 6
    assert other in page.url


def test_notions_of_privacy_share_no_axis_and_one_seed_is_marked(site, visit):
    page = drawn(visit(site / "table.html", "view=plots&source=imdb"))
    board = {row.group: row for row in largest_board("imdb")}
    assert page.input_value("#plotunit") == "sentence:dp:replace-one"
    metric = {name for name, row in board.items() if "metric-dp" in row.label}
    assert metric
    assert {point["row"] for point in points(page, "budget")} == board.keys() - metric
    assert "Not drawn: 1 row without a proven ε" in page.locator(".plot-card-budget").inner_text()
    assert "no attack ran" in page.locator(".plot-missing-leakage").inner_text()
    page.select_option("#plotunit", "word:metric-dp:replace-one")
    drawn(page)
    assert "metric-dp" in layout(page, "budget", "xaxis.title.text")
    shown = {point["row"] for point in points(page, "budget")}
    assert shown == metric | {name for name, row in board.items() if row.label == "noiseless"}

    page.evaluate('uedp.set({source: "opinion-lexicon", plotunit: ""})')
    drawn(page)
    marks = points(page, "leakage")
    assert len(marks) == len(largest_board("opinion-lexicon"))
    assert all(point["symbol"].endswith("-dot") and "n = 1" in point["hover"] for point in marks)
    names = page.evaluate(
        "document.getElementById('plot-leakage').data.filter((t) => t.meta === 'legend')"
        ".map((t) => t.name)"
    )
    assert "dot: one seed, no interval" in names
    assert {"metric-dp", "vickrey"} <= set(names)

    page.evaluate('uedp.set({source: "embedded", task: "next-word", mechanism: "noiseless"})')
    drawn(page)
    text = page.locator(".plot-missing-budget").inner_text()
    assert "No row here has a finite ε." in text
    assert "the filters hide" in text
    assert page.locator("#plot-budget").is_hidden()


# -------------------------------------------------------------------------------- access and themes


def luminance(colour: str) -> float:
    levels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_both_themes_are_accessible_and_tables_say_what_charts_show(site, visit, accessible):
    page = drawn(visit(site / "table.html", f"{EMBEDDED}&q=uedp-group", color_scheme="dark"))
    board = [row for row in largest_board("embedded") if row.label == "uedp-group"]
    page.click(".plot-card-leakage summary")
    papers = []
    for rules in ((), ("color-contrast",)):
        drawn(page)
        accessible(page, *rules)
        paper, *series = page.evaluate(
            "['paper', ...[1, 2, 3, 4, 5, 6, 7, 8].map((at) => `series-${at}`)].map((name) =>"
            " getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())"
        )
        papers.append(layout(page, "budget", "paper_bgcolor"))
        assert papers[-1] == paper
        assert min(contrast(colour, paper) for colour in series) >= 3
        dimmed = [mixed(colour, paper, 0.75) for colour in series]
        assert min(contrast(colour, paper) for colour in dimmed) >= 3
        page.click("#theme")
    assert papers[0] != papers[1]
    chart = page.locator("#plot-leakage")
    assert chart.get_attribute("role") == "img"
    assert chart.get_attribute("aria-label").startswith("Utility against leakage. Scatter plot of")
    lines = page.locator(".plot-card-leakage tbody tr")
    assert lines.count() == len(board) > 5
    hrefs = {link.get_attribute("href") for link in lines.locator("a").all()}
    assert hrefs == {f"runs/{row.runs[0].id}.html" for row in board}
    assert lines.filter(has_text="on it").count() == len(
        {point["row"] for point in points(page, "leakage") if point["meta"] == "points"}
    )


def mixed(colour: str, paper: str, opacity: float) -> str:
    levels = [
        round(opacity * int(colour[at : at + 2], 16) + (1 - opacity) * int(paper[at : at + 2], 16))
        for at in (1, 3, 5)
    ]
    return "#" + "".join(f"{level:02x}" for level in levels)


def test_phones_scroll_down_only(site, visit):
    # The set of the longest titles.
    link = "view=plots&source=dpnlp-ag"
    page = drawn(visit(site / "table.html", link, viewport={"width": 390, "height": 844}))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = [page.locator(f".plot-card-{name}").bounding_box() for name in CARDS[:4]]
    assert len({box["x"] for box in boxes}) == 1
    assert all(above["y"] < below["y"] for above, below in pairwise(boxes))
    legend = page.locator("#plot-budget .legend").bounding_box()
    title = page.locator("#plot-budget .xtitle").bounding_box()
    assert legend["y"] >= title["y"] + title["height"] - 1
    for text in page.locator("#plot-promise .xtitle, #plot-promise .ytitle").all():
        inner, outer = text.bounding_box(), page.locator("#plot-promise").bounding_box()
        assert inner["x"] >= outer["x"]
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
        assert inner["y"] >= outer["y"]
    assert layout(page, "budget", "dragmode") is False  # a finger scrolls the page


def test_pictures_can_be_saved(site, visit):
    page = drawn(visit(site / "table.html", EMBEDDED))
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            page.click(f'button[aria-label="Save Utility against leakage as {kind}"]')
        assert download.value.suggested_filename == (
            f"uedp-bench-utility-against-leakage.{kind.lower()}"
        )
        content = Path(download.value.path()).read_bytes()
        assert content.startswith(start)
        if kind == "SVG":
            assert "next-word on embedded" in content.decode()


def test_five_hundred_rows_stay_quick(site, visit):
    page = drawn(visit(site / "table.html", EMBEDDED))
    pace = browser_pace(page)
    milliseconds = page.evaluate(
        """async () => {
          const mine = uedp.shown().filter((row) => row.set === uedp.shown().at(-1).set);
          for (let at = 0; mine.length + at < 560; at += 1) {
            const row = { ...mine[at % mine.length], id: `copy${at}` };
            uedp.rows.push(row);
            uedp.rowOf.set(row.id, row);
          }
          const start = performance.now();
          uedp.set({ plotset: uedp.sets[mine[0].set].id });
          await new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)));
          return performance.now() - start;
        }"""
    )
    assert len(points(page, "leakage")) > 400
    assert milliseconds / max(pace, browser_pace(page)) < 6000
