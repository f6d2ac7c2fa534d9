"""Comparison: tests over seeds that agree with SciPy's, and a view that says what it shows."""

from __future__ import annotations

import csv
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from board_results import plain_spec
from scipy import stats

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import Estimate, Result, RunError
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.site import build

REFERENCE = Path(__file__).parents[3] / "leaderboard" / "results"
HOSTILE = '<b>x</b> <img src=x onerror="window.hacked=1">&amp;<script>window.hacked=1</script>'
FORMULA = " \uff1dHYPERLINK(evil)"


# ------------------------------------------------------------------------------------- statistics


def holm(values: list[float]) -> list[float]:
    """Written from the definition: the largest of (m - j + 1) p_(j) over all j up to the rank."""
    ordered = sorted(values)
    bounds = [min(1.0, (len(values) - j) * p) for j, p in enumerate(ordered)]
    return [max(bounds[: ordered.index(p) + 1]) for p in values]


def pairs(values, reference):
    return [{"value": v, "reference": r} for v, r in zip(values, reference, strict=True)]


def cases():
    """Two, three and more seeds; no effect, negative ones, and some of thousands of deviations."""
    rng = np.random.default_rng(7)
    for n in (2, 3, 4, 5, 8, 15, 30, 100):
        for effect in (0.0, -0.1, 0.5, -3.0, 40.0, -2000.0):
            for scale in (1e-3, 1.0, 300.0):
                reference = rng.normal(0, scale, n)
                yield reference + rng.normal(effect, 1, n) * scale, reference


@pytest.fixture
def page(strange, visit):
    return visit(strange / "table.html", "view=compare")


def test_paired_tests_agree_with_scipy(page):
    inputs = list(cases())
    tests = page.evaluate(
        "cases => cases.map(uedp.significance.pairedTest)", [pairs(*case) for case in inputs]
    )
    for (values, reference), test in zip(inputs, tests, strict=True):
        oracle = stats.ttest_rel(values, reference)
        low, high = oracle.confidence_interval(0.95)
        assert test["reason"] == ""
        assert test["n"] == len(values)
        assert test["difference"] == pytest.approx(np.mean(values - reference), rel=1e-9)
        assert test["t"] == pytest.approx(oracle.statistic, rel=1e-9)
        # jStat's incomplete beta function stops at 3e-7.
        assert test["p"] == pytest.approx(oracle.pvalue, rel=5e-7, abs=0)
        half = (high - low) / 2
        assert test["low"] == pytest.approx(low, rel=0, abs=2e-7 * half)
        assert test["high"] == pytest.approx(high, rel=0, abs=2e-7 * half)
    ps = [test["p"] for test in tests]
    assert min(ps) < 1e-100  # tiny p are kept, not rounded to 0
    assert min(test["t"] for test in tests) < -1000
    assert page.evaluate("uedp.significance.resolution(3)") == pytest.approx(
        stats.t.ppf(0.975, 2) / math.sqrt(3), rel=1e-7
    )


def test_noise_differs_as_often_as_the_level_says(page):
    rng = np.random.default_rng(9)
    trials, n = 2000, 3
    # Pairs share most of their noise, as runs of one seed do.
    shared = rng.normal(50, 5, (trials, n))
    pairs_of_trials = [
        pairs(list(row + a), list(row + b))
        for row, a, b in zip(shared, *rng.normal(0, 1, (2, trials, n)), strict=True)
    ]
    ps = page.evaluate(
        "trials => trials.map(t => uedp.significance.pairedTest(t).p)", pairs_of_trials
    )
    # Four standard deviations of the binomial share.
    assert np.mean(np.array(ps) < 0.05) == pytest.approx(0.05, abs=4 * 0.0049)
    assert stats.kstest(ps, "uniform").pvalue > 0.001


UNTESTABLE = [
    ([], [], "no test: no seed in common"),
    ([1.5], [1.0], "no test: n = 1"),
    ([1.5, 2.5, 3.5], [1.0, 2.0, 3.0], "all differences equal (n = 3)"),
    ([0.3, 0.2], [0.2, 0.1], "all differences equal (n = 2)"),
    ([0, 0], [0, 0], "all differences equal (n = 2)"),
    # Both are a third: only the page's six digits tell them apart.
    ([0.666667, 0.333333], [0.333333, 0], "all differences equal (n = 2)"),
    ([math.inf, 2.0, 3.0], [1.0, 2.0, 3.5], "no test: infinite values"),
    ([math.inf, math.inf], [math.inf, math.inf], "no test: infinite values"),
    ([1, 2, 3], [2, 4, 6.1], "no difference seen (p = 0.079, n = 3)"),
    ([10, 11, 12.1], [2, 3, 4], "differs (p < 0.0001, n = 3)"),
]


