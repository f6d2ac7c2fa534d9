"""Messages that the pages for authors quote are messages of the package."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from examples import ROOT

PAGES = sorted((ROOT / "docs" / "registry").glob("*.md"))
FOLDERS = ("uedp_bench", "mechanisms", "attacks", "tasks")
PROMISES = re.compile(r"## Promises and checks\n(.*?)\n## ", re.DOTALL)
QUOTED = re.compile(r"`((?:\.\.\. )?[a-z][a-z]+:? [^`=(]*)`")
"""What stands between backquotes and has words is a message; `...` stands for what varies."""


@cache
def texts() -> str:
    """All strings of the package, each with \x00 in place of what is filled in."""
    found = []
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = (getattr(part, "value", "\0") for part in node.values)
                    found.append("".join(p if isinstance(p, str) else "\0" for p in parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return "\n".join(" ".join(text.split()) for text in found)


def quoted(page: str) -> list[str]:
    section = PROMISES.search(page)
    return [] if section is None else [" ".join(m.split()) for m in QUOTED.findall(section[1])]


def is_said(message: str) -> bool:
    pieces = [
        re.escape(piece.strip()) for piece in re.split(r"\.\.\.|\d+", message) if piece.strip()
    ]
    return re.search(r"[^\n]{0,80}?".join(pieces), texts()) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quoted_messages_are_messages(page):
    unsaid = [message for message in quoted(page.read_text()) if not is_said(message)]
    assert not unsaid


def test_messages_are_quoted_and_an_invented_one_is_found():
    assert sum(len(quoted(page.read_text())) for page in PAGES) >= 6
    assert is_said("the network keeps statistics of private inputs")
    assert not is_said("the network keeps statistics of public inputs")
