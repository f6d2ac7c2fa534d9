"""Rooms of the package: no circles of imports, and nobody imports what stands above it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1] / "uedp_bench"

FACADES = ("accounting.__init__",)
"""Modules that gather names of their own room and of others, for strangers."""

ROOMS = {
    "accounting": ("accounting",),
    "lower bounds": ("accounting.bounds", "accounting.consistency"),
    "api": ("api", *FACADES),
    "attacks": ("attacks",),
    "budget": ("budget",),
    "cli": ("cli", "__main__"),
    "cluster": ("cluster",),
    "corpus": ("corpus",),
    "front door": ("",),
    "ground": (
        "component",
        "errors",
        "files",
        "fresh_processes",
        "mending",
        "registry",
        "requirements",
        "review",
        "selection",
        "version",
    ),
    "harness": ("harness",),
    "leaderboard": ("leaderboard",),
    "mechanisms": ("mechanisms",),
    "models": ("models",),
    "own data": ("own_data",),
    "randomness": ("randomness",),
    "secure": ("secure",),
    "specs": ("specs",),
    "statistics": ("statistics",),
    "tasks": ("tasks",),
    "text": ("text",),
    "testing": ("testing",),
    "tracking": ("tracking",),
    "training": ("training",),
    "workbench": ("workbench",),
}
"""Modules of each room, by the beginnings of their names; all others are contracts."""

ABOVE = {
    "ground": set(),
    "corpus": {"ground"},
    "accounting": {"ground"},
    "randomness": {"ground", "accounting"},
    "secure": {"ground", "accounting", "randomness"},
    "text": {"ground", "corpus"},
    "contracts": {"ground", "corpus", "accounting", "randomness", "text"},
    "statistics": {"ground", "corpus", "contracts"},
    "lower bounds": {"ground", "accounting", "contracts", "statistics"},
    "models": {"ground", "corpus", "contracts", "text", "secure"},
    "training": {"ground", "corpus", "accounting", "randomness", "contracts", "models"},
    "mechanisms": {"ground", "corpus", "accounting", "randomness", "contracts", "text", "models",
                   "training", "secure"},
    "attacks": {"ground", "corpus", "accounting", "lower bounds", "randomness", "contracts", "text",
                "statistics", "models", "training", "secure"},
    "tasks": {"ground", "corpus", "accounting", "randomness", "contracts", "text", "statistics",
              "models", "training", "secure"},
    "harness": {"ground", "corpus", "accounting", "lower bounds", "randomness", "contracts", "text",
                "statistics", "training"},
    "budget": {"ground", "accounting", "contracts", "harness"},
    "tracking": {"ground", "accounting", "contracts", "harness"},
    "leaderboard": {"ground", "accounting", "lower bounds", "contracts", "statistics", "harness",
                    "budget", "tracking"},
    "cluster": {"ground", "contracts", "harness"},
    "testing": {"ground", "corpus", "accounting", "contracts", "text", "statistics", "training",
                "harness", "leaderboard"},
    "own data": {"ground", "corpus", "contracts", "harness", "budget", "tasks"},
    "cli": {"own data", "testing", "cluster", "ground", "corpus", "accounting", "lower bounds",
            "contracts", "text", "statistics", "training", "harness", "budget", "leaderboard",
            "specs", "tracking"},
    "api": {"ground", "corpus", "accounting", "lower bounds", "randomness", "contracts", "text",
            "statistics", "models", "training", "mechanisms", "tasks", "attacks"},
    "specs": set(),
    "workbench": {"ground", "corpus", "accounting", "randomness", "contracts", "harness", "budget",
                  "leaderboard", "cli", "tracking"},
    "front door": {"ground", "corpus", "accounting", "contracts", "budget", "workbench"},
}  # fmt: skip
"""Rooms that a room may import beside itself: components never each other, and the harness none of
them, but through the registry. `api` and the package itself (its front door) gather names for
users, and nobody here imports them."""

BY_DESIGN = {
    # An event brings its accountant, which knows the event.
    ("accounting.events", "accounting.accountants"),
    ("accounting.banded_factorization", "accounting.accountants"),
}
"""Pairs of beginnings of names that know each other."""


@cache
def modules() -> dict[str, Path]:
    """Files by the names of their modules, without the package's name."""
    found = {}
    for folder, _, files in os.walk(ROOT, followlinks=True):
        for file in sorted(files):
            if file.endswith(".py"):
                path = Path(folder) / file
                parts = path.relative_to(ROOT).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def below(name: str, beginning: str) -> bool:
    return name == beginning or (beginning != "" and name.startswith(f"{beginning}."))


@cache
def room(name: str) -> str:
    """The room with the longest beginning of a module's name."""
    name = f"{name}.__init__" if f"{name}.__init__" in FACADES else name
    fits = [(len(start), where) for where, starts in ROOMS.items() for start in starts
            if below(name, start)]  # fmt: skip
    return max(fits)[1] if fits else "contracts"


def imported(tree: ast.AST, late: bool = False) -> Iterator[str]:
    """Names that a module imports when it runs, also inside functions.

    Args:
        tree: of the module.
        late: also those that only type checkers see; the front door imports them on first use.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not late:
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from imported(node, late)


@cache
def graph() -> dict[str, frozenset[str]]:
    """Modules of the package that each one imports."""
    found = {}
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {full for full in imported(tree, late=name == "")
                 if full == "uedp_bench" or full.startswith("uedp_bench.")}  # fmt: skip
        inside = {full.removeprefix("uedp_bench").removeprefix(".") for full in named}
        there = {one if one in modules() else one.rpartition(".")[0] for one in inside}
        found[name] = frozenset(there - {name})
    return found


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
    edges = {
        name: frozenset(
            other for other in others
            if not any(below(name, a) and below(other, b) for a, b in BY_DESIGN)
        )
        for name, others in graph().items()
    }  # fmt: skip
    assert circles(edges) == []


def test_pairs_that_know_each_other_still_do():
    for first, second in BY_DESIGN:
        there = [other for name, others in graph().items() if below(name, first)
                 for other in others if below(other, second)]  # fmt: skip
        assert there, f"{first} does not import {second} any more: take the pair out"


def test_no_room_imports_what_stands_above_it():
    wrong = [
        f"{name} ({room(name)}) imports {other} ({room(other)})"
        for name, others in graph().items()
        for other in sorted(others)
        if room(other) != room(name) and room(other) not in ABOVE[room(name)]
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_stand_in_an_order():
    assert set(ABOVE) == {*ROOMS, "contracts"}
    assert circles({name: frozenset(others) for name, others in ABOVE.items()}) == []
    assert not {"api", "front door"} & set().union(*ABOVE.values())


def test_accounting_needs_no_torch():
    for name, path in modules().items():
        if room(name) in {"ground", "accounting", "randomness"}:
            names = {full.split(".")[0] for full in imported(ast.parse(path.read_text()))}
            assert not names & {"torch", "transformers"}, name


def test_circles_are_found():
    edges = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"a"}), "d": frozenset()}
    assert circles(edges) == [["a", "b", "c"]]
    text = "def f():\n    from uedp_bench.run_context import Run\n"
    assert list(imported(ast.parse(text))) == ["uedp_bench.run_context.Run"]
    hidden = "if TYPE_CHECKING:\n    from uedp_bench.run_context import Run\n"
    assert list(imported(ast.parse(hidden))) == []
