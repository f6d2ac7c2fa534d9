"""Every page has one place in the navigation of the site, and every linked anchor exists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from examples import ROOT, site
from pymdownx.slugs import slugify

from uedp_bench.components.registry import REGISTRIES

DOCS = ROOT / "docs"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
PAGES = [*(ROOT / name for name in TOP), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)")
FENCED = re.compile(r"^ *(```+)[^\n]*\n.*?^ *\1 *$", re.M | re.S)
SLUG = slugify(case="lower")


def entries(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from entries(part)


def anchors(text: str) -> set[str]:
    """What GitHub and the site call the headings of a page."""
    anchor_counts: Counter[str] = Counter()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCED.sub("", text), re.M):
        title = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor_counts[SLUG(title, "-")] += 1
    assert max(anchor_counts.values(), default=1) == 1, (
        f"two headings of one name: {anchor_counts.most_common(1)}"
    )
    return set(anchor_counts)


def test_every_page_is_in_the_navigation_once():
    nav = site()["nav"]
    named = Counter(entries(nav))
    kinds = {name.removesuffix("/*") for name in named if name.endswith("/*")}
    assert kinds <= set(REGISTRIES)
    pages = {path.relative_to(DOCS).as_posix() for path in PAGES if path.is_relative_to(DOCS)}
    by_hand = {name for name in pages if name.split("/")[0] not in kinds}
    components = {f"{kind}/{name}.md" for kind in kinds for name in REGISTRIES[kind].names()}
    assert pages - by_hand <= components, "a page of a component that is not registered"
    assert [name for name, times in named.items() if times > 1] == []
    assert by_hand - set(named) == set(), "add these pages to nav in mkdocs.yml"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_that_a_page_links_to_exists(page):
    text = FENCED.sub("", page.read_text("utf-8"))
    broken = []
    for path, anchor in LINK.findall(text):
        target = (page.parent / path).resolve() if path else page
        if target.suffix == ".md" and anchor not in anchors(target.read_text("utf-8")):
            broken.append(f"{path}#{anchor}")
    assert broken == []


def test_an_anchor_is_what_the_site_calls_a_heading():
    assert anchors("# A `b`: c\n\n```sh\n# not this\n```\n## 9 Theorem D, ε\n") == {
        "a-b-c",
        "9-theorem-d-ε",
    }
