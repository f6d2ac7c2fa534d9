"""What can be accounted for without training: a mechanism, several in a row, a published system."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from uedp_bench import registry
from uedp_bench.accounting.events import (
    Claim,
    PrivacyEvent,
    PrivacyUnit,
    SentenceSampledGaussian,
)
from uedp_bench.accounting.systems import ALIASES, SYSTEMS, Reading, System
from uedp_bench.errors import InputError, UnknownNameError, nearest
from uedp_bench.harness.descriptions import describe_class
from uedp_bench.harness.pipeline import Pipeline
from uedp_bench.mechanism import CorpusStats

NOISE = "noise_multiplier"

MANY = 10_000_000
"""More users than there are anywhere."""

SIZES = {
    "users": ("users",),
    "rows": ("sentences", "records", "rows"),
    "sensitive_rows": ("sensitive_sentences",),
    "entities": ("entities",),
}
"""Sizes that a source documents -> the parameters that mechanisms have for them."""

_MISSING = -1


class MissingSizeError(InputError):
    """A size is needed that was not given.

    Args:
        size: field of `CorpusStats`.
        message: how to give it.
    """

    def __init__(self, size: str, message: str) -> None:
        self.size = size
        super().__init__(message)


class GivenSizes(CorpusStats):
    """Public sizes as given; one that was not is asked for when a mechanism looks at it.

    Attributes:
        seen: sizes that were looked at.
    """

    seen: set[str]
    _ask: Mapping[str, str]

    @staticmethod
    def of(asker: str, parameters: Sequence[str], given: Mapping[str, int]) -> GivenSizes:
        """The sizes for a mechanism with these parameters.

        Args:
            asker: command and mechanism that need them.
            parameters: its parameters' names.
            given: size -> value.
        """
        known: dict[str, Any] = {size: given.get(size, _MISSING) for size in SIZES}
        sizes = GivenSizes(**known, public=True)
        words = {
            size: next((word for word in names if word in parameters), names[0])
            for size, names in SIZES.items()
        }
        messages = {
            size: f"{asker} needs --set {word}=N: a public number that no source documents"
            for size, word in words.items()
        }
        object.__setattr__(sizes, "_ask", messages)
        object.__setattr__(sizes, "seen", set())
        return sizes

    def __repr__(self) -> str:
        given = {size: value for size, value in vars(self).items() if size in SIZES}
        return f"GivenSizes({given}; {_MISSING} for missing)"

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in SIZES:
            self.seen.add(name)
            if value == _MISSING:
                raise MissingSizeError(name, self._ask[name])
        return value


@dataclass(frozen=True)
class Subject:
    """What is accounted for: a mechanism, or a published system, at parameters.

    Attributes:
        name: as registered.
        params: as given.
        sizes: public sizes that are no parameter of it.
        command: that asks, for messages.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    command: str = "account"

    @staticmethod
    def of(name: str, settings: Mapping[str, Any], command: str = "account") -> Subject:
        """The subject with these settings; sizes that it has no parameter for are told apart.

        Raises:
            InputError: for an unknown name or parameter, or a value out of range.
        """
        component = component_class(name)
        preset = ALIASES[name][1] if _is_alias(name) else {}
        params, sizes = {**preset, **settings}, {}
        if not issubclass(component, System):
            for size, words in SIZES.items():
                for word in set(words) & (set(params) - set(component.Params.model_fields)):
                    sizes[size] = _count(name, word, params.pop(word))
        try:
            component.create(params)
        except InputError as error:
            raise InputError(f"{error}; see: uedp-bench describe {name}") from None
        return Subject(name, params, sizes, command)

    @property
    def fields(self) -> Mapping[str, Any]:
        """Its parameters: name -> pydantic field."""
        fields: Mapping[str, Any] = component_class(self.name).Params.model_fields
        return fields

    @property
    def unit(self) -> PrivacyUnit | None:
        """The unit of its guarantee."""
        unit: PrivacyUnit | None = component_class(self.name).unit
        return unit

    def component(self) -> Any:
        """The live mechanism or system."""
        return component_class(self.name).create(dict(self.params))

    def replaced(self, **values: Any) -> Subject:
        """The same with other parameters."""
        return replace(self, params={**self.params, **values})

    @property
    def chooses_noise(self) -> bool:
        """True if it chooses its noise itself, for a target among its parameters."""
        return (
            {NOISE, "epsilon"} <= set(self.fields)
            and not self.fields[NOISE].is_required()
            and self.params.get(NOISE, self.fields[NOISE].default) is None
        )

    def ending_at(self, spread: int) -> Subject | None:
        """With as few users as a curve up to this spread needs; None where it needs them all.

        A mechanism that samples sentences does not depend on the number of users: what is proven
        for a spread holds for any number, so the fewest among whom there is such an entity will do.

        Args:
            spread: other users; that of the protected point counts where it is larger.
        """
        if "users" not in self.fields:
            return None
        trial = self.replaced(users=MANY, **({NOISE: 1.0} if self.chooses_noise else {}))
        events = trial.plan()[0]
        rounds = [getattr(event.event, "event", event.event) for event in events]
        if not all(isinstance(each, SentenceSampledGaussian) for each in rounds):
            return None
        declared = [event.protected.spread for event in events if event.protected]
        return self.replaced(users=max([spread, *declared]) + 1)

    def plan(self) -> tuple[tuple[PrivacyEvent, ...], tuple[str, ...]]:
        """Events, and reasons to refuse.

        Raises:
            MissingSizeError: where a public size is needed and was not given.
        """
        component = self.component()
        if isinstance(component, System):
            return component.plan(), ()
        return component.plan(self.given), component.refusals(self.given)

    def claims(self) -> tuple[Claim, ...]:
        """What its paper claims.

        Raises:
            MissingSizeError: where a public size is needed and was not given.
        """
        component = self.component()
        if isinstance(component, System):
            return component.claims()
        claims: tuple[Claim, ...] = component.claims(self.given)
        return claims

    @cached_property
    def given(self) -> GivenSizes:
        """The public sizes, as mechanisms are told them."""
        return GivenSizes.of(f"{self.command} {self.name}", tuple(self.fields), self.sizes)

    def readings(self) -> tuple[Reading, ...]:
        """Epsilons at further points."""
        found: tuple[Reading, ...] = self.component().readings()
        return found


