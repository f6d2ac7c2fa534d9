"""Grids: a component with lists of values stands for one component for every combination."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from uedp_bench import registry
from uedp_bench.component import Component, parse_params
from uedp_bench.errors import InputError
from uedp_bench.results import ComponentSpec

if TYPE_CHECKING:
    from uedp_bench.harness.spec import Ref, Spec


def check(spec: Spec) -> None:
    """Looks at the first values of every component, so that all mistakes are said at once.

    Raises:
        InputError: with what is wrong with any of them.
    """
    found: dict[str, InputError] = {}
    refs = [(ref, registry.mechanisms) for composition in spec.mechanisms for ref in composition]
    refs += [(ref, registry.attacks) for ref in spec.attacks]
    refs += [(spec.task, registry.tasks), (spec.source, registry.sources)]
    # A task that trains nothing refuses every model, whatever its parameters: `expand` says so.
    known = spec.task.name in registry.tasks.names()
    trains = not known or registry.tasks.get(spec.task.name).models is not None
    refs += [(spec.model, registry.models)] if spec.model is not None and trains else []
    for ref, kind in refs:
        try:
            component = kind.get(ref.name)
            first = [values[0] for values in _options(ref, component)]
            values = dict(zip(ref.params, first, strict=True))
            parse_params(component.Params, values, ref.name)
        except InputError as error:
            found.setdefault(str(error), error)
    if len(found) > 1:
        raise InputError("; ".join(found))
    for only in found.values():
        raise only


def run_count(spec: Spec, model: Ref) -> int:
    """Number of runs, those that come out the same counted as often as they are named.

    Args:
        spec: of all runs.
        model: of the spec, or its task's own.
    """
    mechanisms = sum(
        math.prod(_components(ref, registry.mechanisms) for ref in composition)
        for composition in spec.mechanisms
    )
    shared = [_components(spec.task, registry.tasks), _components(spec.source, registry.sources)]
    shared += [_components(model, registry.models)]
    shared += [_components(ref, registry.attacks) for ref in spec.attacks]
    return len(spec.seeds) * mechanisms * math.prod(shared)


def _components(ref: Ref, kind: registry.Registry[Any]) -> int:
    """Number of components that a reference stands for."""
    return math.prod(map(len, _options(ref, kind.get(ref.name))))


def _options(ref: Ref, component: type[Component[Any]]) -> list[list[Any]]:
    """For every parameter given the values that it takes."""
    fields = component.Params.model_fields
    options: list[list[Any]] = []
    for name, value in ref.params.items():
        if not isinstance(value, list) or (
            name in fields and _is_one(fields[name].annotation, value)
        ):
            options.append([value])
        elif value:
            options.append(value)
        else:
            raise InputError(f"{ref.name}.{name} is an empty list: a grid needs at least one value")
    return options


def axes(ref: Ref, kind: registry.Registry[Any]) -> list[ComponentSpec]:
    """The components that a reference stands for: one for every combination of list values."""
    component: type[Component[Any]] = kind.get(ref.name)
    out = []
    for values in itertools.product(*_options(ref, component)):
        params = parse_params(
            component.Params, dict(zip(ref.params, values, strict=True)), ref.name
        )
        out.append(ComponentSpec(name=ref.name, params=params.model_dump(mode="json")))
    return out


def _is_one(annotation: Any, value: list[Any]) -> bool:
    """True if a list is one value of a parameter, rather than a list of values for it.

    For a parameter that is a list itself, only a list of lists is an axis.
    """
    try:
        TypeAdapter(annotation).validate_python(value)
    except ValidationError:
        nested = all(part is None or isinstance(part, list) for part in value)
        return _is_sequence(annotation) and not nested
    return True


def _is_sequence(annotation: Any) -> bool:
    kinds = (list, tuple, set, frozenset, Sequence)
    return get_origin(annotation) in kinds or any(map(_is_sequence, get_args(annotation)))
