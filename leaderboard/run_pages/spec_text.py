"""The spec of a run for readers who want to repeat it, and what its parameters mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from pydantic.fields import FieldInfo

from uedp_bench.components.component import MayBePath
from uedp_bench.contracts.results import ComponentSpec, RunSpec
from uedp_bench.errors import UedpBenchError
from uedp_bench.leaderboard.run_pages.detail_tables import Table, exact, table

COMMAND = "uedp-bench run spec.yaml --out runs"


@dataclass(frozen=True)
class Repeat:
    """Directions for repeating a run.

    Attributes:
        yaml: spec that `uedp-bench run` reads.
        link: spec as a link that browsers save.
        command: command that runs `spec.yaml`.
        needs: files and packages needed first, in words.
        set: parameters of the mechanism that differ from their defaults, as text.
        parameters: all of them with their meaning.
    """

    yaml: str
    link: str
    command: str
    needs: tuple[str, ...]
    set: tuple[str, ...]
    parameters: Table


def repeat(spec: RunSpec) -> Repeat:
    """Everything that a reader needs to repeat a run."""
    written = spec_yaml(spec)
    parts = list(_components(spec))
    fields_of = {(kind, part.name): _fields(kind, part.name) for kind, part in parts}
    strangers = [
        f"{kind} {part.name}" for kind, part in parts if fields_of[kind, part.name] is None
    ]
    needs = [f"{name} is no component of this installation: give the file that registers it, "
             "--plugin FILE" for name in dict.fromkeys(strangers)]  # fmt: skip
    needs += [
        f"{kind} {part.name} reads {exact(value)} (a file, a folder or a name on the hub): "
        f"it must be there, or change {name} in the spec"
        for kind, part in parts
        for name, value in part.params.items()
        if value and _is_path(name, value, fields_of[kind, part.name])
    ]
    differing = [f"{name} = {exact(value)}" for kind, part in parts if kind == "mechanism"
             for name, value in part.params.items()
             if not _at_default(name, value, fields_of[kind, part.name])]  # fmt: skip
    rows = [
        (kind, part.name, name, exact(value), _meaning(name, fields_of[kind, part.name]))
        for kind, part in parts
        for name, value in part.params.items()
    ]
    head = ("", "component", "parameter", "value", "meaning")
    return Repeat(
        written,
        f"data:text/yaml;charset=utf-8,{quote(written, errors='replace')}",
        COMMAND,
        tuple(dict.fromkeys(needs)),
        tuple(differing),
        table("all parameters, defaults among them", head, rows),
    )


def spec_yaml(spec: RunSpec) -> str:
    """A spec as YAML that `uedp-bench run` reads; the run is the same, its id too."""
    import yaml

    # libyaml's is ten times as fast; wheels have it.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    value = spec.model_dump(mode="json", exclude_none=False)
    for name, usual in (("selection", None), ("noise_source", "seed")):
        if value[name] == usual:
            del value[name]
    written: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)
    return written


def _components(spec: RunSpec) -> Iterator[tuple[str, ComponentSpec]]:
    yield from (("task", spec.task), ("source", spec.source), ("model", spec.model))
    yield from (("mechanism", part) for part in spec.mechanism)
    yield from (("attack", part) for part in spec.attacks)


def _fields(kind: str, name: str) -> dict[str, FieldInfo] | None:
    """Parameters of a component; None for a plug-in's that is not loaded."""
    from uedp_bench.components import registry
    from uedp_bench.spec.spec import NO_MODEL

    if kind == "model" and name == NO_MODEL:
        return {}
    kinds: dict[str, registry.Registry[Any]] = {
        "task": registry.tasks, "source": registry.sources, "model": registry.models,
        "mechanism": registry.mechanisms, "attack": registry.attacks,
    }  # fmt: skip
    try:
        fields: dict[str, FieldInfo] = kinds[kind].get(name).Params.model_fields
    except UedpBenchError:
        return None
    return fields


def _is_path(name: str, value: Any, fields: dict[str, FieldInfo] | None) -> bool:
    """True if a parameter names a file or folder, as far as one can tell without the component."""
    field = (fields or {}).get(name)
    if field is None:
        return name == "path"
    mark = next((part for part in field.metadata if isinstance(part, MayBePath)), None)
    if mark is not None:
        return value not in mark.words
    return Path in (field.annotation, *get_args(field.annotation))


def _at_default(name: str, value: Any, fields: dict[str, FieldInfo] | None) -> bool:
    field = (fields or {}).get(name)
    if field is None or field.is_required():
        return False
    default = field.get_default(call_default_factory=True)
    return bool(value == (list(default) if isinstance(default, tuple) else default))


def _meaning(name: str, fields: dict[str, FieldInfo] | None) -> str:
    field = (fields or {}).get(name)
    return "" if field is None else field.description or ""
