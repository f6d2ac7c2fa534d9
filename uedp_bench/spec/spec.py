"""Specs: what to run, validated; a value of a list may be an axis of a grid.

They are read from YAML, in files of users and in those that come with the package, and changed by
`--set NAME=VALUE`: a dotted name and a value written as in YAML.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.components import registry
from uedp_bench.components.component import parse_params
from uedp_bench.errors import InputError, UnknownNameError, nearest, only, shown
from uedp_bench.io.files import read_text, shown_path
from uedp_bench.io.yaml_files import MOST_BYTES, load_yaml

NO_MODEL = "none"


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
    joined by '+', or a list of these. `selection` says how hyper-parameters were chosen, where
    trained models were compared for it. The `spec` of a result is a valid spec too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    description: str = ""
    task: Ref = Ref(name="next-word")
    source: Ref = Ref(name="embedded")
    model: Ref | None = Field(
        default=None, description="the task's own by default; none for a task that takes no model"
    )
    mechanisms: list[list[Ref]] = Field(default=[], description="compositions to compare")
    attacks: list[Ref] = []
    seeds: list[Annotated[int, Field(ge=0)]] = Field(default=[1], min_length=1)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    noise_source: NoiseSource = Field(
        default="seed",
        description="source of the numbers that protect: the seed, or the operating system, whose "
        "numbers nobody can draw again",
    )
    clients: dict[str, Any] | None = Field(
        default=None,
        description="how rows are dealt among the clients of a federation (`contracts.clients`); "
        "a list of values is an axis",
    )
    selection: Selection | None = None

    @field_validator("task", "source", "model", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return _ref(value)

    @field_validator("attacks", mode="before")
    @classmethod
    def _many(cls, value: Any) -> Any:
        return [_ref(part) for part in value] if isinstance(value, list) else value

    @field_validator("seeds")
    @classmethod
    def _different(cls, value: list[int]) -> list[int]:
        twice = next((seed for at, seed in enumerate(value) if seed in value[:at]), None)
        if twice is not None:
            raise ValueError(f"the seed {twice} stands there twice, and is one run")
        return value

    @field_validator("mechanisms", mode="before")
    @classmethod
    def _compositions(cls, value: Any) -> Any:
        return [_composition(part) for part in value] if isinstance(value, list) else value


def parse_spec(data: Mapping[str, Any]) -> Spec:
    """The validated spec; also takes the singular keys of a result's spec.

    Raises:
        InputError: naming the field; unknown keys get the nearest known one.
    """
    values = dict(data)
    for one, many in (("mechanism", "mechanisms"), ("seed", "seeds")):
        if one in values:
            if many in values:
                raise InputError(f"spec has both {one!r} and {many!r}: give one of them")
            values[many] = [values.pop(one)]
    try:
        spec = parse_params(Spec, values, "spec")
    except InputError as error:
        raise only(error, ("delta",)) from None
    if not isinstance(spec, Spec):
        raise TypeError(f"{type(spec).__name__} is no Spec")
    return spec


def sound_part(data: Mapping[str, Any]) -> Spec:
    """The spec without the fields that `parse_spec` refuses, so that all others can be checked."""
    sound: dict[str, Any] = {}
    for name, value in data.items():
        try:
            parse_spec({**sound, name: value})
        except InputError:
            continue
        sound[name] = value
    return parse_spec(sound)


def apply_setting(spec: Spec, path: Sequence[str], value: Any) -> Spec:
    """Apply `--set`: source.x, task.x, model.x, clients.x, mechanism.x, mechanism.NAME.x, ...

    `attack.x` and `attack.NAME.x` are as those of mechanisms; `delta` has no prefix. Null takes
    away what a component has no parameter for; `source.name` and `mechanism.NAME.name` give another
    component to the parameters, unless it has a parameter that is called so.

    Raises:
        InputError: if the setting addresses nothing, or several components.
    """
    kind, *rest = path
    data = spec.model_dump()
    if kind == "delta" and not rest:
        return parse_spec({**data, "delta": value})
    if kind == "model" and data["model"] is None:
        data["model"] = {"name": model_of(spec).name, "params": {}}
    if kind == "clients" and len(rest) == 1:
        data["clients"] = {**(data["clients"] or {}), rest[0]: value}
    elif kind in ("task", "source", "model") and len(rest) == 1:
        _put(data[kind], _REGISTRIES[kind], rest[0], value)
    elif kind in ("mechanism", "attack") and 1 <= len(rest) <= 2:
        every = [ref for composition in data["mechanisms"] for ref in composition]
        _set_in(every if kind == "mechanism" else data["attacks"], kind, rest, value)
    else:
        raise InputError(
            f"--set {'.'.join(path)}: start with source., task., model., clients., mechanism. or "
            "attack., then the parameter (mechanism.user-dp.rounds names the mechanism too); delta "
            "has no prefix"
        )
    return parse_spec(data)


def _set_in(refs: list[dict[str, Any]], kind: str, rest: Sequence[str], value: Any) -> None:
    names = sorted({ref["name"] for ref in refs})
    wanted = rest[0] if len(rest) == 2 else (names[0] if len(names) == 1 else None)
    if wanted is None:
        components = registry.mechanisms if kind == "mechanism" else registry.attacks
        fits = [name for name in names if rest[0] in components.get(name).Params.model_fields]
        example = f"{kind}.{(fits or names)[0]}.{rest[0]}" if names else f"--{kind} NAME"
        raise InputError(
            f"--set {kind}.{rest[0]} could mean several {kind}s ({', '.join(names) or 'none'}); "
            f"say which, for instance {example}"
        )
    if wanted not in names:
        raise UnknownNameError(f"{kind} of this spec", wanted, names)
    for ref in refs:
        if ref["name"] == wanted:
            _put(ref, _REGISTRIES[kind], rest[-1], value, named=len(rest) == 2)


_REGISTRIES: dict[str, registry.Registry[Any]] = {
    "task": registry.tasks,
    "source": registry.sources,
    "model": registry.models,
    "mechanism": registry.mechanisms,
    "attack": registry.attacks,
}


def _put(
    ref: dict[str, Any],
    kind: registry.Registry[Any],
    parameter: str,
    value: Any,
    *,
    named: bool = True,
) -> None:
    """Give a component a parameter, or take it away; `name` gives another component."""
    fields = kind.get(ref["name"]).Params.model_fields if ref["name"] in kind else {}
    if parameter in fields or not (named or value is None):
        ref["params"][parameter] = value
    elif parameter == "name" and named:
        ref["name"] = value
    elif value is None and parameter in ref["params"]:
        del ref["params"][parameter]
    else:
        ref["params"][parameter] = value


def model_of(spec: Spec) -> Ref:
    """The model of a spec: for a task that takes no model it is `none`, and no other fits."""
    task = registry.tasks.get(spec.task.name)
    if task.models is not None:
        return spec.model or Ref(name=task.default_model)
    if spec.model is not None and (spec.model.name != NO_MODEL or spec.model.params):
        raise InputError(
            f"the task {spec.task.name} takes no model: leave out the model {spec.model.name}"
        )
    return Ref(name=NO_MODEL)


# ----------------------------------------------------------------------------------- YAML and --set


def read_spec(path_or_name: str) -> dict[str, Any]:
    """Read a YAML spec from a path, or one of the packaged specs by name.

    Raises:
        InputError: if it is neither, or not a mapping.
    """
    path = Path(path_or_name)
    where = f"the spec {shown_path(path)}"
    text = read_text(path, "spec", MOST_BYTES) if _is_there(path) else _packaged(path_or_name)
    try:
        data = load_yaml(text)
    except InputError as error:
        raise InputError(f"{where} is not YAML that can be read: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"{where} must be a mapping with keys {', '.join(Spec.model_fields)}")
    return data


def _is_there(path: Path) -> bool:
    """True if something other than a folder has this name: folders are called as specs are."""
    try:
        return os.path.lexists(path) and not path.is_dir()
    except (OSError, ValueError):  # no name of a file
        return False


def _packaged(path_or_name: str) -> str:
    name = path_or_name.removeprefix("specs/").removesuffix(".yaml")
    if name not in packaged_specs():
        names = {each: each for each in packaged_specs()} | _beside(path_or_name)
        near = nearest(name.removesuffix(".yml"), names)
        hint = None if near is None else names[near]
        choices = ", ".join(n for n in packaged_specs() if not n.startswith("paper/"))
        raise InputError(
            f"no spec {shown(path_or_name)}: neither a file nor a packaged spec; "
            + (
                f"did you mean {hint!r}?"
                if hint
                else f"packaged: {choices}, and paper/... of docs/reproductions"
            )
        )
    return files("uedp_bench").joinpath(f"specs/{name}.yaml").read_text(encoding="utf-8")


def _beside(path: str) -> dict[str, str]:
    """Paths of specs in the folder that a path names, by what they are without their endings."""
    try:
        files = [file for file in Path(path).parent.iterdir() if file.suffix in (".yaml", ".yml")]
    except (OSError, ValueError):  # no name of a folder
        return {}
    return {str(file.with_suffix("")): str(file) for file in sorted(files)}


def packaged_specs() -> tuple[str, ...]:
    """Names of the packaged specs."""
    root = files("uedp_bench").joinpath("specs")
    names = [entry.name for entry in root.iterdir()]
    names += [f"paper/{entry.name}" for entry in root.joinpath("paper").iterdir()]
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


MOST_NAME, MOST_PARTS = 200, 8
"""Characters of a setting's name, and parts that dots separate."""