def test_what_a_test_says_and_holm_corrects(page):
    rng = np.random.default_rng(8)
    families = [list(rng.uniform(0, 1, n) ** 3) for n in (1, 2, 3, 5, 8, 40)]
    families += [[0.04, 0.04, 0.04], [0.01, 0.04, 0.03], [1.0, 0.0], []]
    corrections = page.evaluate("families => families.map(uedp.significance.holm)", families)
    for family, corrected in zip(families, corrections, strict=True):
        assert corrected == pytest.approx(holm(family), rel=1e-12)
    # Holm 1979's procedure on a family whose answer is easily done by hand.
    assert corrections[7] == pytest.approx([0.03, 0.06, 0.06])

    verdicts = page.evaluate(
        """cases => cases.map((pairs) => {
          const test = uedp.significance.pairedTest(pairs);
          test.corrected = test.p;
          return uedp.significance.verdict(test, { better: null }).text;
        })""",
        [pairs(values, reference) for values, reference, _ in UNTESTABLE],
    )
    assert verdicts == [text for *_, text in UNTESTABLE]
    # Rounded p stays on its side of 5 %.
    p_values = [0.04999, 0.0496, 0.05, 0.05001, 0.0123, 0.4, 1, 0.0001, 0.00009, 0]
    assert page.evaluate("ps => ps.map(uedp.significance.pText)", p_values) == [
        "p = 0.04999", "p = 0.0496", "p = 0.05", "p = 0.05001", "p = 0.012", "p = 0.4", "p = 1",
        "p = 0.0001", "p < 0.0001", "p < 0.0001",
    ]  # fmt: skip


# ---------------------------------------------------------------------------- the reference results


@cache
def runs() -> list[Result]:
    return load_results([REFERENCE / "quickstart"])


@pytest.fixture(scope="module")
def quickstart():
    """Rows of three seeds each that compare, by mechanism."""
    return {row.label: row for row in aggregate(runs())}


def by_seed(row) -> dict[str, dict[int, float]]:
    """Metrics of a row's runs by seed, with all digits."""
    values: dict[str, dict[int, float]] = {}
    for result in runs():
        if result.group == row.group:
            for kind, metrics in {"utility": result.utility, **result.leakage}.items():
                for name, estimate in metrics.items():
                    values.setdefault(f"{kind}.{name}", {})[result.spec.seed] = estimate.value
    return values


def records(page) -> list[dict[str, str]]:
    """What the download holds."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download as CSV").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def line(page, table: str, label: str) -> list[str]:
    """The cells of a line of a table, by the line's label."""
    lines = page.get_by_role("region", name=table).get_by_role("row")
    head = page.get_by_role("rowheader", name=label, exact=True)
    return [
        " ".join(text.split()) for text in lines.filter(has=head).locator("td").all_inner_texts()
    ]


def test_tests_and_download_agree_with_the_results(site, visit, quickstart):
    reference, *others = (quickstart[name] for name in ("user-dp", "uedp-group", "uedp"))
    link = "view=compare&rows=" + ",".join(row.group for row in (reference, *others))
    page = visit(site / "table.html", link)
    written = {(one["metric"], one["row"]): one for one in records(page)}
    baseline = by_seed(reference)
    tested = 0
    for key in baseline:
        oracles = {
            row.group: stats.ttest_rel([by_seed(row)[key][s] for s in (1, 2, 3)],
                                       [baseline[key][s] for s in (1, 2, 3)])
            for row in others
        }  # fmt: skip
        testable = {
            group: oracle for group, oracle in oracles.items() if np.isfinite(oracle.statistic)
        }
        corrected = dict(
            zip(testable, holm([one.pvalue for one in testable.values()]), strict=True)
        )
        for group, oracle in testable.items():
            one = written[key, group]
            interval = oracle.confidence_interval(0.95)
            assert (one["reference"], one["pairs"]) == (reference.group, "3")
            # The page has six figures of every value.
            assert float(one["t"]) == pytest.approx(oracle.statistic, rel=1e-3, abs=1e-4)
            assert float(one["p"]) == pytest.approx(oracle.pvalue, rel=5e-3)
            assert float(one["p_holm"]) == pytest.approx(corrected[group], rel=5e-3)
            assert float(one["difference_low"]) == pytest.approx(interval.low, rel=1e-3)
            assert ("no difference seen" in one["test"]) == (corrected[group] >= 0.05)
            tested += 1
        for group in oracles.keys() - testable.keys():
            assert written[key, group]["p"] == ""
            assert written[key, group]["test"] == "all differences equal (n = 3)"
    assert tested > 15
    assert written["utility.perplexity", reference.group]["test"] == ""
    assert {one["row"] for one in written.values()} == {row.group for row in (reference, *others)}


