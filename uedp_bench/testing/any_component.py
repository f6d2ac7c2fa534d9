"""Checks of every component: its declarations, and its parameters."""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uedp_bench.components.component import Params
from uedp_bench.errors import InputError
from uedp_bench.spec.descriptions import describe_class
from uedp_bench.testing.checks import NotApplicable, Subject, check

SLOW = ("torch", "transformers", "spacy", "sklearn", "scipy", "pandas", "mlflow", "datasets")
"""Packages that take long to import."""

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST_SUMMARY = 200


@check()
def check_declaration(subject: Subject) -> None:
    """A component without name, version or summary is nowhere to be found, and its results are not.

    `version` is part of a run's identity; the first line of the docstring is what `list` shows.
    """
    kind = subject.component
    name = getattr(kind, "name", None)
    assert isinstance(name, str), f"{kind.__qualname__} has no name: set `name = ...`"
    assert NAME.fullmatch(name), f"the name {name!r} is not lower-case words joined by hyphens"
    assert subject.registry.get(name) is kind, f"{name} is registered as another class"
    assert isinstance(kind.version, int) and kind.version >= 1, (
        f"{name}: version is {kind.version!r}; it is a whole number from 1"
    )
    assert isinstance(kind.source, str), f"{name}: source is {kind.source!r}; it is a text"
    own = (kind.__dict__.get("__doc__") or "").strip()
    summary = own.partition("\n")[0]
    assert summary, f"{kind.__qualname__} has no docstring of its own: its first line is shown"
    assert len(summary) <= MOST_SUMMARY, f"the first line of its docstring is {len(summary)} long"
    described = describe_class(subject.kind, kind, "here")
    assert json.loads(json.dumps(described)) == described, "`describe` is no JSON"


@check()
def check_parameters_declared(subject: Subject) -> None:
    """Parameters without a description are a riddle, and mutable ones change under a run."""
    params = subject.component.Params
    assert isinstance(params, type) and issubclass(params, Params), (
        f"Params is {params!r}; derive it from uedp_bench.api.Params"
    )
    assert params.model_config.get("frozen"), f"{params.__name__} is not frozen"
    assert params.model_config.get("extra") == "forbid", f"{params.__name__} takes unknown names"
    silent = [name for name, field in params.model_fields.items() if not field.description]
    assert not silent, f"{', '.join(silent)}: say what it is, by Field(description=...)"


@check()
def check_bad_parameters_refused(subject: Subject) -> None:
    """A bad value that passes becomes a traceback an hour later, or a wrong number.

    Every refusal is an `InputError` that names the component and the parameter.
    """
    subject.create()
    for field, value in _bad_values(subject.component.Params):
        try:
            subject.component.create({**subject.small, field: value})
        except InputError as error:
            message = str(error)
            assert field in message and subject.name in message, (
                f"the refusal of {field}={value!r} does not name {subject.name}.{field}: {message}"
            )
        else:
            raise AssertionError(f"{field}={value!r} is taken, and its type or range excludes it")


def _bad_values(params: type[Params]) -> Iterator[tuple[str, Any]]:
    """Values that the declared types and ranges exclude, by parameter."""
    yield "no_such_parameter", 1
    properties = params.model_json_schema(mode="validation").get("properties", {})
    for name, field in properties.items():
        if "type" not in field:
            continue  # several types, or another model
        if field["type"] in ("integer", "number"):
            yield name, "no number"
            yield name, math.nan
        if "minimum" in field:
            yield name, field["minimum"] - 1
        if "exclusiveMinimum" in field:
            yield name, field["exclusiveMinimum"]
        if "maximum" in field:
            yield name, field["maximum"] + 1
        if "exclusiveMaximum" in field:
            yield name, field["exclusiveMaximum"]
        if "enum" in field:
            yield name, "none of these"


@check()
def check_parameters_round_trip(subject: Subject) -> None:
    """Parameters that JSON does not carry change between a run and its result."""
    first = subject.create()
    values = json.loads(json.dumps(first.params.model_dump(mode="json"), allow_nan=False))
    assert subject.component.create(values).params == first.params, (
        f"{values} are not the parameters that they were written from"
    )
    for name in list(type(first.params).model_fields)[:1]:
        try:
            setattr(first.params, name, getattr(first.params, name))
        except ValueError:  # as pydantic says that a model is frozen
            return
        raise AssertionError(f"{name} can be set after construction")


@check()
def check_light_import(subject: Subject) -> None:
    """A module that imports torch at its top makes `list`, `describe` and `account` wait for it."""
    file = inspect.getsourcefile(subject.component)
    if file is None:
        raise NotApplicable("its source is not to be found")
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        for name in _imported(node):
            top = name.partition(".")[0]
            assert top not in SLOW, (
                f"line {node.lineno} imports {top} for all who import the module: import it inside "
                "the functions that use it, and under `if TYPE_CHECKING` for annotations"
            )


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
