"""Notebooks are stored without outputs, and their code asks for public names alone.

What they do when they run is tested by running them (.ci/run).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import math
from pathlib import Path

import nbformat
import pytest
from tiny import plugged

import uedp_bench as ub
from uedp_bench import api
from uedp_bench.cli.main import run_cli
from uedp_bench.components import registry
from uedp_bench.python_api.running import EXECUTION, FIELDS

FOLDER = Path(__file__).parents[2] / "notebooks"
FILES = sorted(FOLDER.glob("*.ipynb"))


def read(file: Path) -> list[tuple[str, str]]:
    """Magic command and Python of every cell of code."""
    cells = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            text = "".join(cell["source"])
            magic, _, rest = text.partition("\n") if text.startswith("%") else ("", "", text)
            cells.append((magic, rest))
    return cells


def code(file: Path) -> ast.Module:
    """All of its Python, files that it writes among it."""
    return ast.parse("\n".join(text for _, text in read(file)), str(file))


def test_there_are_notebooks() -> None:
    assert [file.stem for file in FILES] == ["first_table", "own_mechanism"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_they_are_valid_and_hold_no_output(file: Path) -> None:
    book = nbformat.read(file, as_version=nbformat.NO_CONVERT)
    nbformat.validate(book)
    assert set(book.metadata) == {"kernelspec", "language_info"}
    assert set(book.metadata.kernelspec.values()) == {"Python 3", "python", "python3"}
    for cell in book.cells:
        assert not cell.metadata
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_imports_are_public(file: Path) -> None:
    for node in ast.walk(code(file)):
        names = [alias.name for alias in getattr(node, "names", ())]
        if isinstance(node, ast.Import):
            assert not [name for name in names if name.startswith("uedp_bench.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("uedp_bench"):
            assert str(node.module).startswith(api.__name__)
            assert set(names) <= set(importlib.import_module(str(node.module)).__all__)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_calls_have_the_arguments_that_there_are(file: Path) -> None:
    names = {node.attr for node in ast.walk(code(file))
             if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ub"}  # fmt: skip
    assert names and names <= set(ub.__all__)
    tree = ast.walk(code(file))
    calls = [node for node in tree if isinstance(node, ast.Call)]
    for node in calls:
        if ast.unparse(node.func).startswith("ub."):
            name = ast.unparse(node.func).removeprefix("ub.")
            keywords = {word.arg: None for word in node.keywords if word.arg}
            bound = inspect.signature(getattr(ub, name)).bind(*[None] * len(node.args), **keywords)
            if name == "run":
                assert set(bound.arguments["keywords"]) <= {*FIELDS, *EXECUTION}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_commands_are_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for magic, _ in read(file):
        if magic.startswith("%run -m uedp_bench "):
            assert run_cli([magic.split()[3], "--help"]) == 0
        else:
            assert magic == "" or magic.startswith("%%writefile ")


def test_the_mechanism_of_the_notebook_keeps_its_epsilon(tmp_path: Path) -> None:
    """Randomised response: the odds of two words are e^epsilon, and no more."""
    ((_, text),) = [
        c for c in read(FOLDER / "own_mechanism.ipynb") if c[0].startswith("%%writefile")
    ]
    (tmp_path / "random_words.py").write_text(text, encoding="utf-8")
    with plugged(tmp_path / "random_words.py"):
        for epsilon, count in [(0.1, 2), (4.0, 400), (10.0, 7)]:
            mechanism = registry.mechanisms.create("random-words", {"epsilon": epsilon})
            stays = mechanism.stays(count)
            other, unknown = (1.0 - stays) / count, 1.0 / count
            itself = stays + other
            assert itself / other == pytest.approx(math.exp(epsilon))
            assert max(itself / unknown, unknown / other) <= math.exp(epsilon)
            (stated,) = ub.account("random-words", epsilon=epsilon)
            assert (stated.kind, stated.unit, stated.epsilon) == ("stated", "word", epsilon)

            class Draws:
                def __init__(self, uniform):
                    self.uniform = uniform

                def random(self):
                    return self.uniform

                def integers(self, most):
                    return most - 1

            words = [str(at) for at in range(count)]
            assert mechanism.response("0", words, Draws(stays * 0.999)) == "0"
            assert mechanism.response("0", words, Draws(stays)) == words[-1]
            assert mechanism.response("private", words, Draws(0.0)) == words[-1]
