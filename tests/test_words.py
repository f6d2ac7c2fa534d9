"""Docstrings, descriptions and help texts begin with what they are about, in plain sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("uedp_bench", "mechanisms", "attacks", "tasks", "leaderboard", "benchmarks", "docs")
CLIPPED = re.compile(r"\s*(?:whether|says whether|what of|of) \w", re.IGNORECASE)
"""Begins with a fragment."""

ENTRY = re.compile(r"^\s+[\w, ]+: (?:whether|of every|what of)\b|\) whether\b", re.MULTILINE)
"""An attribute or argument, or an array, that is described by a fragment."""


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if not any(part.is_symlink() for part in file.parents):
                yield file


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings, also those below attributes, and `description` and `help` of parameters."""
    for node in ast.walk(tree):
        told = isinstance(node, ast.keyword) and node.arg in ("description", "help")
        value = getattr(node, "value", None) if told or isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


def clipped(code: str) -> list[tuple[int, str]]:
    """Lines and beginnings of texts that begin with a fragment."""
    return [
        (line, text.strip().splitlines()[0])
        for line, text in texts(ast.parse(code))
        if CLIPPED.match(text) or ENTRY.search(text)
    ]


def test_texts_begin_with_their_subject():
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in files()
        for line, text in clipped(file.read_text())
    ]
    assert not found, "say 'True if ...', or begin with the subject:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "Whether the encoder is fixed.",
        "Says whether it is to be run.",
        "What of the data is kept.",
        "Of every row, the parameters.",
        "Of a run.",
        "(rows,) whether the row is public.",
        "Does something.\n\n    Args:\n        a, b: whether both are there.\n    ",
    ],
)
def test_a_fragment_is_found(text):
    assert clipped(f'def f():\n    """{text}"""\n')
    assert clipped(f"x = Field(description={text!r})\n")


def test_a_sentence_is_not():
    assert not clipped('def f():\n    """True if nothing of it is left; says who asked, too."""\n')
