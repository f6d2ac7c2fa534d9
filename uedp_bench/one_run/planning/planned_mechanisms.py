"""Mechanisms, pipelines and published systems that are accounted for without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from uedp_bench.accounting.event_contract import MOST_COUNT
from uedp_bench.accounting.events import (
    Claim,
    PrivacyEvent,
    PrivacyUnit,
    SentenceSampledGaussian,
    one_and_count,
)
from uedp_bench.accounting.published_systems import ALIASES, Reading, System
from uedp_bench.components import registry
from uedp_bench.components.component import check_whole, possible_numbers
from uedp_bench.components.registry import is_reviewed
from uedp_bench.contracts.learner import Rows
from uedp_bench.contracts.mechanism import Mechanism, TrainingMechanism
from uedp_bench.contracts.results import UNPROTECTED
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.errors import InputError, nearest
from uedp_bench.one_run.pipeline import Pipeline, numbered
from uedp_bench.spec.descriptions import (
    NOISE,
    component_class,
    has_parameter,
    is_alias,
)

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
        message: hint on the setting that gives it.
    """

    def __init__(self, size: str, message: str) -> None:
        self.size = size
        super().__init__(message)


class _SizesFromSettings(CorpusStats):
    """Public sizes from settings; a missing one is asked for when a mechanism looks at it.

    Attributes:
        seen: sizes that were looked at.
    """

    seen: set[str]
    _ask: Mapping[str, str]

    @staticmethod
    def for_mechanism(
        asker: str, parameters: Sequence[str], settings: Mapping[str, int]
    ) -> _SizesFromSettings:
        """Build the sizes for a mechanism with these parameters.

        Args:
            asker: command and mechanism that need the sizes.
            parameters: names of the mechanism's parameters.
            settings: size -> value.
        """
        sizes_or_missing: dict[str, Any] = {size: settings.get(size, _MISSING) for size in SIZES}
        sizes = _SizesFromSettings(**sizes_or_missing, public=True)
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
        sizes = {size: value for size, value in vars(self).items() if size in SIZES}
        return f"_SizesFromSettings({sizes}; {_MISSING} for missing)"

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in SIZES:
            self.seen.add(name)
            if value == _MISSING:
                raise MissingSizeError(name, self._ask[name])
        return value


def _whole_number(name: str, word: str, value: Any) -> int:
    """A size of a mechanism as a number, refused if it is none, below 0, or endless."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{name}: {word} is {value!r}; it must be a whole number, 0 or more")
    check_whole(value, f"{name}: {word}")
    return value


MANY = 10_000_000
"""More users than there are anywhere."""


@dataclass(frozen=True)
class PlannedMechanism:
    """A mechanism, or a published system, at parameters: plans its events without training.

    Attributes:
        name: registered name.
        params: parameters.
        sizes: public sizes that are no parameter of it.
        command: command for messages.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    command: str = "account"

    @staticmethod
    def from_settings(
        name: str, settings: Mapping[str, Any], command: str = "account"
    ) -> PlannedMechanism:
        """Build the mechanism with these settings; sizes that are no parameters go apart.

        Raises:
            InputError: for an unknown name or parameter, or a value out of range.
        """
        component = component_class(name)
        preset = ALIASES[name][1] if is_alias(name) else {}
        params, sizes = {**preset, **settings}, {}
        if not issubclass(component, System):
            for size, words in SIZES.items():
                for word in set(words) & (set(params) - set(component.Params.model_fields)):
                    sizes[size] = _whole_number(name, word, params.pop(word))
        try:
            component.create(params)
        except InputError as error:
            raise InputError(f"{error}; see: uedp-bench describe {name}") from None
        return PlannedMechanism(name, params, sizes, command)

    @property
    def fields(self) -> Mapping[str, Any]:
        """Its parameters: name -> pydantic field."""
        fields: Mapping[str, Any] = component_class(self.name).Params.model_fields
        return fields

    @property
    def unit(self) -> PrivacyUnit | None:
        """The unit of its guarantee."""
        component = self.component()
        unit: PrivacyUnit | None = (
            component.unit if isinstance(component, System) else component.protects
        )
        return unit

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """Itself where it is a mechanism that was not reviewed."""
        system = issubclass(component_class(self.name), System) or is_alias(self.name)
        reviewed = system or is_reviewed(registry.mechanisms, self.name)
        return () if reviewed else (f"mechanism {self.name}",)

    def component(self) -> Any:
        """The live mechanism or system."""
        return component_class(self.name).create(dict(self.params))

    def replaced(self, **values: Any) -> PlannedMechanism:
        """Copy with other parameters."""
        return replace(self, params={**self.params, **values})

    @property
    def chooses_noise(self) -> bool:
        """True if it chooses its noise itself, for a target among its parameters."""
        component = self.component()
        takes = isinstance(component, Mechanism) and component.takes_delta
        return takes and getattr(component.params, NOISE) is None

    def ending_at(self, spread: int) -> PlannedMechanism | None:
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
        rounds = [one_and_count(event.event)[0] for event in events]
        if not all(isinstance(each, SentenceSampledGaussian) for each in rounds):
            return None
        declared = [event.protected.spread for event in events if event.protected]
        return self.replaced(users=min(max([spread, *declared]) + 1, MOST_COUNT))

    def plan(self) -> tuple[tuple[PrivacyEvent, ...], tuple[str, ...]]:
        """Events, and reasons to refuse.

        Raises:
            MissingSizeError: where a public size is needed and was not given.
        """
        component = self.component()
        with possible_numbers(self.name):
            if isinstance(component, System):
                return component.plan(), ()
            return component.plan(self.public_sizes), component.refusals(self.public_sizes)

    def claims(self) -> tuple[Claim, ...]:
        """Claims of its paper.

        Raises:
            MissingSizeError: where a public size is needed and was not given.
        """
        component = self.component()
        arguments = () if isinstance(component, System) else (self.public_sizes,)
        with possible_numbers(self.name):
            claims: tuple[Claim, ...] = component.claims(*arguments)
        return claims

    @cached_property
    def public_sizes(self) -> _SizesFromSettings:
        """Public sizes, as mechanisms see them."""
        return _SizesFromSettings.for_mechanism(
            f"{self.command} {self.name}", tuple(self.fields), self.sizes
        )

    def readings(self) -> tuple[Reading, ...]:
        """Epsilons at further points."""
        readings: tuple[Reading, ...] = self.component().readings()
        return readings