def parse_setting(text: str, example: str = "mechanism.rounds=50") -> tuple[tuple[str, ...], Any]:
    """Splits a setting into its path and its value.

    `mechanism.rounds=50` is `(("mechanism", "rounds"), 50)`. Values are YAML: numbers, `true`,
    `null`, `[1, 2]`; what is nothing else is a string. Numbers may also be written `1e-5`.

    Args:
        text: text that the user typed.
        example: example for messages.

    Raises:
        InputError: if there is no `=`, a part of the name is empty, or the value is not YAML.
    """
    name, sign, written = text.partition("=")
    path = tuple(part.strip() for part in name.split("."))
    if not sign or not all(path):
        raise InputError(f"--set {shown(text)}: write NAME=VALUE, for instance {example}")
    if len(path) > MOST_PARTS or len(name) > MOST_NAME:
        raise InputError(f"--set {shown(name)}: no parameter has such a name, as {example} does")
    try:
        value = load_yaml(written)
    except InputError as error:
        raise InputError(
            f"--set {name.strip()}: {shown(written)} is not a value (YAML: 5, 0.1, true, [1, 2], "
            f"text): {error}"
        ) from None
    return path, _with_exponents(value)


def _with_exponents(value: Any) -> Any:
    # YAML 1.1 reads 1e-5 (no dot) as text.
    if isinstance(value, list):
        return [_with_exponents(part) for part in value]
    if isinstance(value, str) and value[:1] in "+-.0123456789" and "e" in value.lower():
        try:
            return float(value)
        except ValueError:
            return value
    return value
