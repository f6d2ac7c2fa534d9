"""Guarantees from parameters alone: what a mechanism would promise, before anything is trained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from uedp_bench import registry
from uedp_bench.accounting.curve import Sizes
from uedp_bench.accounting.events import (
    Claim,
    GroupRound,
    PrivacyEvent,
    PrivacyUnit,
    Protected,
)
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.accounting.systems import ALIASES, SYSTEMS, Reading, System
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.mechanism import CorpusStats

DELTA = 1e-5
"""Delta where none is given, as of `uedp-bench run`."""

_SIZES = {
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
    def of(name: str, parameters: Sequence[str], given: Mapping[str, int]) -> GivenSizes:
        """The sizes for a mechanism with these parameters.

        Args:
            name: of the mechanism.
            parameters: its parameters' names.
            given: size -> value.
        """
        sizes = GivenSizes(**{size: given.get(size, _MISSING) for size in _SIZES}, public=True)
        words = {
            size: next((word for word in names if word in parameters), names[0])
            for size, names in _SIZES.items()
        }
        messages = {
            size: f"account {name} needs --set {word}=N: a public number that no source documents"
            for size, word in words.items()
        }
        object.__setattr__(sizes, "_ask", messages)
        object.__setattr__(sizes, "seen", set())
        return sizes

    def __repr__(self) -> str:
        given = {size: value for size, value in vars(self).items() if size in _SIZES}
        return f"GivenSizes({given}; {_MISSING} for missing)"

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in _SIZES:
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
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(name: str, settings: Mapping[str, Any]) -> Subject:
        """The subject with these settings; sizes that it has no parameter for are told apart.

        Raises:
            InputError: for an unknown name or parameter, or a value out of range.
        """
        preset: Mapping[str, Any] = {}
        if name in ALIASES and name not in registry.mechanisms.names():
            name, preset = ALIASES[name]
        params, sizes = {**preset, **settings}, {}
        component = _component_class(name)
        if not issubclass(component, System):
            for size, words in _SIZES.items():
                for word in set(words) & (set(params) - set(component.Params.model_fields)):
                    sizes[size] = _count(name, word, params.pop(word))
        component.create(params)
        return Subject(name, params, sizes)

    @property
    def fields(self) -> Mapping[str, Any]:
        """Its parameters: name -> pydantic field."""
        fields: Mapping[str, Any] = _component_class(self.name).Params.model_fields
        return fields

    @property
    def unit(self) -> PrivacyUnit | None:
        """The unit of its guarantee."""
        unit: PrivacyUnit | None = _component_class(self.name).unit
        return unit

    def component(self) -> Any:
        """The live mechanism or system."""
        return _component_class(self.name).create(dict(self.params))

    def replaced(self, **values: Any) -> Subject:
        """With other parameters."""
        return Subject(self.name, {**self.params, **values}, self.sizes)

    def sized(self, **values: int) -> Subject:
        """With other sizes."""
        return Subject(self.name, self.params, {**self.sizes, **values})

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
        return GivenSizes.of(self.name, tuple(self.fields), self.sizes)

    def readings(self) -> tuple[Reading, ...]:
        """Epsilons at further points."""
        component = self.component()
        return component.readings() if isinstance(component, System) else ()


def account(
    subject: Subject, delta: float, points: Sequence[int | None] | None = None
) -> tuple[Guarantee, ...]:
    """Claims, then proofs.

    Args:
        subject: what.
        delta: of every guarantee.
        points: spreads at which curves are given, None among them for everybody; by default the
            standard ones.
    """
    (events, refusals), claims = subject.plan(), subject.claims()
    for size in set(subject.sizes) - subject.given.seen:
        raise InputError(f"{subject.name} has no parameter {_SIZES[size][0]!r} and no use for it")
    return (*claimed(claims, delta), *prove(events, delta, refusals, points))


def prove(
    events: Sequence[PrivacyEvent],
    delta: float,
    refusals: Sequence[str] = (),
    points: Sequence[int | None] | None = None,
) -> tuple[Guarantee, ...]:
    """`ledger.proven` at spreads in place of points.

    Args:
        events: what happened.
        delta: of every guarantee.
        refusals: reasons why nothing can be proven.
        points: see `account` and `point_of`.
    """
    if points is None:
        return proven(events, delta=delta, refusals=refusals)
    at = [point_of(events, spread) for spread in points]
    return proven(events, delta=delta, refusals=refusals, points=at)


def point_of(events: Sequence[PrivacyEvent], spread: int | None) -> Protected:
    """The point of the curve for an entity that `spread` other users mention; None: everybody.

    Each of them does so in as many sentences as the events' declared point says, else in one;
    everybody in all of theirs.

    Raises:
        InputError: if there are not so many others.
    """
    bases = [getattr(event.event, "event", event.event) for event in events]
    rounds = [base for base in bases if isinstance(base, GroupRound)]
    each = next((e.protected.sentences_per_user for e in events if e.protected), 1)
    if not rounds:
        return Protected(spread=spread or 0, sentences_per_user=each)
    sizes = Sizes.of(rounds)
    if spread is None:
        return sizes.everybody
    # Where sentences are sampled, only how many of others are protected counts, not whose.
    if spread > sizes.users - 1 and not sizes.sentences:
        raise InputError(f"spread {spread}: there are only {sizes.users - 1} other users")
    return Protected(spread=spread, sentences_per_user=each)


def read_events(file: Path) -> tuple[tuple[PrivacyEvent, ...], tuple[str, ...], float | None]:
    """Events of a JSON list, or those of a result with its reasons to refuse and its delta.

    Raises:
        InputError: if the file is neither.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--events {file}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"--events {file} is no JSON: {error}") from None
    if isinstance(data, dict) and "events" in data:
        from uedp_bench.results import read_result

        result = read_result(file)
        refused = [g for g in result.guarantees if g.kind == "proven" and g.status == "refused"]
        return result.events, tuple(dict.fromkeys(g.reason for g in refused)), result.spec.delta
    try:
        return TypeAdapter(tuple[PrivacyEvent, ...]).validate_python(data), (), None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(
            f"--events {file}: {where}: {first['msg']}; give a list of privacy events, or a "
            "result.json"
        ) from None


def names() -> tuple[str, ...]:
    """Everything that can be accounted for."""
    return tuple(sorted({*registry.mechanisms.names(), *SYSTEMS, *ALIASES}))


def has_parameter(name: str, parameter: str) -> bool:
    """Whether the mechanism or system of this name has this parameter.

    Raises:
        UnknownNameError: if there is none of this name.
    """
    return parameter in _component_class(name).Params.model_fields


def needs_parameter(name: str, parameter: str) -> bool:
    """Whether it has this parameter, and no default for it."""
    field = _component_class(name).Params.model_fields.get(parameter)
    return field is not None and bool(field.is_required())


def _component_class(name: str) -> Any:
    if name in registry.mechanisms.names():
        return registry.mechanisms.get(name)
    if name in SYSTEMS:
        return SYSTEMS[name]
    if name in ALIASES:
        return _component_class(ALIASES[name][0])
    raise UnknownNameError("mechanism", name, names())


def _count(name: str, word: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{name}: {word} is {value!r}; it must be a whole number, 0 or more")
    return value
