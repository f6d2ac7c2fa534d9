"""A page reads the same in the repository, which renders CommonMark, as in the site.

Python-Markdown wants four spaces where a list's item goes on, takes an asterisk in a formula for
emphasis more often, and can drop what stands in braces.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import markdown
import pytest
from examples import ROOT, site
from markdown_it import MarkdownIt

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SEEN = ("ul", "ol", "li", "pre", "blockquote", "table", "em", "strong", "code", "a")


class Flat(HTMLParser):
    """The text of a page without spaces, with the tags that readers see."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.parts += [f"<{tag}>"] if tag in (*SEEN, "td", "th", "h1", "h2", "h3") else []

    def handle_endtag(self, tag: str) -> None:
        self.parts += [f"</{tag}>"] if tag in SEEN else []

    def handle_data(self, data: str) -> None:
        self.parts.append(re.sub(r"\s+", "", data))


def in_repository(text: str) -> str:
    return "".join(Flat(MarkdownIt("commonmark").enable("table").render(text)).parts)


def in_site(text: str) -> str:
    listed = site()["markdown_extensions"]
    names = [name for name in listed if isinstance(name, str)]
    plain = {"pymdownx.highlight": {"use_pygments": False}}
    html = markdown.markdown(text, extensions=names, extension_configs=plain)
    return "".join(Flat(html).parts)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_reads_the_same(page):
    text = page.read_text("utf-8")
    one, other = in_repository(text), in_site(text)
    first = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if first is None:
        assert one == other
    else:
        window = slice(max(0, first - 60), first + 60)
        assert one[window] == other[window], "first the repository, then the site"


def test_a_difference_is_seen():
    text = "* one:\n\n  goes on\n"
    assert in_repository(text) != in_site(text)
