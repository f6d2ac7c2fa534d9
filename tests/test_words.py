"""Names say what a thing is; docstrings, descriptions and help texts are plain sentences."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("uedp_bench", "mechanisms", "attacks", "tasks", "leaderboard", "benchmarks", "docs")
CLIPPED = re.compile(r"\s*(?:whether|says whether|what of|of) \w", re.IGNORECASE)
"""Begins with a fragment."""

ROOMS = ("uedp_bench", "mechanisms", "attacks", "tasks", "leaderboard")
"""Folders whose docstring heads are checked."""

NAMED = (*FOLDERS, "tests")
"""Folders whose names are checked."""

NO_NAMES = frozenset({
    "found", "said", "told", "asked", "given", "made", "known", "there", "here", "now", "how",
    "those",
})  # fmt: skip
"""Participles, adverbs and pronouns, which leave out the noun."""

NO_FUNCTIONS = NO_NAMES | {"of", "at", "gathered"}

QUESTION = re.compile(r"(?:What|Who|Where|How|Whether|Those|The same|When|Which|Whose|One that)\b")
"""Head of a docstring that begins neither with a verb nor with the noun."""

ENTRY = re.compile(r"^\s+[\w, ]+: (?:whether|of every|what of)\b|\) whether\b", re.MULTILINE)
"""An attribute or argument, or an array, that is described by a fragment."""


def files(folders: tuple[str, ...] = FOLDERS) -> Iterator[Path]:
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if not any(part.is_symlink() for part in file.parents):
                yield file


@lru_cache(maxsize=1)
def by_kind(tree: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    """All nodes of a tree by their kinds: several checks look at few of them."""
    kinds = defaultdict(list)
    for node in ast.walk(tree):
        kinds[type(node)].append(node)
    return kinds


def nodes(tree: ast.AST, *kinds: type[ast.AST]) -> Iterator[Any]:
    """Nodes of these kinds."""
    return chain.from_iterable(by_kind(tree)[kind] for kind in kinds)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings, also those below attributes, and `description` and `help` of parameters."""
    for node in nodes(tree, ast.keyword, ast.Expr):
        value = node.value
        if isinstance(node, ast.keyword) and node.arg not in ("description", "help"):
            continue
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


def clipped(tree: ast.AST) -> list[tuple[int, str]]:
    """Lines and beginnings of texts that begin with a fragment."""
    return [
        (line, text.strip().splitlines()[0])
        for line, text in texts(tree)
        if CLIPPED.match(text) or ENTRY.search(text)
    ]


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
    assert clipped(ast.parse(f'def f():\n    """{text}"""\n'))
    assert clipped(ast.parse(f"x = Field(description={text!r})\n"))


def test_a_sentence_is_not():
    code = 'def f():\n    """True if nothing of it is left; says who asked, too."""\n'
    assert not clipped(ast.parse(code))


def nameless(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and names of variables, arguments, attributes and functions without a noun.

    Fields of classes are left out: parameters and results are stored by their names.
    """
    classes = nodes(tree, ast.ClassDef)
    fields = {
        part.target for one in classes for part in one.body if isinstance(part, ast.AnnAssign)
    }
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.Name, ast.Attribute)
    for node in nodes(tree, *named):
        if node in fields:
            continue
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                refused = NO_FUNCTIONS
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                refused = NO_NAMES
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                refused = NO_NAMES
            case _:
                continue
        if name.strip("_") in refused:
            yield node.lineno, name


def questions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and heads of docstrings, also those below attributes, that begin as questions do."""
    for node in nodes(tree, ast.Expr):
        text = node.value.value if isinstance(node.value, ast.Constant) else None
        if isinstance(text, str) and QUESTION.match(text):
            yield node.lineno, text.splitlines()[0]


CHECKS: dict[Callable[[ast.AST], Iterable[tuple[int, str]]], tuple[str, tuple[str, ...]]] = {
    clipped: ("say 'True if ...', or begin with the subject", FOLDERS),
    nameless: ("name what the thing is", NAMED),
    questions: ("begin with a verb or the noun", ROOMS),
}


def test_names_have_a_noun_and_texts_their_subject():
    wrong = []
    for file in files(NAMED):
        place, tree = file.relative_to(ROOT), ast.parse(file.read_text())
        for check, (advice, folders) in CHECKS.items():
            if place.parts[0] in folders:
                wrong += [f"{place}:{line}: {text}: {advice}" for line, text in check(tree)]
        if file.stem.strip("_") in NO_FUNCTIONS:
            wrong.append(f"{place}: name what the thing is")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "self._told = 1",
        "def f(*, how): ...",
        "def at(): ...",
        "[now for now in ()]",
    ],
)
def test_a_name_without_a_noun_is_refused(code):
    assert list(nameless(ast.parse(code)))


def test_a_question_as_docstring_head_is_refused():
    assert list(questions(ast.parse('"""What is kept."""')))
    assert not list(questions(ast.parse('x = 1\n"""Whatever is kept."""')))
