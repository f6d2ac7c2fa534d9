"""The public names: complete, documented, and quick to import."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from uedp_bench import api
from uedp_bench.components.registry import Registry

CONTRACTS = (
    "accounting.event_contract",
    "components.component", "contracts.leakage", "contracts.learner", "contracts.mechanism",
    "contracts.model", "contracts.release", "contracts.run_context", "contracts.source",
    "contracts.task", "corpus.spans", "corpus.table",
)  # fmt: skip
NOT_FOR_STRANGERS = {
    "Checkpoints",
    "Diary",
    "NoiseSource",
    "Points",
    "PublicStages",
    "TrainedStage",
}
"""Types of what the harness alone sets on a run."""


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(Path(str(importlib.import_module(module).__file__)).read_text())


def names(module: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that a module imports from the package, and the modules that they come from."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("uedp_bench."):
            yield from ((alias.name, str(node.module)) for alias in node.names)


def imported(module: ast.AST) -> dict[str, str]:
    return dict(names(module))


HOMES = imported(tree("uedp_bench.api"))


def test_what_is_imported_is_what_is_public():
    assert sorted(HOMES) == sorted(api.__all__)
    assert dir(api) == sorted(api.__all__)
    assert len(api.__all__) == len(set(api.__all__)) == len(list(names(tree("uedp_bench.api"))))


def test_names_that_wait_for_torch_are_those_that_type_checkers_see():
    (late,) = (node for node in tree("uedp_bench.api").body if isinstance(node, ast.If))
    lazy = {name: module for module, names in api._WITH_TORCH.items() for name in names}
    assert lazy == imported(late)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Federashun'"):
        api.Federashun  # noqa: B018


def test_every_public_name_says_what_it_is():
    silent = [name for name in api.__all__ if not says(name, getattr(api, name))]
    assert not silent


def says(name: str, value: object) -> bool:
    """True if a class or function has a docstring of its own, and a value one below it."""
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__ == HOMES[name], f"{name} is imported from where it is not defined"
        said = (value.__doc__ or "").strip()
        return bool(said) and not said.startswith(f"{name}(")  # what a dataclass says by itself
    return documented(HOMES[name], name)


def documented(module: str, name: str) -> bool:
    """True if a string stands below the assignment of a name."""
    body = tree(module).body
    for node, below in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    return False


def mentioned(contract: str) -> Iterator[tuple[str, str]]:
    """Names in the signatures and attributes of a contract's public classes and functions."""
    for node in tree(f"uedp_bench.{contract}").body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        if node.name not in api.__all__:
            continue
        for part in [node, *node.body]:
            for hint in annotations(part):
                for name in ast.walk(ast.parse(hint, mode="eval")):
                    if isinstance(name, ast.Name):
                        yield f"{node.name}.{getattr(part, 'name', '')}", name.id


def annotations(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
        yield ast.unparse(node.annotation)
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        found = [argument.annotation for argument in every] + [node.returns]
        yield from (ast.unparse(hint).strip("'\"") for hint in found if hint is not None)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_a_contract_mentions_is_public_too(contract):
    module = importlib.import_module(f"uedp_bench.{contract}")
    own = {node.name for node in tree(module.__name__).body if hasattr(node, "name")}
    ours = own | set(imported(tree(module.__name__)))
    ours |= {
        node.targets[0].id
        for node in tree(module.__name__).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    type_variables = {"P", "A", "W", "K"}
    missing = {
        f"{name} (of {where})"
        for where, name in mentioned(contract)
        if name in ours - type_variables and name not in {*api.__all__, *NOT_FOR_STRANGERS}
        if not name.startswith(("_", "MOST_"))  # limits of what a file may hold
    }
    assert not missing


def test_the_registries_are_those_of_every_kind():
    kinds = {"mechanisms", "attacks", "tasks", "sources", "models", "events"}
    assert all(isinstance(getattr(api, kind), Registry) for kind in kinds)
