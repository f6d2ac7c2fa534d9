"""Specs: what to run, as YAML or flags; a spec with lists is a grid of runs."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from uedp_bench import registry
from uedp_bench.component import Component, parse_params
from uedp_bench.errors import InputError, UnknownNameError, nearest
from uedp_bench.results import ComponentSpec, RunSpec


class Ref(BaseModel):
    """A component by name with some of its parameters; a list value may be a grid axis."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    params: dict[str, Any] = {}


def _ref(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _composition(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [_ref(part.strip()) for part in value.split("+")]
    return [_ref(part) for part in (value if isinstance(value, list) else [value])]


class Spec(BaseModel):
    """A benchmark: everything that its runs share, and the axes in which they differ.

    `mechanisms` is a list of compositions; a composition is a name, a name with parameters, names
    joined by '+', or a list of these. The `spec` of a result is a valid spec too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    description: str = ""
    task: Ref = Ref(name="next-word")
    source: Ref = Ref(name="embedded")
    model: Ref = Ref(name="lstm-small")
    mechanisms: list[list[Ref]] = Field(default=[], description="compositions to compare")
    attacks: list[Ref] = []
    seeds: list[int] = Field(default=[1], min_length=1)
    delta: float = Field(default=1e-5, gt=0, lt=1)

    @field_validator("task", "source", "model", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return _ref(value)

    @field_validator("attacks", mode="before")
    @classmethod
    def _many(cls, value: Any) -> Any:
        return [_ref(part) for part in value] if isinstance(value, list) else value

    @field_validator("mechanisms", mode="before")
    @classmethod
    def _compositions(cls, value: Any) -> Any:
        return [_composition(part) for part in value] if isinstance(value, list) else value


def read_spec(path_or_name: str) -> dict[str, Any]:
    """Reads a YAML spec from a path, or one of the packaged specs by name.

    Raises:
        InputError: if it is neither, or not a mapping.
    """
    path = Path(path_or_name)
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        packaged = files("uedp_bench.specs")
        name = path_or_name.removeprefix("specs/").removesuffix(".yaml")
        found = packaged.joinpath(f"{name}.yaml")
        if not found.is_file():
            hint = nearest(name, packaged_specs())
            known = ", ".join(packaged_specs())
            raise InputError(
                f"no spec {path_or_name!r}: neither a file nor a packaged spec; "
                + (f"did you mean {hint!r}?" if hint else f"packaged: {known}")
            )
        text = found.read_text(encoding="utf-8")
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path_or_name} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict):
        raise InputError(
            f"{path_or_name} must be a mapping with keys {', '.join(Spec.model_fields)}"
        )
    return normalise(data)


def packaged_specs() -> tuple[str, ...]:
    """Names of the packaged specs."""
    root = files("uedp_bench.specs")
    names = [entry.name for entry in root.iterdir()]
    names += [f"paper/{entry.name}" for entry in root.joinpath("paper").iterdir()]
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


def normalise(data: Mapping[str, Any]) -> dict[str, Any]:
    """Also accepts the singular keys of a result's spec (`mechanism`, `seed`)."""
    out = dict(data)
    if "mechanism" in out:
        out["mechanisms"] = [*out.get("mechanisms", []), out.pop("mechanism")]
    if "seed" in out:
        out["seeds"] = [out.pop("seed")]
    return out


def parse_spec(data: Mapping[str, Any]) -> Spec:
    """The validated spec.

    Raises:
        InputError: naming the field; unknown keys get the nearest known one.
    """
    spec = parse_params(Spec, data, "spec")
    if not isinstance(spec, Spec) or not spec.mechanisms:
        raise InputError("spec.mechanisms is empty: name at least one mechanism")
    return spec


def apply_setting(data: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Applies `--set`: source.x, task.x, model.x, mechanism.x, mechanism.NAME.x, attack.NAME.x.

    Raises:
        InputError: if the setting addresses nothing, or several components.
    """
    name = ".".join(path)
    if path == ("delta",) or list(path) == ["delta"]:
        data["delta"] = value
        return
    kind, *rest = path
    if kind in ("task", "source", "model") and len(rest) == 1:
        ref = _ref(data.get(kind, Spec.model_fields[kind].default.name))
        data[kind] = {"name": ref["name"], "params": {**ref.get("params", {}), rest[0]: value}}
        return
    if kind.rstrip("s") not in ("mechanism", "attack") or not 1 <= len(rest) <= 2:
        raise InputError(
            f"--set {name}: start with source., task., model., mechanism. or attack., then the "
            "parameter (mechanism.user-dp.rounds names the mechanism too)"
        )
    kind = kind.rstrip("s")
    if kind == "mechanism":
        data["mechanisms"] = [_composition(c) for c in data.get("mechanisms", [])]
        refs = [ref for composition in data["mechanisms"] for ref in composition]
    else:
        refs = data["attacks"] = [_ref(part) for part in data.get("attacks", [])]
    _set_in(refs, kind, rest, value)


def _set_in(refs: list[dict[str, Any]], kind: str, rest: Sequence[str], value: Any) -> None:
    names = sorted({ref["name"] for ref in refs})
    wanted = rest[0] if len(rest) == 2 else (names[0] if len(names) == 1 else None)
    if wanted is None:
        example = f"{kind}.{names[0]}.{rest[0]}" if names else f"--{kind} NAME"
        raise InputError(
            f"--set {kind}.{rest[0]} could mean several {kind}s ({', '.join(names) or 'none'}); "
            f"say which, for instance {example}"
        )
    if wanted not in names:
        raise UnknownNameError(f"{kind} of this spec", wanted, names)
    for ref in refs:
        if ref["name"] == wanted:
            ref["params"] = {**ref.get("params", {}), rest[-1]: value}


def expand(spec: Spec) -> list[RunSpec]:
    """All runs of a spec, seeds outermost, each with its defaults filled in.

    Raises:
        InputError: for an unknown name or parameter, or a value out of range.
    """
    tasks = _axes(spec.task, registry.tasks)
    sources = _axes(spec.source, registry.sources)
    models = _axes(spec.model, registry.models)
    mechanisms = [
        combination
        for composition in spec.mechanisms
        for combination in itertools.product(
            *(_axes(ref, registry.mechanisms) for ref in composition)
        )
    ]
    attacks = list(itertools.product(*(_axes(ref, registry.attacks) for ref in spec.attacks)))
    grid = itertools.product(spec.seeds, tasks, sources, models, attacks, mechanisms)
    runs = [
        RunSpec(task=task, source=source, model=model, mechanism=m, attacks=a, seed=seed,
                delta=spec.delta)
        for seed, task, source, model, a, m in grid
    ]  # fmt: skip
    unique = {run.model_dump_json(): run for run in runs}
    return list(unique.values())


def _axes(ref: Ref, kind: registry.Registry[Any]) -> list[ComponentSpec]:
    """The components that a reference stands for: one for every combination of list values."""
    component: type[Component[Any]] = kind.get(ref.name)
    fields = component.Params.model_fields
    options: list[Iterable[Any]] = []
    for name, value in ref.params.items():
        field = fields.get(name)
        is_axis = isinstance(value, list) and (field is None or not _fits(field.annotation, value))
        options.append(value if is_axis else [value])
    out = []
    for values in itertools.product(*options):
        params = parse_params(
            component.Params, dict(zip(ref.params, values, strict=True)), ref.name
        )
        out.append(ComponentSpec(name=ref.name, params=params.model_dump(mode="json")))
    return out


def _fits(annotation: Any, value: Any) -> bool:
    try:
        TypeAdapter(annotation).validate_python(value)
    except ValidationError:
        return False
    return True


def identity(spec: RunSpec, fingerprint: str) -> tuple[str, str]:
    """(id, group): hashes of what defines the run; group leaves the seed out.

    Paths are left out: the corpus' fingerprint stands for what they hold.
    """
    parts: dict[str, Any] = {"delta": spec.delta, "corpus": fingerprint}
    kinds = (
        ("task", registry.tasks, (spec.task,)),
        ("source", registry.sources, (spec.source,)),
        ("model", registry.models, (spec.model,)),
        ("mechanism", registry.mechanisms, spec.mechanism),
        ("attacks", registry.attacks, spec.attacks),
    )
    for kind, components, refs in kinds:
        parts[kind] = [_identity_of(components.get(ref.name), ref) for ref in refs]
    group = _digest(parts)
    return _digest({**parts, "seed": spec.seed}), group


def _identity_of(component: type[Component[Any]], ref: ComponentSpec) -> list[Any]:
    fields = component.Params.model_fields
    params = {k: v for k, v in ref.params.items() if not _is_path(fields[k].annotation)}
    return [ref.name, component.version, params]


def _is_path(annotation: Any) -> bool:
    return annotation is Path or any(_is_path(part) for part in get_args(annotation))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
