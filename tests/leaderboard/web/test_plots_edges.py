"""Plots of odd results: names with markup, zero, infinity, one seed, a refuted claim, a bound."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from plot_pages import drawn, layout, points

from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
from uedp_bench.contracts.results import ComponentSpec, Cost, Estimate, LowerBound, Result, RunSpec
from uedp_bench.leaderboard.site import build

HOSTILE = (
    '<b>b</b><img src=x onerror="window.hacked=1">%{x}'
    "</script><script>window.hacked=1</script>&amp;"
)


def guarantee(kind: str, epsilon: float, **more: object) -> Guarantee:
    return Guarantee.model_validate(
        {
            "kind": kind, "unit": "user-entity", "adjacency": "add-or-remove", "delta": 1e-5,
            "notion": "dp" if epsilon < np.inf else "none", "epsilon": epsilon,
            "accountant": "test",
        } | more
    )  # fmt: skip


def result(name: str, seed: int, utility: float, leakage: float, **more: object) -> Result:
    identifier = re.sub(r"\W", "", name)[:20]
    return Result(
        id=f"{identifier}{seed}", group=identifier, status="finished",
        spec=RunSpec(
            task=ComponentSpec(name="plug-in task"), source=ComponentSpec(name="source"),
            model=ComponentSpec(name="model"), mechanism=(ComponentSpec(name=name),), seed=seed,
        ),
        utility={f"score{HOSTILE}": Estimate(value=utility)},
        leakage={"attack": {f"found{HOSTILE}": Estimate(value=leakage)}},
        cost=Cost(train_seconds=10.0),
        provenance={"corpus": {"fingerprint": "c0ffee00"}, "vocabulary": {"fingerprint": "ab"}},
        **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hostile names, epsilon 0 and ∞, one seed, an audit, a refuted claim."""
    curve = tuple(
        CurvePoint(spread=s, epsilon=e) for s, e in ((0, 1.0), (3, 4.0), (5, 4.0), (9, np.inf))
    )
    audited = guarantee("proven", 4.0, curve=curve, protected=Protected(spread=3))
    refuted = guarantee("claimed", 0.5, status="refuted", reason="by an audit")
    bounds = tuple(
        LowerBound(unit="user-entity", epsilon=epsilon, delta=1e-5, confidence=0.95,
                   method="test", attack="audit", spread=spread)
        for spread, epsilon in ((0, 0.7), (3, 2.5))
    )  # fmt: skip
    results = [
        result(HOSTILE, 1, 3.0, 0.2, guarantees=(audited, refuted), lower_bounds=bounds),
        result("nothing", 1, 9.0, 0.9, guarantees=(guarantee("proven", np.inf),)),
        *(result("constant", n, 1.0 + 0.1 * n, 0.1, guarantees=(guarantee("proven", 0.0),))
          for n in (1, 2)),
        result("wide", 1, 5.0, 0.4, guarantees=(
            guarantee("proven", 80.0, accountant="looser"), guarantee("proven", 60.0),
            guarantee("proven", 7.0, notion="metric-dp"),
        )),
    ]  # fmt: skip
    out = tmp_path_factory.mktemp("small") / "site"
    build(results, out)
    return out


def test_names_are_text_and_edges_are_labelled(small, visit, accessible):
    page = drawn(visit(small / "table.html", "view=plots"))
    for summary in page.locator(".plot-card details summary").all():
        summary.click()
    accessible(page, within="#view-plots")
    legend = page.locator("#plot-budget .legend").text_content()
    assert HOSTILE[:35] in legend
    assert page.locator(".plot-card-budget tbody a").filter(has_text=HOSTILE).count() == 1
    assert HOSTILE in page.locator(".plot-card-budget thead").text_content()
    assert "lower is better" not in layout(page, "budget", "yaxis.title.text")
    title = page.locator("#plot-budget .ytitle").text_content()
    assert re.sub(r"\s", "", HOSTILE)[:60] in re.sub(r"\s", "", title)
    hover = {point["row"]: point["hover"] for point in points(page, "budget")}
    page.evaluate(
        "Plotly.Fx.hover(document.getElementById('plot-budget'),"
        " [{curveNumber: document.getElementById('plot-budget').data"
        ".findIndex((t) => (t.customdata || [''])[0].startsWith('bb')), pointNumber: 0}])"
    )
    text = page.locator("#plot-budget .hoverlayer").text_content()
    assert HOSTILE.replace(" ", "") in re.sub(r"\s", "", text)
    assert "<script" not in "".join(hover.values())
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0

    by = {point["row"]: point for point in points(page, "budget")}
    ticks = layout(page, "budget", "xaxis")
    texts = dict(zip(ticks["ticktext"], ticks["tickvals"], strict=True))
    assert by["constant"]["x"] == texts["<b>0</b>"] < 4
    assert by["nothing"]["x"] == texts["<b>∞</b>"] > 60
    assert by["wide"]["x"] == 60
    assert by["wide"]["symbol"].endswith("-dot")
    assert not by["constant"]["symbol"].endswith("-dot")
    assert "No front" in page.locator(".plot-card-leakage").inner_text()

    marks = [(p["meta"], p["x"], p["y"]) for p in points(page, "spread") if p["meta"] != "curve"]
    curve = [(p["x"], p["y"]) for p in points(page, "spread") if p["meta"] == "curve"]
    zero = curve[0][0]
    assert sorted(marks) == [("bound", zero, 0.7), ("bound", 3, 2.5), ("protected", 3, 4.0)]
    assert curve[:3] == [(zero, 1.0), (3, 4.0), (5, 4.0)]
    assert curve[3][1] > 4.0  # ∞
    line = page.evaluate("document.getElementById('plot-spread').data[0].y")
    assert line[3] is None  # no line leads to infinity

    page.select_option("#plotkind", "claimed")
    drawn(page)
    crosses = page.evaluate(
        "document.getElementById('plot-budget').data.filter((t) => t.meta === 'refuted')"
        ".map((t) => t.x)"
    )
    assert crosses == [[0.5]]
    assert "refuted" in points(page, "budget")[0]["hover"] + points(page, "budget")[-1]["hover"]