def test_the_view_says_what_differs_and_which_way(site, visit, quickstart):
    reference, row = quickstart["user-dp"], quickstart["uedp-group"]
    page = visit(site / "table.html", f"view=compare&rows={reference.group},{row.group}")
    oracle = stats.ttest_rel(
        *([by_seed(one)["utility.perplexity"][s] for s in (1, 2, 3)] for one in (row, reference))
    )
    low, high = oracle.confidence_interval(0.95)
    [cell] = line(page, "Differences", "perplexity")
    numbers, verdict = cell.split("] ")
    numbers_shown = [float(part) for part in numbers.replace("[", "").replace(",", "").split()]
    assert numbers_shown == pytest.approx([(low + high) / 2, low, high], rel=0.01)
    assert verdict.startswith(f"worse differs (p = {oracle.pvalue:.2g}")
    assert line(page, "Differences", "unigram floor") == ["0 all differences equal (n = 3)"]
    text = page.locator("#view-compare").inner_text()
    assert "With n = 3 the power is low" in text
    assert "Holm" not in text  # one row needs no correction
    assert line(page, "Means", "mechanism") == ["user-dp", "uedp-group"]
    assert line(page, "Means", "task") == ["next-word", "next-word"]
    mean = row.utility["perplexity"]
    assert line(page, "Means", "perplexity")[1] == f"{mean.value:.1f} ±{mean.high - mean.value:.1f}"
    proven = line(page, "Means", "proven ε")
    [epsilon] = [one.epsilon for one in reference.guarantees if one.kind == "proven"]
    assert f"{epsilon:.2f} user" in proven[0]
    assert "add-or-remove" in proven[0]
    links = page.get_by_role("region", name="Means").get_by_role("link")
    assert links.count() == 6
    links.first.click()
    page.wait_for_url(f"**/runs/{reference.runs[0].id}.html")


def test_rows_are_picked_with_the_keyboard_and_the_link_restores_them(site, visit, quickstart):
    first, second = quickstart["noiseless"].group, quickstart["uedp"].group
    page = visit(site / "table.html", "view=compare")
    page.get_by_text("Tick rows in the table, or add them here").wait_for()
    field = page.get_by_role("combobox", name="Add a row")
    assert page.locator("#compare-rows option").count() == page.evaluate("uedp.rows.length")
    field.press("Enter")
    assert "first" in page.get_by_role("alert").inner_text()
    field.fill("uedp next-word")
    field.press("Enter")
    assert "pick one of the list" in page.get_by_role("alert").inner_text()
    for group in (first, second, second):
        offered = page.locator("#compare-rows option").evaluate_all("all => all.map(o => o.value)")
        label = {first: "noiseless", second: "uedp"}[group]
        corpus = f"next-word on embedded (corpus {quickstart[label].corpus[:8]})"
        text = next(one for one in offered if one.startswith(f"{label}, ") and corpus in one)
        field.fill(text)
        field.press("Enter")
    assert page.get_by_role("alert").inner_text() == "This row is there already."
    assert page.evaluate("uedp.get('rows')") == f"{first},{second}"
    page.get_by_role("button", name="Make 2 · uedp the reference").press("Enter")
    assert page.evaluate("uedp.get('rows')") == f"{second},{first}"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Rows compared"
    assert "the reference is 1 · uedp" in page.locator("#view-compare [role=status]").inner_text()

    page.get_by_label("Metric").select_option("membership.auc")
    page.reload()
    assert page.get_by_label("Metric").input_value() == "membership.auc"
    assert page.get_by_role("list", name="Rows compared").locator("strong").all_inner_texts() == [
        "1 · uedp", "2 · noiseless",
    ]  # fmt: skip
    proven = line(page, "Means", "proven ε")
    assert "∞ user: no protection" in proven[1]
    page.get_by_role("button", name="Remove 1 · uedp").press("Enter")
    page.get_by_text("Add a second row to test it").wait_for()
    page.get_by_role("button", name="Remove 1 · noiseless").press("Enter")
    page.get_by_text("No row to compare").wait_for()
    assert not page.get_by_role("button", name="Download as CSV").is_visible()


