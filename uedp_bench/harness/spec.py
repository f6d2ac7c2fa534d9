"""Specs: what to run, as YAML or flags; a spec with lists is a grid of runs."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from uedp_bench import registry
from uedp_bench.accounting.assumptions import NoiseSource
from uedp_bench.component import Component, MayBePath, parse_params
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError, UnknownNameError, nearest, shown
from uedp_bench.files.regular_files import open_regular, read_text, shown_path
from uedp_bench.files.yaml_files import MOST_BYTES, load_yaml
from uedp_bench.harness.grid import axes, check, run_count
from uedp_bench.results import ComponentSpec, RunSpec
from uedp_bench.selection import Selection
from uedp_bench.source import SourceRef

NO_MODEL = "none"

MOST_RUNS = 10_000
"""Runs of a spec, unless more are asked for: grids multiply, and a slip makes millions."""


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
        default=None, description="the task's own by default; none for a task that trains nothing"
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
    selection: Selection | None = None

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
        hint = nearest(name, packaged_specs())
        known = ", ".join(packaged_specs())
        raise InputError(
            f"no spec {shown(path_or_name)}: neither a file nor a packaged spec; "
            + (f"did you mean {hint!r}?" if hint else f"packaged: {known}")
        )
    return files("uedp_bench.specs").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def packaged_specs() -> tuple[str, ...]:
    """Names of the packaged specs."""
    root = files("uedp_bench.specs")
    names = [entry.name for entry in root.iterdir()]
    names += [f"paper/{entry.name}" for entry in root.joinpath("paper").iterdir()]
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


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
    spec = parse_params(Spec, values, "spec")
    if not isinstance(spec, Spec):
        raise TypeError(f"{type(spec).__name__} is no Spec")
    return spec


def apply_setting(spec: Spec, path: Sequence[str], value: Any) -> Spec:
    """Applies `--set`: source.x, task.x, model.x, mechanism.x, mechanism.NAME.x, attack.NAME.x.

    Raises:
        InputError: if the setting addresses nothing, or several components.
    """
    kind, *rest = path
    data = spec.model_dump()
    if kind == "delta" and not rest:
        return parse_spec({**data, "delta": value})
    if kind == "model" and data["model"] is None:
        data["model"] = {"name": _model(spec).name, "params": {}}
    if kind in ("task", "source", "model") and len(rest) == 1:
        data[kind]["params"][rest[0]] = value
    elif kind in ("mechanism", "attack") and 1 <= len(rest) <= 2:
        every = [ref for composition in data["mechanisms"] for ref in composition]
        _set_in(every if kind == "mechanism" else data["attacks"], kind, rest, value)
    else:
        raise InputError(
            f"--set {'.'.join(path)}: start with source., task., model., mechanism. or attack., "
            "then the parameter (mechanism.user-dp.rounds names the mechanism too); delta has no "
            "prefix"
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
            ref["params"][rest[-1]] = value


def expand(spec: Spec, most: int = MOST_RUNS) -> list[RunSpec]:
    """All runs of a spec, seeds outermost, each with its defaults filled in.

    Args:
        spec: with any number of axes.
        most: runs that it may stand for.

    Raises:
        InputError: for an unknown name or parameter, a value out of range, nothing to run, or too
            many runs.
    """
    if not spec.mechanisms:
        raise InputError("no mechanism to run: give --mechanism NAME, or mechanisms in the spec")
    check(spec)
    count = run_count(spec, _model(spec))
    if count > most:
        raise InputError(
            f"the spec stands for {shown(count)} runs, and at most {most:,} are allowed: shorten "
            "the lists of its grid, or allow more with --max-runs"
        )
    tasks = axes(spec.task, registry.tasks)
    sources = axes(spec.source, registry.sources)
    models = axes(_model(spec), registry.models)
    mechanisms = [
        combination
        for composition in spec.mechanisms
        for combination in itertools.product(
            *(axes(ref, registry.mechanisms) for ref in composition)
        )
    ]
    attacks = list(itertools.product(*(axes(ref, registry.attacks) for ref in spec.attacks)))
    grid = itertools.product(spec.seeds, tasks, sources, models, attacks, mechanisms)
    runs = [
        RunSpec(task=task, source=source, model=model, mechanism=m, attacks=a, seed=seed,
                delta=spec.delta, noise_source=spec.noise_source,
                selection=_selection(spec, m))
        for seed, task, source, model, a, m in grid
    ]  # fmt: skip
    unique = {run.model_dump_json(): run for run in runs}
    return list(unique.values())


def _model(spec: Spec) -> Ref:
    """The model of a spec: for a task that trains nothing it is `none`, and no other fits."""
    task = registry.tasks.get(spec.task.name)
    if task.models is not None:
        return spec.model or Ref(name=task.default_model)
    if spec.model is not None and (spec.model.name != NO_MODEL or spec.model.params):
        raise InputError(
            f"the task {spec.task.name} trains nothing: leave out the model {spec.model.name}"
        )
    return Ref(name=NO_MODEL)


def _selection(spec: Spec, mechanisms: Sequence[ComponentSpec]) -> Selection | None:
    """What was selected for a run of these mechanisms."""
    if spec.selection is None:
        return None
    known = {ref.name for composition in spec.mechanisms for ref in composition}
    for name in spec.selection.tried:
        kind, component, *_ = name.split(".")
        if kind == "mechanism" and component not in known:
            raise UnknownNameError(f"mechanism of this spec (selection: {name})", component, known)
    chosen = spec.selection.concerning({ref.name for ref in mechanisms})
    if chosen is None or chosen.seeds is not None:
        return chosen
    return chosen.model_copy(update={"seeds": len(set(spec.seeds))})


def tried_runs(run: RunSpec) -> tuple[RunSpec, ...]:
    """The run at every setting that was tried, itself among them.

    Raises:
        InputError: if a setting addresses nothing or is out of range, or the run has other settings
            than those tried.
    """
    if run.selection is None:
        return (run,)
    alone = parse_spec(run.model_dump(mode="json", exclude={"selection"}))
    found: list[RunSpec] = []
    for setting in run.selection.settings():
        spec = alone
        for name, value in setting.items():
            spec = apply_setting(spec, name.split("."), value)
        found += expand(spec)
    if run.model_copy(update={"selection": None}) not in found:
        tried = "; ".join(f"{name}: {values}" for name, values in run.selection.tried.items())
        raise InputError(f"selection: the run {run.label} is none of the settings tried ({tried})")
    return tuple(found)


MOST_FILES = 10_000
"""In a folder that a parameter names; all of them are read."""

AND = "+"
"""Between the fingerprints of the two corpora of a run."""


def fingerprint_of(corpus: Corpus, downstream: Corpus | None) -> str:
    """The fingerprint of a run's data: of its corpus, and of its task's second one."""
    both = (corpus,) if downstream is None else (corpus, downstream)
    return AND.join(each.fingerprint for each in both)


def second_source(task: ComponentSpec) -> ComponentSpec | None:
    """The second source that the parameters of a task name; None where they name none."""
    fields = registry.tasks.get(task.name).Params.model_fields
    for name, value in task.params.items():
        if value is not None and name in fields and _names_source(fields[name].annotation):
            return ComponentSpec.model_validate(value)
    return None


def _names_source(annotation: Any) -> bool:
    return annotation is SourceRef or any(map(_names_source, get_args(annotation)))


Content = Callable[[Any, MayBePath], Any]
"""What counts in place of the value of a parameter that may name files."""


def path_mark(component: type[Component[Any]], name: str) -> MayBePath | None:
    """How a parameter may name files or folders; None where it never does."""
    field = component.Params.model_fields[name]
    mark = next((part for part in field.metadata if isinstance(part, MayBePath)), None)
    return MayBePath() if mark is None and _is_path(field.annotation) else mark


def _is_path(annotation: Any) -> bool:
    return annotation is Path or any(_is_path(part) for part in get_args(annotation))


def content_of(value: Any, mark: MayBePath) -> Any:
    """Digests of the files and folders that a parameter names; what names none stays."""
    if isinstance(value, list):
        return [content_of(part, mark) for part in value]
    if value is None or value in mark.words or not _exists(Path(value)):
        return value
    return _digest_of_files(Path(value).resolve())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no file could have this name
        return False


@lru_cache(maxsize=64)
def _digest_of_files(path: Path) -> str:
    digest = hashlib.sha256()
    folder = path.is_dir()
    inside = (p for p in path.rglob("*") if p.is_file()) if folder else iter([path])
    files = sorted(itertools.islice(inside, MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise InputError(f"{shown_path(path)}: a folder that a parameter names has more than "
                         f"{MOST_FILES:,} files; name the one that is meant")  # fmt: skip
    for file in files:
        name = file.relative_to(path).as_posix() if folder else ""
        with open_regular(file, "a file that a parameter names") as content:
            held = hashlib.file_digest(content, "sha256").hexdigest()
        digest.update(f"{name}\0{held}".encode())
    return digest.hexdigest()[:16]


def identity(spec: RunSpec, fingerprint: str) -> tuple[str, str]:
    """(id, group): hashes of what defines the run; group leaves the seed out.

    No path is part of it: the corpus' fingerprint stands for what a source's paths hold, and other
    files and folders count by their content.
    """
    return identity_of(identity_parts(spec, fingerprint))


def identity_of(parts: Mapping[str, Any]) -> tuple[str, str]:
    """(id, group) of what `identity_parts` gave, or of what a result recorded of it."""
    shared = {name: value for name, value in parts.items() if name != "seed"}
    return _digest(parts), _digest(shared)


def identity_parts(
    spec: RunSpec, fingerprint: str, content: Content = content_of
) -> dict[str, Any]:
    """What defines the run: its spec with versions, and digests in place of paths.

    Args:
        spec: of the run.
        fingerprint: of the corpus as the source made it, and of that of the task's second source
            (`fingerprint_of`); empty where none was made.
        content: in place of paths.
    """
    corpus, _, downstream = fingerprint.partition(AND)
    parts: dict[str, Any] = {
        "delta": spec.delta,
        "corpus": corpus,
        "task": component_identity(spec.task, registry.tasks, content),
        "source": component_identity(spec.source, registry.sources, None),
        "model": component_identity(spec.model, registry.models, content),
        "mechanism": [
            component_identity(ref, registry.mechanisms, content) for ref in spec.mechanism
        ],
        "attacks": [component_identity(ref, registry.attacks, content) for ref in spec.attacks],
        "seed": spec.seed,
    }
    if spec.noise_source != "seed":  # results of before it was a choice keep their ids
        parts["noise_source"] = spec.noise_source
    if downstream:
        parts["downstream"] = downstream
    if spec.selection is not None:
        parts["selection"] = spec.selection.declared()
    return parts


def component_identity(
    ref: ComponentSpec, kind: registry.Registry[Any], content: Content | None = content_of
) -> list[Any]:
    """Name, version and parameters, paths replaced by the digest of what they hold.

    Of a component of a lone file, the digest of that file comes last: nobody raises the version of
    a plug-in at every change. What the file imports from elsewhere is not part of it.

    Args:
        ref: the component.
        kind: where it is registered.
        content: in place of paths; None leaves out all parameters that name a file or folder.
    """
    component: type[Component[Any]] = kind.get(ref.name)
    params: dict[str, Any] = {}
    for name, value in ref.params.items():
        mark = path_mark(component, name)
        if value is not None and _names_source(component.Params.model_fields[name].annotation):
            params[name] = component_identity(ComponentSpec(**value), registry.sources, None)
        elif mark is None:
            params[name] = value
        elif content is not None:
            params[name] = content(value, mark)
    source = kind.digest(ref.name)
    return [ref.name, component.version, params, *([] if source is None else [source])]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