@dataclass(frozen=True)
class Composition:
    """Mechanisms one after the other, as a run has them.

    Attributes:
        parts: in their order.
        sizes: public sizes, those among them that are parameters of a part.
        taken: sizes that are parameters of a part.
    """

    parts: tuple[Subject, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    @staticmethod
    def of(name: str, settings: Mapping[str, Any]) -> Composition:
        """The mechanisms of a name like `deidentify+user-dp`.

        Args:
            name: names joined by +.
            settings: parameter -> value, or part.parameter -> value where several parts have it;
                delta goes to all.

        Raises:
            InputError: as `Subject.of`; for a part that is no mechanism, or one that occurs twice.
        """
        words = [word.strip() for word in name.split("+")]
        if len(set(words)) < len(words):
            raise InputError(f"account {name}: give every mechanism once")
        for word in words:
            if issubclass(component_class(word), System):
                raise InputError(f"account {name}: {word} is accounted for alone, not in a run")
        params: dict[str, dict[str, Any]] = {word: {} for word in words}
        sizes: dict[str, int] = {}
        taken: set[str] = set()
        for path, value in settings.items():
            part, _, parameter = path.rpartition(".")
            owners = [part] if part else [w for w in words if has_parameter(w, parameter)]
            if len(owners) > 1 and parameter != "delta":
                choices = " or ".join(f"{owner}.{parameter}" for owner in owners)
                raise InputError(f"--set {parameter}: several mechanisms have it; give {choices}")
            size = next((size for size, names in SIZES.items() if parameter in names), None)
            if size is not None and value is not None:
                sizes[size] = _count(name, parameter, value)
                taken |= {size} if owners else set()
            elif not owners:
                known = {n for word in words for n in component_class(word).Params.model_fields}
                near = nearest(parameter, known)
                hint = f"did you mean {near!r}?" if near else f"choose from: {', '.join(known)}"
                raise InputError(f"{name} has no parameter {parameter!r}; {hint}")
            for owner in owners:
                params[owner][parameter] = value
        parts = tuple(Subject.of(word, params[word]) for word in words)
        return Composition(parts, sizes, frozenset(taken))

    @property
    def name(self) -> str:
        """As a run calls them."""
        return "+".join(part.name for part in self.parts)

    @cached_property
    def given(self) -> GivenSizes:
        """The public sizes, as mechanisms are told them."""
        parameters = tuple(name for part in self.parts for name in part.fields)
        return GivenSizes.of(f"account {self.name}", parameters, self.sizes)

    @cached_property
    def _pipeline(self) -> Pipeline:
        default = registry.mechanisms.create("noiseless")
        return Pipeline.build([part.component() for part in self.parts], default)

    def plan(self) -> tuple[tuple[PrivacyEvent, ...], tuple[str, ...]]:
        """Events, and reasons to refuse; see `Subject.plan`."""
        return self._pipeline.plan(self.given), self._pipeline.refusals(self.given)

    def claims(self) -> tuple[Claim, ...]:
        """The claims of the papers, each of its own mechanism."""
        return self._pipeline.claims(self.given)

    def readings(self) -> tuple[Reading, ...]:
        """The readings of all mechanisms."""
        return tuple(reading for part in self.parts for reading in part.readings())

    def ending_at(self, spread: int) -> None:
        """The number of users is always asked for; see `Subject.ending_at`."""


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
    found = component_class(name).Params.model_fields.get(parameter)
    if found is None:
        return False
    return bool(found.is_required()) or (found.default is None and parameter != NOISE)


def component_class(name: str) -> Any:
    """The class of a mechanism, or of a published system.

    Raises:
        UnknownNameError: if there is none of this name.
    """
    if name in registry.mechanisms.names():
        return registry.mechanisms.get(name)
    if name in SYSTEMS:
        return SYSTEMS[name]
    if _is_alias(name):
        return _alias(name)
    raise UnknownNameError("mechanism", name, names())


def _is_alias(name: str) -> bool:
    return name in ALIASES and name not in registry.mechanisms.names()


@cache
def _alias(name: str) -> Any:
    """The mechanism under the name that its paper's system has, so that messages say that name."""
    base, preset = component_class(ALIASES[name][0]), ALIASES[name][1]
    differs = ", ".join(f"{parameter}={value}" for parameter, value in preset.items())
    note = f"{inspect.getdoc(base)}\n\nThe mechanism {base.name} with {differs} by default."
    return type(base.__name__, (base,), {"name": name, "__doc__": note})


def describe_system(name: str) -> dict[str, Any]:
    """What a published system declares, which is accounted for only; see `describe_class`."""
    component = component_class(name)
    original = SYSTEMS.get(name) or component.__mro__[1]
    described = describe_class("system", component, f"{original.__module__}:{original.__name__}")
    preset = ALIASES[name][1] if _is_alias(name) else {}
    for parameter in described["parameters"]:
        parameter["default"] = preset.get(parameter["name"], parameter["default"])
    return described


def _count(name: str, word: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{name}: {word} is {value!r}; it must be a whole number, 0 or more")
    return value
