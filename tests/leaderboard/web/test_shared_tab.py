"""Tests share a tab: it keeps nothing of the test before, and goes on noticing what goes wrong."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

DARK = {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}
STATE = """[localStorage.getItem('seen'), sessionStorage.getItem('seen'), innerWidth,
matchMedia('(prefers-color-scheme: dark)').matches, matchMedia('print').matches]"""


def page_of(folder: Path, script: str = "") -> Path:
    path = folder / "page.html"
    path.write_text(f"<!doctype html><title>page</title><script>{script}</script>")
    return path


@pytest.mark.parametrize("options", [DARK, {}, DARK], ids=["dark", "light", "dark again"])
def test_every_test_finds_it_as_if_it_were_new(tmp_path, visit, options):
    page = visit(page_of(tmp_path), **options)
    assert page.evaluate(STATE) == [None, None, 390 if options else 1280, bool(options), False]
    page.evaluate("localStorage.setItem('seen', 1); sessionStorage.setItem('seen', 1)")
    page.emulate_media(media="print")


@pytest.mark.parametrize(
    ("script", "trouble"),
    [("console.error('no')", "console: no"), ("throw new Error('boom')", "error: boom"),
     ("fetch('http://127.0.0.1:9/x').catch(() => {})", "request: http://127.0.0.1:9/x")],
)  # fmt: skip
def test_what_goes_wrong_is_noticed_every_time(tmp_path, visit, tabs, script, trouble):
    visit(page_of(tmp_path))
    (tab,) = tabs
    tab.page.goto(page_of(tmp_path, script).as_uri())
    deadline = monotonic() + 60
    while trouble not in tab.troubles:
        assert monotonic() < deadline, tab.troubles
        tab.page.wait_for_timeout(50)
    tab.troubles.clear()
