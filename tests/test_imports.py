"""Rooms of the package: no circles of imports, and nobody imports what stands above it."""

from __future__ import annotations

import ast
import os
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1] / "uedp_bench"

FLOORS = (
    ("errors", "version"),
    ("io",),
    ("components", "data"),
    ("accounting",),
    ("corpus", "randomness"),
    ("text",),
    ("contracts",),
    ("models", "statistics"),
    ("bounds", "tasks.sources.reading", "tasks.tokens", "training"),
    ("api",),
    ("spec",),
    ("one_run",),
    ("grid",),
    ("tracking",),
    ("leaderboard", "testing"),
    ("attacks", "mechanisms", "model components", "tasks"),
    ("first_spec",),
    ("python_api",),
    ("cli",),
    ("front door",),
)
"""Rooms of the package, from the ground up: a room imports rooms of the floors below its own."""

FLOOR = {one: height for height, rooms in enumerate(FLOORS) for one in rooms}
PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODEL_COMPONENTS = {
    place.split(":")[0].removeprefix("uedp_bench.")
    for place in PROJECT["entry-points"]["uedp_bench.models"].values()
}
COMPONENTS = {"attacks", "mechanisms", "model components", "models", "tasks", "tasks.tokens"}
HARNESS = {"spec", "one_run", "grid", "tracking", "leaderboard", "testing"}
"""Rooms that do not know each other: a run reaches components through the registry."""


@cache
def modules() -> dict[str, Path]:
    """Files by the names of their modules, without the package's name."""
    paths = {}
    for folder, _, files in os.walk(ROOT, followlinks=True):
        for file in sorted(files):
            if file.endswith(".py"):
                path = Path(folder) / file
                parts = path.relative_to(ROOT).with_suffix("").parts
                paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def room(name: str) -> str:
    """Room of a module: the longest beginning of its name in the table of floors."""
    if name in {"", "__main__"}:
        return "front door"
    if name in MODEL_COMPONENTS:
        return "model components"
    return max((one for one in FLOOR if f"{name}.".startswith(f"{one}.")), key=len)


def imported(tree: ast.AST, late: bool = False) -> Iterator[str]:
    """Names that a module imports when it runs, also inside functions.

    Args:
        tree: of the module.
        late: also those that only type checkers see; the front door imports them on first use.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):  # most nodes, and none of them holds a statement
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not late:
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from imported(node, late)


@cache
def tree_of(path: Path) -> ast.Module:
    """Tree of a module, which several tests look at."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def graph(types: bool = False) -> dict[str, frozenset[str]]:
    """Modules of the package that each one imports.

    Args:
        types: count modules that only type checkers see.
    """
    arrows = {}
    for name, path in modules().items():
        named = {full for full in imported(tree_of(path), late=types or name == "")
                 if full == "uedp_bench" or full.startswith("uedp_bench.")}  # fmt: skip
        inside = {full.removeprefix("uedp_bench").removeprefix(".") for full in named}
        targets = {one if one in modules() else one.rpartition(".")[0] for one in inside}
        arrows[name] = frozenset(targets - {name})
    return arrows


def circles(edges: dict[str, frozenset[str]]) -> list[list[str]]:
    """Groups of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in edges:
        seen, left = set(), [start]
        while left:
            new = edges.get(left.pop(), frozenset()) - seen
            seen |= new
            left += new
        reached[start] = seen
    both = [sorted(b for b in reached[a] if a in reached[b]) for a in edges if a in reached[a]]
    return [list(one) for one in dict.fromkeys(map(tuple, both))]


def test_no_module_imports_what_imports_it():
    assert circles(graph()) == []


def test_rooms_import_only_lower_floors():
    """Imports of types count: who needs a type of a higher room stands on the wrong floor."""
    upward = {
        (name, other)
        for name, others in graph(types=True).items()
        for other in others
        if room(name) != room(other) and FLOOR[room(name)] <= FLOOR[room(other)]
    }
    assert not upward


def test_components_and_harness_do_not_import_each_other():
    pairs = {(room(name), room(other)) for name, others in graph().items() for other in others}
    crossing = {(a, b) for a, b in pairs if {a, b} & COMPONENTS and {a, b} & HARNESS}
    assert not crossing
    assert not {(a, b) for a, b in pairs if a != b and {a, b} <= {"attacks", "mechanisms", "tasks"}}


def test_accounting_needs_no_torch():
    for name, path in modules().items():
        if FLOOR[room(name)] <= FLOOR["randomness"]:
            names = {full.split(".")[0] for full in imported(tree_of(path))}
            assert not names & {"torch", "transformers"}, name


def test_circles_are_found():
    edges = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"a"}), "d": frozenset()}
    assert circles(edges) == [["a", "b", "c"]]
    text = "def f():\n    from uedp_bench.contracts.run_context import Run\n"
    assert list(imported(ast.parse(text))) == ["uedp_bench.contracts.run_context.Run"]
    hidden = "if TYPE_CHECKING:\n    from uedp_bench.contracts.run_context import Run\n"
    assert list(imported(ast.parse(hidden))) == []
