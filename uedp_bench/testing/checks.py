"""Checks, the component that they are asked of, their outcomes, and checks of every component."""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any, Literal

from uedp_bench.components import registry
from uedp_bench.components.component import Component, Params
from uedp_bench.contracts.leakage import Attack
from uedp_bench.contracts.mechanism import Mechanism
from uedp_bench.contracts.source import Source
from uedp_bench.contracts.task import Task
from uedp_bench.errors import (
    InputError,
    MissingExtraError,
    PluginError,
    UedpBenchError,
    UnknownNameError,
    described,
)
from uedp_bench.io.folders import scratch_folder
from uedp_bench.spec.descriptions import describe_class
from uedp_bench.testing.small_parameters import fitted, known_params, known_partners

Kind = Literal["mechanism", "attack", "task", "source", "model"]
KINDS: tuple[Kind, ...] = ("mechanism", "attack", "task", "source", "model")
_REGISTRIES: dict[str, registry.Registry[Any]] = {
    kind: registry.REGISTRIES[f"{kind}s"] for kind in KINDS
}

_BASES: tuple[tuple[Kind, type], ...] = (
    ("mechanism", Mechanism),
    ("attack", Attack),
    ("task", Task),
    ("source", Source),
)

_MAKES = {"Channel": "metric-dp", "Published": "deidentify", "Transcript": "user-dp"}
"""Mechanisms whose runs show what attacks need that no trained model offers."""


@dataclass(eq=False)
class Subject:
    """A component with everything that its checks need to know.

    Attributes:
        component: class of the component; it is registered under its name unless it is already.
        params: parameters of a run that is over in a second; parameters that are not named are
            made small where their names are common (`rounds`, `epochs`), and else have their
            defaults.
        partners: partners in runs where the kit's own choice does not fit: components by kind,
            each a name or {"name": ..., "params": {...}}, and "clients" as in a spec. A task is
            then the only one.
        expected_failures: reasons by the names of checks that are known to fail.
    """

    component: type[Component[Any]]
    params: Mapping[str, Any] = field(default_factory=dict)
    partners: Mapping[str, Any] = field(default_factory=dict)
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted({*self.partners} - {*KINDS, "clients"})
        if unknown:
            raise UnknownNameError("kind of component", unknown[0], (*KINDS, "clients"))
        name = getattr(self.component, "name", None)
        if isinstance(name, str) and name not in self.registry:
            self.registry.register(self.component)

    @property
    def name(self) -> str:
        """The name that it is registered under; that of its class where it has none."""
        name = getattr(self.component, "name", None)
        return name if isinstance(name, str) else self.component.__qualname__

    @cached_property
    def kind(self) -> Kind:
        """Kind of its contract; a component of no other kind is a model."""
        kinds = (kind for kind, base in _BASES if issubclass(self.component, base))
        return next(kinds, "model")

    @property
    def registry(self) -> registry.Registry[Any]:
        """Registry of its kind."""
        return registry.REGISTRIES[f"{self.kind}s"]

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return scratch_folder()

    @property
    def folder(self) -> Path:
        """A folder for whatever its checks write; it goes when the subject goes."""
        return Path(self._folder.name)

    @property
    def lacks_files(self) -> bool:
        """True for a source of files that nobody gave: what it reads cannot be checked."""
        return getattr(self.component, "needs_path", False) and "path" not in self.params

    @cached_property
    def small(self) -> dict[str, Any]:
        """All parameters that differ from the defaults in its small runs."""
        params = known_params(self.kind, self.name, self.folder)
        if self.lacks_files:
            params["path"] = str(self.folder)
        return fitted(self.component, params, self.params)

    @cached_property
    def chosen_partners(self) -> dict[str, Any]:
        """Partners of its runs, as far as they are known before."""
        needs = {need.__name__ for need in getattr(self.component, "needs", ())}
        usual = [name for need, name in _MAKES.items() if need in needs]
        makers = {"mechanism": usual[0]} if self.kind == "attack" and usual else {}
        return {**makers, **known_partners(self.kind, self.name), **self.partners}

    def create(self) -> Any:
        """The component with its small parameters.

        Raises:
            InputError: if they are none that it takes.
        """
        return self.component.create(self.small)


def subjects_of(what: str, **more: Any) -> tuple[Subject, ...]:
    """The components that a text names: FILE, MODULE:CLASS, KIND/NAME or NAME.

    Args:
        what: text in one of these forms. A file is imported, and all that it registers is checked.
        more: fields of each `Subject`.

    Raises:
        InputError: if it names nothing, several things, or a file that registers nothing.
        PluginError: if what it names does not load.
    """
    if what.endswith(".py"):
        return tuple(Subject(one, **more) for one in _registered_by(Path(what)))
    if ":" in what:
        return (Subject(_imported(what), **more),)
    return (Subject(_named(what), **more),)


def _registered_by(file: Path) -> list[type[Component[Any]]]:
    if not file.exists():
        raise InputError(f"no such file: {file}")
    registry.load_plugins([file])
    beginning = f"{file.resolve()}:"
    components = [
        kind.get(name)
        for kind in _REGISTRIES.values()
        for name in kind.names()
        if kind.origin(name).startswith(beginning)
    ]
    if not components:
        raise InputError(
            f"{file} registers nothing that can be checked: write @mechanisms.register (or "
            "attacks, tasks, sources, models) above a class; an event is checked by its own test "
            "and by mechanisms that emit it"
        )
    return components


