"""Names that pages, benchmarks and checks import exist where they are imported from."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.M | re.S)
STATEMENT = re.compile(r"^from (uedp_bench[\w.]*) import (\w+(?:, \w+)*)$", re.M)
FILES = sorted(
    path
    for folder in ("docs", "benchmarks", ".")
    for path in (ROOT / folder).glob("*.md" if folder == "." else "**/*")
    if path.suffix in {".md", ".py"}
)


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every import of the package in a page's blocks or a file of code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        trees = [ast.parse(text)]
    else:
        blocks = (textwrap.dedent(match[2]) for match in BLOCK.finditer(text))
        trees = [ast.parse(block) for block in blocks if "import" in block]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("uedp_bench"):
            yield from ((node.module or "", alias.name) for alias in node.names)


def missing(pairs: Iterator[tuple[str, str]]) -> list[str]:
    def is_importable(module: str, name: str) -> bool:
        owner = importlib.import_module(module)
        if hasattr(owner, name):
            return True
        return hasattr(owner, "__path__") and bool(importlib.util.find_spec(f"{module}.{name}"))

    return [f"{module}: {name}" for module, name in pairs if not is_importable(module, name)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_or_a_benchmark_imports_is_there(path):
    assert missing(imported(path)) == []


def test_what_the_checks_of_a_change_import_is_there():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    imports = [
        (module, name) for module, names in STATEMENT.findall(text) for name in names.split(", ")
    ]
    assert imports
    assert missing(iter(imports)) == []
