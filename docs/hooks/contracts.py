"""Prints contracts on the pages of `docs/registry` as the code has them.

`<!-- contract: NAME ... -->` becomes the public part of these names of `uedp_bench.api` and
the modules in it: signatures and docstrings, without bodies. A terminal shows them, too:

    python docs/hooks/contracts.py Metric loss_pairs
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uedp_bench import api

MARKED = re.compile(r"<!-- contract: ([\w ]+) -->\n")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the contracts of a page."""
    return MARKED.sub(lambda match: printed(match[1].split()), markdown)


def printed(names: list[str]) -> str:
    """The contracts of some public names, as one block of a page."""
    return "```python\n" + "\n\n\n".join("\n".join(contract(name)) for name in names) + "\n```\n"


def contract(name: str) -> Iterator[str]:
    """Lines of the contract of a public name.

    Raises:
        LookupError: if `uedp_bench.api` and its modules lack the name, or its home does not
            define it.
    """
    source = Path(str(importlib.import_module(home(name)).__file__)).read_text(encoding="utf-8")
    lines, body = source.splitlines(), ast.parse(source).body
    for at, node in enumerate(body):
        if name not in defined(node):
            continue
        if isinstance(node, ast.ClassDef):
            yield from of_class(node, lines)
        elif isinstance(node, ast.FunctionDef):
            yield from of_function(node, lines)
        else:
            yield from value(body, at, lines)
        return
    raise LookupError(f"{home(name)} does not define {name}")


def home(name: str) -> str:
    """The module that a public name is defined in."""
    for module in ("", *(f".{part.name}" for part in pkgutil.iter_modules(api.__path__))):
        source = Path(str(importlib.import_module(f"{api.__name__}{module}").__file__)).read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
                return str(node.module)
    raise LookupError(f"no module of uedp_bench.api has {name}")


def defined(node: ast.stmt) -> list[str]:
    """Names that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def of_class(node: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """A class: its head, its docstring, its public attributes and methods."""
    yield from head(node, lines)
    yield from docstring(node, lines)
    before = None
    for at, part in enumerate(node.body):
        if any(name.startswith("_") or name == "model_config" for name in defined(part)):
            continue
        if isinstance(part, ast.FunctionDef):
            yield ""
            yield from of_function(part, lines)
        elif defined(part):
            yield from [] if before is ast.AnnAssign else [""]
            yield from value(node.body, at, lines)
        else:
            continue
        before = type(part)


def of_function(node: ast.FunctionDef, lines: list[str]) -> Iterator[str]:
    """A function: its head and its docstring."""
    yield from head(node, lines)
    yield from docstring(node, lines)


def value(body: list[ast.stmt], at: int, lines: list[str]) -> Iterator[str]:
    """An assignment, and the string below it that says what it is."""
    node = body[at]
    last = node
    if at + 1 < len(body) and is_text(body[at + 1]):
        last = body[at + 1]
    yield from lines[node.lineno - 1 : last.end_lineno]


def head(node: ast.ClassDef | ast.FunctionDef, lines: list[str]) -> list[str]:
    """Decorators and signature."""
    first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
    return lines[first - 1 : node.body[0].lineno - 1]


def docstring(node: ast.ClassDef | ast.FunctionDef, lines: list[str]) -> list[str]:
    """The docstring; "..." where there is none."""
    first = node.body[0]
    if not is_text(first):
        return [" " * first.col_offset + "..."]
    return lines[first.lineno - 1 : first.end_lineno]


def is_text(node: ast.stmt) -> bool:
    """True if a statement is a string and nothing else."""
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)


if __name__ == "__main__":
    print(printed(sys.argv[1:]))