def _imported(what: str) -> type[Component[Any]]:
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` has it
    if what.partition(":")[0].endswith(".py"):
        raise InputError(
            f"{what} names a class of a file: give the file, {what.partition(':')[0]}, and all "
            "that it registers is checked"
        )
    try:
        component = resolve_name(what)
    except Exception as error:
        raise PluginError(f"{what} does not import: {type(error).__name__}: {error}") from error
    if not (isinstance(component, type) and issubclass(component, Component)):
        raise InputError(f"{what} is no component: it does not derive from one of their contracts")
    return component


def _named(what: str) -> type[Component[Any]]:
    kind, slash, name = what.rpartition("/")
    if slash and kind.removesuffix("s") not in _REGISTRIES:
        raise UnknownNameError("kind of component", kind, _REGISTRIES)
    registries = [_REGISTRIES[kind.removesuffix("s")]] if slash else [*_REGISTRIES.values()]
    matches = [each for each in registries if name in each]
    if len(matches) > 1:
        choices = ", ".join(f"{each.kind}/{name}" for each in matches)
        raise InputError(f"{name!r} names several things; say which: {choices}")
    if not matches:
        every = [each_name for each in registries for each_name in each.names()]
        raise UnknownNameError("component", name, every)
    component: type[Component[Any]] = matches[0].get(name)
    return component


State = Literal["passed", "failed", "skipped", "expected failure"]

MOST_SAID = 600
"""Characters of the reason of an outcome."""


class NotApplicable(Exception):  # noqa: N818 - it is no error
    """Raised by a check that has nothing to ask of a component; the message says why."""


@dataclass(frozen=True)
class Check:
    """One promise of the contract, and the function that asks a component to keep it.

    Attributes:
        name: name of the function.
        kinds: kinds of components that it is for.
        ask: function that raises an `AssertionError` with a sentence where the promise is broken,
            and `NotApplicable` where there is nothing to ask.
        about: purpose of the check: the first sentence of the function's docstring.
    """

    name: str
    kinds: tuple[Kind, ...]
    ask: Callable[[Subject], None]
    about: str


@dataclass(frozen=True)
class Outcome:
    """Outcome of one check.

    Attributes:
        check: name of the check.
        state: state of the check: a failure that was declared with a reason is an "expected
            failure"; a check that passes although its failure was declared has "failed".
        reason: reason of a failure or skip; empty where it passed.
        seconds: duration of the check.
    """

    check: str
    state: State
    reason: str = ""
    seconds: float = 0.0


_CHECKS: dict[str, Check] = {}


def check(*kinds: Kind) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Declares a function as a check of these kinds; of all of them where none is named."""

    def declare(ask: Callable[[Subject], None]) -> Callable[[Subject], None]:
        about = " ".join((ask.__doc__ or "").strip().partition("\n\n")[0].split())
        _CHECKS[ask.__name__] = Check(ask.__name__, kinds or KINDS, ask, about)
        return ask

    return declare


def all_checks() -> tuple[Check, ...]:
    """All checks of all kinds."""
    return tuple(_CHECKS.values())


def run_check(one: Check, subject: Subject) -> Outcome:
    """Ask one promise of a component."""
    expected, start = subject.expected_failures.get(one.name), time.perf_counter()
    state: State = "passed"
    reason = ""
    try:
        one.ask(subject)
        if expected is not None:
            state, reason = "failed", f"it passes, and was expected to fail: {expected}"
    except (NotApplicable, MissingExtraError) as said:
        state, reason = "skipped", str(said)
    except Exception as error:
        message = " ".join(str(error).split())
        is_own = isinstance(error, AssertionError | UedpBenchError) and message
        state, reason = "failed", message if is_own else described(error)
        if expected is not None:
            state, reason = "expected failure", f"{expected} ({reason})"
    return Outcome(one.name, state, reason[:MOST_SAID], time.perf_counter() - start)


# ------------------------------------------------------------------------ checks of every component

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
    for parameter, value in _bad_values(subject.component.Params):
        try:
            subject.component.create({**subject.small, parameter: value})
        except InputError as error:
            message = str(error)
            assert parameter in message and subject.name in message, (
                f"the refusal of {parameter}={value!r} does not name {subject.name}.{parameter}: "
                f"{message}"
            )
        else:
            raise AssertionError(
                f"{parameter}={value!r} is taken, and its type or range excludes it"
            )


_BEYOND = {"minimum": -1, "exclusiveMinimum": 0, "maximum": 1, "exclusiveMaximum": 0}
"""Differences of refused values from limits of JSON schemas."""


def _bad_values(params: type[Params]) -> Iterator[tuple[str, Any]]:
    """Values that the declared types and ranges exclude, by parameter."""
    yield "no_such_parameter", 1
    properties = params.model_json_schema(mode="validation").get("properties", {})
    for name, parameter in properties.items():
        if "type" not in parameter:
            continue  # several types, or another model
        if parameter["type"] in ("integer", "number"):
            yield name, "no number"
            yield name, math.nan
        for limit, beyond in _BEYOND.items():
            if limit in parameter:
                yield name, parameter[limit] + beyond
        if "enum" in parameter:
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
        for name in _imported_by(node):
            top = name.partition(".")[0]
            assert top not in SLOW, (
                f"line {node.lineno} imports {top} for all who import the module: import it inside "
                "the functions that use it, and under `if TYPE_CHECKING` for annotations"
            )


def _imported_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