def test_it_is_accessible_and_fits_a_phone(site, visit, accessible, quickstart):
    groups = [row.group for row in quickstart.values()]
    link = f"view=compare&rows={','.join(groups)},gone"
    page = visit(site / "table.html", link, color_scheme="dark",
                 viewport={"width": 390, "height": 844})  # fmt: skip
    page.locator(".compare-chart .main-svg").first.wait_for()
    accessible(page)
    assert not page.locator("#filters").is_visible()  # they have no say here
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    table = page.get_by_role("region", name="Means")
    assert table.evaluate("one => one.scrollWidth > one.clientWidth && one.tabIndex === 0")
    assert "these results have no row “gone”" in page.locator("#view-compare").inner_text()
    # The plot has a point of every run, follows the theme, and is called by what it shows.
    plot = page.get_by_role("img", name=re.compile("^perplexity of .* rows"))
    assert plot.locator(".scatterlayer .point").count() == sum(
        len(row.runs) + 1 for row in quickstart.values()
    )
    colour = "one => getComputedStyle(one.querySelector('.xtitle')).fill"
    before = plot.evaluate(colour)
    page.locator("#theme").click()
    assert plot.evaluate(colour) != before


# --------------------------------------------------------------------------------- strange results


def run(mechanism, seed, perplexity, **more):
    group = more.pop("group", mechanism)
    spec = plain_spec(mechanism, more.pop("source", "s"), seed=seed)
    shared = {"corpus": {"fingerprint": spec.source.name}, "vocabulary": {"fingerprint": "v"}}
    finished = {
        "status": "finished", "provenance": shared,
        "utility": {"perplexity": Estimate(value=perplexity)},
    }  # fmt: skip
    return Result(id=f"{group}{seed}", group=group, spec=spec, **{**finished, **more})


@pytest.fixture(scope="module")
def strange(tmp_path_factory) -> Path:
    """Names that are markup or formulas, one seed, infinities, failures, other corpora."""
    refused = Guarantee(
        kind="proven", unit="user", adjacency="add-or-remove", epsilon=math.inf, delta=1e-5,
        accountant="none", status="refused", reason=HOSTILE,
    )  # fmt: skip
    failure = {"status": "failed", "utility": {}, "provenance": {},
               "error": RunError(type="E", message=HOSTILE, phase="train")}  # fmt: skip
    results = [
        *(run("plain", seed, 50.0 + seed) for seed in (1, 2, 3, 4)),
        *(run(HOSTILE, seed, 60.0 + seed**2, group="hostile", guarantees=(refused,))
          for seed in (2, 3, 4, 5)),
        run(FORMULA, 1, 40.0, group="formula"),
        *(run("endless", seed, math.inf) for seed in (1, 2)),
        run("broken", 1, 0.0, **failure),
        *(run("elsewhere", seed, 30.0 + seed, source="t") for seed in (1, 2)),
    ]  # fmt: skip
    out = tmp_path_factory.mktemp("strange")
    build(results, out)
    return out


def test_strange_rows_are_shown_as_text_and_untested_ones_say_why(strange, visit, accessible):
    rows = "plain,hostile,formula,endless,broken,elsewhere"
    page = visit(strange / "table.html", f"view=compare&rows={rows}")
    page.locator(".compare-chart .main-svg").first.wait_for()
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("#view-compare img, #view-compare script").count() == 0
    assert "2 · <b>x</b>" in page.locator(".compare-chart .yaxislayer-above").text_content()
    text = page.locator("#view-compare").inner_text()
    assert f"2 · {HOSTILE}" in text
    assert f"No run finished: train: {HOSTILE}" in text
    assert "No test of 6 · elsewhere: its utility does not compare with the reference's" in text
    hostile, formula, endless, broken = line(page, "Differences", "perplexity")
    # Seeds 2, 3 and 4 are in both.
    oracle = stats.ttest_rel([64.0, 69.0, 76.0], [52.0, 53.0, 54.0])
    assert hostile.endswith(f"worse differs (p = {oracle.pvalue:.2g}, n = 3)")
    assert formula == "-11 no test: n = 1"
    assert endless == "no test: infinite values"
    assert broken == "no test: not measured"
    means = line(page, "Means", "perplexity")
    assert means.pop(3).startswith("∞")
    assert means == ["52.5 ±2.1", "73.5 ±14.5", "40.0 (n = 1)", "–", "31.5 ±6.4"]
    # Lines join runs of one seed of one corpus.
    joined = page.evaluate(
        "document.querySelector('.compare-chart').data.filter((t) => t.mode === 'lines+markers')"
        ".map((trace) => [trace.name, trace.x])"
    )
    assert ["seed 2", [52, 64]] in joined
    assert ["seed 1", [51, 40]] in joined
    assert ["seed 1", [31]] in joined
    accessible(page, within="#view-compare")
    written = records(page)
    assert {f"'{FORMULA}"} == {one["mechanism"] for one in written if one["row"] == "formula"}
    assert {HOSTILE} == {one["mechanism"] for one in written if one["row"] == "hostile"}
