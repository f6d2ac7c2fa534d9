"""Pages open from disk without an error, a request or a serious accessibility issue."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("view", ["table", "plots", "compare"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_index_opens_from_disk(site, visit, accessible, view, scheme):
    page = visit(site / "table.html", f"view={view}&task=next-word", color_scheme=scheme)
    page.wait_for_load_state("load")
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("uedp.rows.length") > 100
    assert page.evaluate("'Plotly' in window") == (view != "table")
    accessible(page)
