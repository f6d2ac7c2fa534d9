"""The public names: complete, documented, and quick to import."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import pkgutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from uedp_bench import api
from uedp_bench.accounting.event_contract import AccountantTable
from uedp_bench.api import events
from uedp_bench.components.registry import Registry

ROOT = Path(__file__).parents[1]
CONTRACTS = (
    "accounting.event_contract",
    "components.component", "contracts.capabilities", "contracts.leakage", "contracts.learner",
    "contracts.mechanism", "contracts.model", "contracts.release", "contracts.run_context",
    "contracts.source", "contracts.task", "corpus.spans", "corpus.table",
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


MODULES = (
    "uedp_bench.api",
    *(f"uedp_bench.api.{module.name}" for module in pkgutil.iter_modules(api.__path__)),
)
PUBLIC = {module: importlib.import_module(module).__all__ for module in MODULES}
HOMES = {
    name: home
    for module, public in PUBLIC.items()
    for name, home in imported(tree(module)).items()
    if name in public
}


@pytest.mark.parametrize("module", MODULES)
def test_imported_names_are_the_public_names(module):
    stated = [name for name, _ in names(tree(module)) if name != "nearest"]
    assert sorted(stated) == PUBLIC[module]


def test_every_name_is_in_one_module():
    places = [name for public in PUBLIC.values() for name in public]
    assert len(places) == len(set(places))


def test_the_first_module_stays_small():
    assert len(api.__all__) <= 64


def test_a_name_of_another_module_is_refused_with_its_place():
    with pytest.raises(ImportError, match=r"uedp_bench\.api\.training") as refusal:
        from uedp_bench.api import Federation  # noqa: F401
    assert refusal.value.name == "Federation"


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(AttributeError, match=r"'Federashun'.*Federation of .*\.training"):
        api.Federashun  # noqa: B018


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_description(module):
    owner = importlib.import_module(module)
    assert not [name for name in PUBLIC[module] if not says(name, getattr(owner, name))]


def says(name: str, value: object) -> bool:
    """True if a class or function has a docstring of its own, and a value one below it."""
    value = value.missing if isinstance(value, AccountantTable) else value
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__ == HOMES[name], f"{name} is imported from where it is not defined"
        text = (value.__doc__ or "").strip()
        return bool(text) and not text.startswith(f"{name}(")  # what a dataclass says by itself
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
        if node.name not in HOMES:
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
        hints = [argument.annotation for argument in every] + [node.returns]
        yield from (ast.unparse(hint).strip("'\"") for hint in hints if hint is not None)


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
    type_variables = {"P", "A", "W", "K", "R", "F"}
    missing = {
        f"{name} (of {where})"
        for where, name in mentioned(contract)
        if name in ours - type_variables and name not in {*HOMES, *NOT_FOR_STRANGERS}
        if not name.startswith(("_", "MOST_"))  # limits of what a file may hold
    }
    assert not missing


def test_the_registries_are_those_of_every_kind():
    kinds = {"mechanisms", "attacks", "tasks", "sources", "models"}
    assert all(isinstance(getattr(api, kind), Registry) for kind in kinds)
    assert isinstance(events.events, Registry)


OF_THIS_PACKAGE = {"DATASETS", "SACREBLEU", "SENTENCEPIECE", "of_embedding"}
LIMITS = {"MOST_CLIENTS", "MOST_SAMPLES"}
"""Requirements that extras of this package meet, and limits of what a file may hold."""


def component_files() -> list[str]:
    """Modules of the built-in components, as the entry points name them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    kinds = (kind for group, kind in project["entry-points"].items() if "events" not in group)
    return sorted({place.split(":")[0] for kind in kinds for place in kind.values()})


@pytest.mark.parametrize("module", component_files())
def test_a_built_in_imports_public_names_from_the_api(module):
    elsewhere = {
        (name, home)
        for name, home in names(tree(module))
        if not home.startswith("uedp_bench.api")
        if home.split(".")[1] in ("components", "contracts") or HOMES.get(name) == home
    }
    assert {name for name, _ in elsewhere} <= OF_THIS_PACKAGE | LIMITS


@pytest.mark.parametrize("room", ["attacks", "mechanisms", "tasks"])
def test_helpers_of_built_ins_import_public_names_from_the_api(room):
    below = ("tasks/sources/reading/", "tasks/tokens/")  # rooms that the API itself imports
    inner = {
        (path.as_posix(), name)
        for path in (ROOT / room).rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(below)
        for name, home in names(ast.parse(path.read_text(encoding="utf-8")))
        if HOMES.get(name) == home
    }
    assert not inner