@dataclass(frozen=True)
class PlannedPipeline:
    """Mechanisms one after the other, as a run has them: plan their events without training.

    Attributes:
        parts: mechanisms in their order.
        sizes: public sizes, those among them that are parameters of a part.
        taken: sizes that are parameters of a part.
    """

    parts: tuple[PlannedMechanism, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    @staticmethod
    def from_settings(name: str, settings: Mapping[str, Any]) -> PlannedPipeline:
        """The mechanisms of a name like `deidentify+user-dp`.

        A mechanism that trains may stand several times, once for each private stage of a task. The
        second goes by the name that its stage has in a run, `user-dp 2`.

        Args:
            name: names joined by +.
            settings: parameter -> value, or part.parameter -> value where several parts have it;
                delta goes to all, and a setting of a mechanism to each of its stages.

        Raises:
            InputError: as `PlannedMechanism.from_settings`; for a part that is no mechanism, or
                one that occurs twice and does not train.
        """
        kinds = [word.strip() for word in name.split("+")]
        words = numbered(kinds)
        for word, kind in zip(words, kinds, strict=True):
            if issubclass(component_class(kind), System):
                raise InputError(f"account {name}: {kind} is accounted for alone, not in a run")
            if word != kind and not issubclass(component_class(kind), TrainingMechanism):
                raise InputError(
                    f"account {name}: give every mechanism once, but for those that train, which "
                    "may stand once for each private stage"
                )
        params: dict[str, dict[str, Any]] = {word: {} for word in words}
        sizes: dict[str, int] = {}
        taken: set[str] = set()
        for path, value in settings.items():
            part, _, parameter = path.rpartition(".")
            named = zip(words, kinds, strict=True)
            having = [word for word, kind in named if has_parameter(kind, parameter)]
            owners = [part] if part else having
            alike = {kinds[words.index(owner)] for owner in owners if owner in words}
            if len(alike) > 1 and parameter != "delta":
                choices = " or ".join(f"{owner}.{parameter}" for owner in owners)
                raise InputError(f"--set {parameter}: several mechanisms have it; give {choices}")
            size = next((size for size, names in SIZES.items() if parameter in names), None)
            # A later stage may train on rows of another source, whose sizes are its own.
            if size is not None and value is not None and (not part or part in kinds):
                sizes[size] = _whole_number(name, parameter, value)
                taken |= {size} if owners else set()
            elif not owners:
                parameters = {
                    n for kind in kinds for n in component_class(kind).Params.model_fields
                }
                near = nearest(parameter, parameters)
                hint = (
                    f"did you mean {near!r}?" if near else f"choose from: {', '.join(parameters)}"
                )
                raise InputError(f"{name} has no parameter {parameter!r}; {hint}")
            for owner in owners:
                params[owner][parameter] = value
        named = zip(words, kinds, strict=True)
        parts = tuple(PlannedMechanism.from_settings(kind, params[word]) for word, kind in named)
        return PlannedPipeline(parts, sizes, frozenset(taken))

    @property
    def name(self) -> str:
        """As a run calls them."""
        return "+".join(part.name for part in self.parts)

    @cached_property
    def public_sizes(self) -> _SizesFromSettings:
        """Public sizes, as mechanisms see them."""
        parameters = tuple(name for part in self.parts for name in part.fields)
        return _SizesFromSettings.for_mechanism(f"account {self.name}", parameters, self.sizes)

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """Mechanisms among its parts that were not reviewed."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.unreviewed))

    @cached_property
    def _pipeline(self) -> Pipeline:
        default = registry.mechanisms.create(UNPROTECTED)
        parts = [part.component() for part in self.parts]
        trainers = sum(isinstance(part, TrainingMechanism) for part in parts)
        stages: list[Rows] = ["source"] * max(1, trainers)
        return Pipeline.build(parts, default, stages)

    def plan(self) -> tuple[tuple[PrivacyEvent, ...], tuple[str, ...]]:
        """Events, and reasons to refuse; see `PlannedMechanism.plan`."""
        return self._pipeline.plan(self.public_sizes), self._pipeline.refusals(self.public_sizes)

    def claims(self) -> tuple[Claim, ...]:
        """The claims of the papers, each of its own mechanism."""
        return self._pipeline.claims(self.public_sizes)

    def readings(self) -> tuple[Reading, ...]:
        """The readings of all mechanisms."""
        return tuple(reading for part in self.parts for reading in part.readings())

    def ending_at(self, spread: int) -> None:
        """The number of users is always asked for; see `PlannedMechanism.ending_at`."""
