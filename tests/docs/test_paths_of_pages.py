"""Files, folders and modules that pages name exist."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest
from examples import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = ("uedp_bench", "mechanisms", "attacks", "tasks", "leaderboard")
FOLDERS = (*PACKAGES, "benchmarks", "docs", "tests")
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*[\w*/]")
MODULE = re.compile(r"\buedp_bench(?:\.\w+)+")
PLACEHOLDER = re.compile(r"\b(?:NAME|FAMILY)\b")
"""Parts of paths that stand for those of a reader's own component or bundle."""

GROUPS = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"])


def is_missing(path: str, page: Path) -> bool:
    """True if neither the checkout nor the folder of the page has such a path, or a bundle."""
    names = (path, f"{path}.jsonl.gz")
    places = (ROOT, page.parent)
    return not any(any(place.glob(name)) for place in places for name in names)


def is_unknown(name: str) -> bool:
    """True if a dotted name is neither a module, nor what one has, nor a group of entry points."""
    if name in GROUPS:
        return False
    first, *rest = name.split(".")
    owner = importlib.import_module(first)
    for part in rest:
        try:
            owner = (
                getattr(owner, part)
                if hasattr(owner, part)
                else importlib.import_module(f"{owner.__name__}.{part}")
            )
        except ImportError:
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    paths = {path for path in PATH.findall(text) if not PLACEHOLDER.search(path)}
    names = {name for name in MODULE.findall(text) if not (ROOT / name).exists()}
    assert sorted(path for path in paths if is_missing(path, page)) == []
    assert sorted(name for name in names if is_unknown(name)) == []
