"""Whatever a result says is text: it runs nothing, asks for nothing, and breaks no page's width."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from references import bundle_lines

from uedp_bench.contracts.results import Result, migrated
from uedp_bench.leaderboard.site import build

RUN = "window.hacked=1"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f'"><img src=x onerror="{RUN}">',
    f"'><svg onload='{RUN}'>",
    f"</script><script>{RUN}</script>",
    f"<!--<script>{RUN}</script>-->",
    f"</textarea></title></style><iframe srcdoc='<script>parent.hacked=1</script>'>",  # noqa: F541
    f"javascript:{RUN}//",
    f"<a href='javascript:{RUN}'>link</a><b>bold</b><br>",
    f"{{{{ 7*7 }}}}{{% raw %}}${{{RUN}}}`+{RUN}+`",
    "%{x}<extra></extra> $\\alpha$ &lt;i&gt; &amp;amp; &#0; \\u0000 \\x00 %00",
    "\u202egnp.exe\u2066 \u200bzero\ufeff",
    "line\u2028paragraph\u2029end",
    "=cmd|' /C calc'!A0, \"quoted\"; semi\\",
    "👩\u200d🔬🏴\u200d☠️ é\u0301\u0301\u0301\u0301 ﷽",
    "#view=plots&task=x,y?z=%26",
    "__proto__",
    "constructor",
    "W" * 10_000,
)
"""Shown as they are."""

KEPT = {"id", "group", "schema_version", "status", "unit", "adjacency", "kind", "notion",
        "noise_source", "epsilon", "value", "low", "high", "metrics"}  # fmt: skip
"""Fields whose values only a few words, or numbers, can be. `metrics` is declarations, which have
hostile tests of their own (test_declared_metrics.py)."""


class Twist:
    """Puts payloads into every text, each of them in turn, and into keys where these are free."""

    def __init__(self, *payloads: str) -> None:
        self._turn = itertools.cycle(payloads)

    def __call__(self, value: Any, *, keys: bool = False) -> Any:
        if isinstance(value, str):
            return f"{value} {next(self._turn)}"
        if isinstance(value, list):
            return [self(part, keys=keys) for part in value]
        if isinstance(value, dict):
            return {
                self(key) if keys else key: part
                if key in KEPT
                else self(part, keys=keys or key == "params")
                for key, part in value.items()
            }
        return value


def hostile(
    base: dict[str, Any], at: int, seed: int, *payloads: str, name: str = "", alone: bool = True
) -> Result:
    """A finished result that has payloads everywhere.

    Args:
        base: a true result.
        at: tells rows apart, by their numbers too.
        seed: of the run.
        payloads: what takes turns; the first one names the mechanism, and metrics.
        name: the id, where no other is wanted.
        alone: task, source, model and headline have payloads as well.
    """
    twist, first = Twist(*payloads), payloads[0]
    copy = twist(base)
    if not alone:
        copy["spec"] |= {part: base["spec"][part] for part in ("task", "source", "model")}
        copy["headline"] = base["headline"]  # rows of one board share it
    copy["provenance"] |= {part: base["provenance"][part] for part in ("corpus", "vocabulary")}
    copy["spec"]["seed"] = seed
    copy["spec"]["mechanism"][0]["name"] = f"mine {first}"
    # Apart from each other on plots, where only the nearest point is hovered.
    perplexity = {"value": 50.0 + at + seed / 8, "low": 40.0, "high": 200.0}
    number = {"value": 0.5, "low": 0.4, "high": 0.99}
    # Names that the code knows, with what it expects, and names that it has never seen.
    copy["utility"] = base["utility"] | {"perplexity": perplexity, first: number}
    copy["leakage"] = base["leakage"] | {one: {one: number, "2": number} for one in payloads}
    copy["details"] |= {first: twist(base["details"]["membership"], keys=True)}
    copy["skipped_attacks"] = [{"name": one, "reason": one} for one in payloads]
    for kind, value in (("series", [[1, 2.0], [2, 1.0]]), ("diagnostics", 1.0), ("cost", 3.0)):
        copy[kind] |= dict.fromkeys(payloads, value)
    copy["provenance"] |= {one: {one: one} for one in payloads}
    return Result.model_validate(
        migrated(copy | {"id": name or f"h{at}s{seed}", "group": f"h{at}"})
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """A site of a row for every payload, of rows of hostile tasks, and of a failed run."""
    texts = [line.text for line in bundle_lines("quickstart")]
    base = json.loads(next(text for text in texts if '"uedp-group"' in text))
    results = [hostile(base, at, seed, payload, alone=False)
               for at, payload in enumerate(PAYLOADS) for seed in (1, 2)]  # fmt: skip
    results += [hostile(base, 100 + at, 1, payload) for at, payload in enumerate(PAYLOADS)]
    results += [hostile(base, 200, 1, *PAYLOADS, name="mixed0"), hostile(
        base, 201, 1, *PAYLOADS[5:], *PAYLOADS[:5], name="mixed5")]  # fmt: skip
    results.append(hostile(base, 202, 1, PAYLOADS[-1], name="long"))
    error = {part: " ".join(PAYLOADS) for part in ("type", "message", "phase", "traceback")}
    failed = hostile(base, 203, 2, *PAYLOADS, name="failed").model_dump(mode="json")
    failed |= {"status": "failed", "error": error, "utility": {}, "leakage": {}, "details": {}}
    folder = tmp_path_factory.mktemp("hostile")
    build([*results, Result.model_validate(failed)], folder)
    return folder


def missing(page, payloads) -> list[str]:
    """Payloads that are not on the page as they are."""
    text = page.evaluate("document.body.innerText")
    return [payload[:80] for payload in payloads if payload not in text]


def unharmed(page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('img[src=x], iframe, [onerror]').length") == 0
    assert (
        page.evaluate("""[...document.querySelectorAll('a[href], form')]
        .filter(one => /^\\s*javascript:/i.test(one.href || one.action)).length""")
        == 0
    )
    assert page.evaluate("({}).polluted === undefined && Object.keys(Object.prototype).length") == 0
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} px too wide"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_table_shows_names_as_they_are(out, visit, width):
    size = {"width": width, "height": 800}
    page = visit(out / "table.html", "view=table", viewport=size)
    page.wait_for_function("document.querySelector('#view-table').innerText.includes('__proto__')")
    assert missing(page, PAYLOADS) == []
    unharmed(page)
    names = page.locator("#filter-task option").all_text_contents()
    assert all(any(payload in name for name in names) for payload in PAYLOADS)
    page.evaluate("""document.querySelectorAll('#filters details, #view-table details')
        .forEach(one => { one.open = true; })""")
    unharmed(page)


def test_the_front_page_and_the_glossary_show_names_as_they_are(out, visit):
    page = visit(out / "glossary.html", viewport={"width": 390, "height": 800})
    assert missing(page, PAYLOADS) == []
    unharmed(page)
    page.goto((out / "index.html").as_uri())
    page.get_by_label("at a proven ε of").select_option("any")
    assert page.locator(".chosen-set").count() > 0
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    unharmed(page)


def test_a_search_and_a_link_hold_any_text(out, visit):
    page = visit(out / "table.html", "view=table")
    for payload in PAYLOADS[:8]:
        page.locator("#q").fill(payload)
        page.wait_for_function(f"uedp.get('q') === {json.dumps(payload)}")
        assert page.evaluate("uedp.shown().length") > 0
        page.reload()
        assert page.locator("#q").input_value() == payload
        unharmed(page)
    link = (
        "view=<script>&rows=a,__proto__&sort=x:y&columns=__proto__&metric=constructor"
        "&task=<img src=x onerror=window.hacked=1>&plotset=toString"
    )
    page.goto(f"{(out / 'table.html').as_uri()}#{link}")
    page.reload()
    page.wait_for_function("window.uedp && document.readyState === 'complete'")
    unharmed(page)


def test_plots_name_their_points_in_plain_text(out, visit):
    task = "next-word"
    page = visit(out / "table.html", f"view=plots&task={task}")
    page.wait_for_function("document.querySelector('#view-plots .js-plotly-plot .point')")
    unharmed(page)
    # Labels are where Plotly reads markup; it shows one in 50 ms, that of the nearest point.
    labels = page.evaluate("""async () => {
        const plot = document.querySelector('#view-plots .js-plotly-plot');
        const labels = [];
        for (const [curve, trace] of plot._fullData.entries()) {
            if (trace.hoverinfo !== 'skip') {
                Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: 0 }]);
                await new Promise((done) => setTimeout(done, 80));
                labels.push(plot.querySelector('.hoverlayer').textContent);
            }
        }
        return labels.join('\\n');
    }""")
    unharmed(page)
    # Lines of labels are elements, without the spaces between them.
    squeezed = labels.replace(" ", "")
    assert [one for one in PAYLOADS[:10] if one.replace(" ", "") not in squeezed] == []


def test_rows_are_compared_in_plain_text(out, visit):
    rows = ",".join(f"h{at}" for at in range(len(PAYLOADS)))
    for width in (390, 1280):
        size = {"width": width, "height": 800}
        page = visit(out / "table.html", f"view=compare&rows={rows}", viewport=size)
        page.locator("#view-compare table").first.wait_for()
        assert missing(page, PAYLOADS) == []
        unharmed(page)


@pytest.mark.parametrize("name", ["mixed0", "mixed5", "long", "failed"])
def test_pages_of_runs_show_every_text_as_it_is(out, visit, name):
    page = visit(out / "runs" / f"{name}.html", viewport={"width": 600, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    if page.locator("[data-figure]").count():
        page.wait_for_function("window.Plotly && document.readyState === 'complete'")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")  # draws all figures
    page.wait_for_function("[...document.querySelectorAll('[data-figure]')].every((x) => x.data)")
    assert missing(page, PAYLOADS[-1:] if name == "long" else PAYLOADS) == []
    assert page.evaluate("document.querySelectorAll('[data-figure]').length") > 3 * (
        name != "failed"
    )
    unharmed(page)
