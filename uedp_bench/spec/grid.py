"""Grids: a component with lists of values stands for one component for every combination."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from uedp_bench.accounting.declarations import Selection
from uedp_bench.components import registry
from uedp_bench.components.component import Component, parse_params
from uedp_bench.contracts.clients import Clients
from uedp_bench.contracts.results import ComponentSpec, RunSpec
from uedp_bench.errors import InputError, Problems, UnknownNameError, below, setting, shown
from uedp_bench.spec.spec import Ref, Spec, apply_setting, model_of, parse_spec

MOST_RUNS = 10_000
"""Runs of a spec, unless more are asked for: grids multiply, and a slip makes millions."""

CUT = ("valid", "test")
"""Shares that a source of a user's own file cuts off the split train where the file has no such
split."""


def expand(spec: Spec, most: int | None = None) -> list[RunSpec]:
    """All runs of a spec, seeds outermost, each with its defaults filled in.

    Args:
        spec: spec with any number of axes.
        most: runs that it may stand for; None for `MOST_RUNS`.

    Raises:
        InputError: for an unknown name or parameter, a value out of range, nothing to run, or too
            many runs.
    """
    if not spec.mechanisms:
        raise InputError("no mechanism to run: give --mechanism NAME, or mechanisms in the spec")
    check(spec)
    count, most = _run_count(spec, model_of(spec)), MOST_RUNS if most is None else most
    if count > most:
        raise InputError(
            f"the spec stands for {shown(count)} runs, and at most {most:,} are allowed: shorten "
            "the lists of its grid, or allow more with --max-runs"
        )
    problems = Problems()
    tasks = axes(spec.task, registry.tasks, problems)
    sources = axes(spec.source, registry.sources, problems)
    models = axes(model_of(spec), registry.models, problems)
    mechanisms = [
        combination
        for composition in spec.mechanisms
        for combination in itertools.product(
            *(
                [_at_delta(one, spec.delta) for one in axes(ref, registry.mechanisms, problems)]
                for ref in composition
            )
        )
    ]
    attacks = list(
        itertools.product(*(axes(ref, registry.attacks, problems) for ref in spec.attacks))
    )
    problems.check()
    _check_seeds(spec.seeds, mechanisms)
    grid = itertools.product(
        spec.seeds, tasks, sources, models, _client_axes(spec), attacks, mechanisms
    )
    runs = [
        RunSpec(task=task, source=_with_whole_train(source, m, spec.source.params), model=model,
                mechanism=m, attacks=a, seed=seed,
                delta=spec.delta, noise_source=spec.noise_source, clients=clients,
                selection=_selection(spec, m))
        for seed, task, source, model, clients, a, m in grid
    ]  # fmt: skip
    unique = {run.model_dump_json(): run for run in runs}
    return list(unique.values())


def _at_delta(mechanism: ComponentSpec, delta: float) -> ComponentSpec:
    """The mechanism, its target epsilon at the delta of the run unless it has one of its own."""
    params = mechanism.params
    has_target = params.get("epsilon") is not None and params.get("delta") is None
    if not has_target or not registry.mechanisms.get(mechanism.name).takes_delta:
        return mechanism
    return ComponentSpec(name=mechanism.name, params={**params, "delta": delta})


def _with_whole_train(
    source: ComponentSpec, mechanisms: Sequence[ComponentSpec], values: Mapping[str, Any]
) -> ComponentSpec:
    """The source, with shares of 0 where a model was trained on all of its split train before.

    Where attacks planted before that training (`trained-elsewhere.coins`), rows of valid and test
    were cut off then, and are as they were. `values` are the parameters that the user gave.

    Raises:
        InputError: if the user gives a share above 0.
    """
    parts = (registry.mechanisms.create(ref.name, ref.params) for ref in mechanisms)
    elsewhere = [(part.name, getattr(part, "elsewhere", None)) for part in parts]
    by_splits = [name for name, each in elsewhere if each is not None and each.coins is None]
    names = [name for name in CUT if "split_column" in source.params and name in source.params]
    if not by_splits or not names:
        return source
    for name in names:
        if values.get(name):
            raise InputError(
                f"source.{name} is {shown(values[name])}: {by_splits[0]} takes every row of the "
                "split train for one that the model was trained on, and none may be cut off them. "
                f"Leave source.{name} out, and mark rows of other people as test or held_out in "
                "the split_column"
            )
    return source.model_copy(update={"params": {**source.params, **dict.fromkeys(names, 0.0)}})


def _check_seeds(seeds: Sequence[int], mechanisms: Iterable[Sequence[ComponentSpec]]) -> None:
    """Refuse several seeds of a model that is there: they would pass for several trainings.

    Raises:
        InputError: naming the mechanism.
    """
    if len({*seeds}) == 1:
        return
    for name, params in {part.name: part.params for parts in mechanisms for part in parts}.items():
        if getattr(registry.mechanisms.create(name, params), "elsewhere", None) is not None:
            raise InputError(
                f"{name} releases a model that is there, the same at every seed: "
                f"{len({*seeds})} seeds would look like as many trainings, with no spread between "
                f"them. Give one seed (--seeds {seeds[0]})"
            )


def _selection(spec: Spec, mechanisms: Sequence[ComponentSpec]) -> Selection | None:
    """The selection that concerns a run of these mechanisms."""
    if spec.selection is None:
        return None
    mechanism_names = {ref.name for composition in spec.mechanisms for ref in composition}
    for name in spec.selection.tried:
        kind, component, *_ = name.split(".")
        if kind == "mechanism" and component not in mechanism_names:
            raise UnknownNameError(
                f"mechanism of this spec (selection: {name})", component, mechanism_names
            )
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
    runs: list[RunSpec] = []
    for tried in run.selection.settings():
        spec = alone
        for name, value in tried.items():
            spec = apply_setting(spec, name.split("."), value)
        runs += expand(spec)
    if run.model_copy(update={"selection": None}) not in runs:
        settings = "; ".join(f"{name}: {values}" for name, values in run.selection.tried.items())
        raise InputError(
            f"selection: the run {run.label} is none of the settings tried ({settings})"
        )
    return tuple(runs)


def check(spec: Spec) -> None:
    """Check the first values of every component, so that one error names all mistakes.

    Raises:
        InputError: naming every mistake.
    """
    problems = Problems()
    refs: list[tuple[Ref, registry.Registry[Any]]] = [
        (ref, registry.mechanisms) for composition in spec.mechanisms for ref in composition
    ]
    refs += [(ref, registry.attacks) for ref in spec.attacks]
    refs += [(spec.task, registry.tasks), (spec.source, registry.sources)]
    # A task that takes no model refuses every one, whatever its parameters: `expand` says so.
    is_registered = spec.task.name in registry.tasks.names()
    trains = not is_registered or registry.tasks.get(spec.task.name).models is not None
    refs += [(spec.model, registry.models)] if spec.model is not None and trains else []
    for ref, kind in refs:
        with problems.collect():
            _check_first(ref, kind)
    problems.check()


def _check_first(ref: Ref, kind: registry.Registry[Any]) -> None:
    """Look at the first values of a component.

    Raises:
        InputError: with what is wrong, and the settings that mend it.
    """
    place = _place(ref, kind)
    try:
        component = kind.get(ref.name)
    except UnknownNameError as error:
        error.mends = () if error.near is None else (setting(f"{place}.name", error.near),)
        raise
    try:
        first = [values[0] for values in _options(ref, component)]
        values = dict(zip(ref.params, first, strict=True))
        parse_params(component.Params, values, ref.name)
    except InputError as error:
        raise below(error, place) from None


def _run_count(spec: Spec, model: Ref) -> int:
    """Number of runs, those that come out the same counted as often as they are named."""
    mechanisms = sum(
        math.prod(_components(ref, registry.mechanisms) for ref in composition)
        for composition in spec.mechanisms
    )
    shared = [_components(spec.task, registry.tasks), _components(spec.source, registry.sources)]
    shared += [_components(model, registry.models), len(_client_axes(spec))]
    shared += [_components(ref, registry.attacks) for ref in spec.attacks]
    return len(spec.seeds) * mechanisms * math.prod(shared)


def _components(ref: Ref, kind: registry.Registry[Any]) -> int:
    """Number of components that a reference stands for."""
    return math.prod(map(len, _options(ref, kind.get(ref.name))))


def _options(ref: Ref, component: type[Component[Any]]) -> list[list[Any]]:
    """The values that each given parameter takes."""
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


def axes(ref: Ref, kind: registry.Registry[Any], problems: Problems) -> list[ComponentSpec]:
    """The components that a reference stands for: one for every combination of list values.

    Args:
        ref: names it.
        kind: kind of the component.
        problems: takes what is wrong with a combination, which is left out.
    """
    component: type[Component[Any]] = kind.get(ref.name)
    out = []
    for values in itertools.product(*_options(ref, component)):
        with problems.collect():
            try:
                params = parse_params(
                    component.Params, dict(zip(ref.params, values, strict=True)), ref.name
                )
            except InputError as error:
                raise below(error, _place(ref, kind)) from None
            out.append(ComponentSpec(name=ref.name, params=params.model_dump(mode="json")))
    return out


def _place(ref: Ref, kind: registry.Registry[Any]) -> str:
    """Path of a component in settings: `mechanism.user-dp`, `task`."""
    return f"{kind.kind}.{ref.name}" if kind.kind in ("mechanism", "attack") else kind.kind


def _client_axes(spec: Spec) -> list[Clients | None]:
    """The clients that a spec stands for: one for every combination of list values.

    Raises:
        InputError: for an unknown field, a value out of range, or an empty list.
    """
    if spec.clients is None:
        return [None]
    options = [value if isinstance(value, list) else [value] for value in spec.clients.values()]
    if [] in options:
        raise InputError("clients: a list is empty: a grid needs at least one value")
    combinations: list[Clients | None] = []
    for values in itertools.product(*options):
        try:
            clients = parse_params(Clients, dict(zip(spec.clients, values, strict=True)), "clients")
        except InputError as error:
            raise below(error, "clients") from None
        combinations.append(Clients.model_validate(clients.model_dump()))
    return combinations


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
