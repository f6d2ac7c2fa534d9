"""Names that can be accounted for: mechanisms as registered, and published systems."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from uedp_bench.accounting.published_systems import ALIASES, SYSTEMS
from uedp_bench.components import registry
from uedp_bench.errors import UnknownNameError
from uedp_bench.spec.descriptions import describe_class

NOISE = "noise_multiplier"
"""The parameter that some mechanisms choose themselves."""


def names() -> tuple[str, ...]:
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
    raise UnknownNameError("mechanism", name, names())


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
