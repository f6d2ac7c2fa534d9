"""Descriptions of components, and names of mechanisms and systems that can be accounted for."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from pathlib import Path
from typing import Any

from uedp_bench.accounting.published_systems import ALIASES, SYSTEMS
from uedp_bench.components import registry
from uedp_bench.components.component import Component
from uedp_bench.components.metric import Metric
from uedp_bench.components.registry import Registry
from uedp_bench.errors import UnknownNameError

_LIMITS = {
    "minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}",
    "multipleOf": "multiple of {}", "minItems": "at least {} items", "maxItems": "at most {} items",
    "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "pattern": "matches {}",
}  # fmt: skip


def package(origin: str) -> str:
    """The package of an origin ("module:Class (package 1.0)"), or the file of a lone plug-in."""
    before, bracket, inside = origin.rpartition(" (")
    return inside.removesuffix(")") if bracket else origin.rpartition(":")[0] or before


def summary(registry: Registry[Any], name: str) -> str:
    """First line of a component's docstring; empty where its source is not to be found.

    Classes of installed packages are read from their source text: listing imports no plug-in, so
    that neither a slow nor a broken one holds up the others.
    """
    origin = registry.origin(name)
    value, installed, _ = origin.partition(" (")
    if not installed:
        return _first_line(inspect.getdoc(registry.get(name)))
    module, _, attribute = value.partition(":")
    file = _source_file(module.strip())
    if file is None:
        return ""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == attribute.strip():
            return _first_line(ast.get_docstring(node))
    return ""


def _first_line(documentation: str | None) -> str:
    return (documentation or "").strip().partition("\n")[0]


def _source_file(module: str) -> Path | None:
    """The source file of a module, found without importing it or its parents."""
    path: list[str] | None = None
    name, module_spec = "", None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        finders = (finder.find_spec(name, path) for finder in sys.meta_path)
        module_spec = next((spec for spec in finders if spec is not None), None)
        if module_spec is None:
            return None
        path = list(module_spec.submodule_search_locations or [])
    file = Path(module_spec.origin) if module_spec is not None and module_spec.origin else None
    return file if file is not None and file.suffix == ".py" else None


def describe_component(registry: Registry[Any], name: str) -> dict[str, Any]:
    """Everything that a component declares, as JSON values.

    Raises:
        UnknownNameError, PluginError: see `Registry.get`.
    """
    return describe_class(registry.kind, registry.get(name), registry.origin(name))


def describe_class(kind: str, component: type[Component[Any]], origin: str) -> dict[str, Any]:
    """Everything that a class declares, as JSON values.

    Args:
        kind: one of the registries, or "system": published, and accounted for only.
        component: the class.
        origin: origin of the component.
    """
    documentation = inspect.getdoc(component) or ""
    return {
        "kind": kind,
        "name": component.name,
        "version": component.version,
        "summary": _first_line(documentation),
        "documentation": documentation,
        "origin": origin,
        "source": component.source,
        **_declared(kind, component),
        "parameters": _parameters(component),
    }


def _declared(kind: str, component: type[Component[Any]]) -> dict[str, Any]:
    """Declarations of a kind of component beyond its parameters."""
    needs = [need.__name__ for need in getattr(component, "needs", ())]
    if kind == "mechanism":
        return {
            "unit": getattr(component, "unit", None),
            "stage": _stage(component),
            "row_by_row": getattr(component, "rowwise", None),
        }
    if kind == "system":
        return {
            "unit": getattr(component, "unit", None),
            "claim_and_proof": getattr(component, "reason", None),
        }
    if kind == "attack":
        return {
            "needs_one_of": needs,
            "holds_out_users": getattr(component, "holds_out", False),
            "metrics": [_metric(one) for one in component.metrics],
        }
    if kind == "task":
        models = getattr(component, "models", None)
        return {
            "needs_one_of": needs,
            "models": None if models is None else models.__name__,
            "metrics": [_metric(one) for one in component.metrics],
        }
    if kind == "source":
        return {"needs_path": getattr(component, "needs_path", False)}
    if kind == "event":
        return {"notion": getattr(component, "notion", None)}
    return {
        "learns_as": next(
            (base.__name__ for base in component.__mro__[1:] if base.__name__ != "Generic"), None
        ),
        "pretrained": getattr(component, "pretrained", None),
    }


def _metric(metric: Metric) -> dict[str, Any]:
    """A declared metric as boards show it."""
    return {
        "name": metric.name,
        "label": metric.named(metric.name).label,
        "unit": metric.unit,
        "percent": metric.percent,
        "better": metric.better,
        "no_leak": metric.no_leak,
        "about": metric.about,
    }


def _stage(component: type[Component[Any]]) -> str | None:
    from uedp_bench.contracts import mechanism

    stages = {
        "vocabulary": mechanism.VocabularyMechanism,
        "publishing": mechanism.PublishingMechanism,
        "training": mechanism.TrainingMechanism,
        "serving": mechanism.ServingMechanism,
    }
    return next((name for name, base in stages.items() if issubclass(component, base)), None)


def _parameters(component: type[Component[Any]]) -> list[dict[str, Any]]:
    schema = component.Params.model_json_schema(mode="validation")
    definitions = schema.get("$defs", {})
    return [
        {
            "name": name,
            "type": _type(part, definitions),
            "required": name in schema.get("required", ()),
            "default": part.get("default"),
            "range": ", ".join(dict.fromkeys(_range(part, definitions))),
            "description": part.get("description", ""),
        }
        for name, part in schema.get("properties", {}).items()
    ]


def _resolved(part: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref", "").rpartition("/")[2]
    return {**definitions.get(reference, {}), **part}


def _alternatives(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [*part.get("anyOf", ()), *part.get("oneOf", ())]


def _type(part: dict[str, Any], definitions: dict[str, Any]) -> str:
    part = _resolved(part, definitions)
    if options := _alternatives(part):
        return " | ".join(dict.fromkeys(_type(option, definitions) for option in options))
    if "enum" in part or "const" in part:
        return " | ".join(map(str, part.get("enum", [part.get("const")])))
    if part.get("format") in ("path", "file-path", "directory-path"):
        return "path"
    kind = str(part.get("type", part.get("title", "any")))
    if kind == "array":
        items = part.get("items")
        return f"list of {_type(items, definitions)}" if items else "list"
    return kind


def _range(part: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    part = _resolved(part, definitions)
    own = [text.format(part[key]) for key, text in _LIMITS.items() if key in part]
    nested = [*_alternatives(part), *([part["items"]] if "items" in part else [])]
    return own + [limit for option in nested for limit in _range(option, definitions)]


# ------------------------------------------------------------------------ what can be accounted for


NOISE = "noise_multiplier"
"""The parameter that some mechanisms choose themselves."""


def accountable_names() -> tuple[str, ...]:
    """Everything that can be accounted for."""
    return tuple(sorted({*registry.mechanisms.names(), *SYSTEMS, *ALIASES}))


def has_parameter(name: str, parameter: str) -> bool:
    """True if the mechanism or system of this name, or one of several joined by +, has it.

    Raises:
        UnknownNameError: if there is none of this name.
    """
    words = [word.strip() for word in name.split("+")]
    return any(parameter in component_class(word).Params.model_fields for word in words)


def needs_parameter(name: str, parameter: str) -> bool:
    """True if it has this parameter without a default (None is one for the noise alone)."""
    field = component_class(name).Params.model_fields.get(parameter)
    if field is None:
        return False
    return bool(field.is_required()) or (field.default is None and parameter != NOISE)


def component_class(name: str) -> Any:
    """The class of a mechanism, or of a published system.

    Raises:
        UnknownNameError: if there is none of this name.
    """
    if name in registry.mechanisms.names():
        return registry.mechanisms.get(name)
    if name in SYSTEMS:
        return SYSTEMS[name]
    if is_alias(name):
        return _alias(name)
    raise UnknownNameError("mechanism", name, accountable_names())


def is_alias(name: str) -> bool:
    """True of a mechanism under the name that its paper's system has."""
    return name in ALIASES and name not in registry.mechanisms.names()


@cache
def _alias(name: str) -> Any:
    """The mechanism under the name that its paper's system has, so that messages say that name."""
    base, preset = component_class(ALIASES[name][0]), ALIASES[name][1]
    differs = ", ".join(f"{parameter}={value}" for parameter, value in preset.items())
    note = f"{inspect.getdoc(base)}\n\nThe mechanism {base.name} with {differs} by default."
    return type(base.__name__, (base,), {"name": name, "__doc__": note})


def describe_system(name: str) -> dict[str, Any]:
    """Describe a published system, which is accounted for only; see `describe_class`."""
    component = component_class(name)
    original = SYSTEMS.get(name) or component.__mro__[1]
    described = describe_class("system", component, f"{original.__module__}:{original.__name__}")
    preset = ALIASES[name][1] if is_alias(name) else {}
    for parameter in described["parameters"]:
        parameter["default"] = preset.get(parameter["name"], parameter["default"])
    return described
