"""Contract of events with accountants, and the open field for one of any registered kind.

A mechanism of anybody emits events of anybody: a class derives from `Event` and is registered in
the entry-point group `uedp_bench.events`, or by `@registry.events.register` in a file given with
`--plugin`. Events are values. The same module registers accountants for the class, in one of three
currencies (`loss_pairs`, `renyi_divergences`, `promises`), and `accountants.composing` composes
whatever has a currency in common.

Light at import: neither NumPy nor an accountant is loaded here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, ParamSpec, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny

from uedp_bench.components.component import parse_params
from uedp_bench.errors import PluginError, UnknownNameError, nearest, plain

PrivacyUnit = Literal[
    "record",
    "user",
    "client",
    "entity",
    "user-entity",
    "sentence",
    "word",
    "attribute",
    "computation",
]
"""Privacy unit: the part of the data that one change replaces."""

COMPUTATION: PrivacyUnit = "computation"
"""The unit whose promise is about another adversary: it neither protects nor spoils others."""

Adjacency = Literal["add-or-remove", "replace-one", "zero-out"]
"""Difference between two neighbouring data sets."""

Rate = Annotated[float, Field(ge=0.0, le=1.0)]
"""A probability."""

Notion = Literal["dp", "metric-dp", "simulation"]
"""Meaning of an event's epsilon; events of different notions do not compose."""

MOST_COUNT = 10**12
"""Rounds, units, or parts of a unit that an event may speak of, at most."""

Count = Annotated[int, Field(ge=1, le=MOST_COUNT)]
"""A number of rounds, of units, or of parts of a unit."""

MOST_KIND = 100
"""Characters of the name of a kind."""

MOST_UNKNOWN = 16_384
"""Characters of JSON of an event of a kind that is not registered here."""


class Frozen(BaseModel):
    """A value that never changes, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Protected(Frozen):
    """A point of the curve of user-entity guarantees: bounds on others that mention the entity.

    Attributes:
        spread: other users that mention it, at most.
        sentences_per_user: sentences in which each of them does, at most; one-level clipping
            protects any number.
    """

    spread: int = Field(ge=0, le=MOST_COUNT)
    sentences_per_user: Count = 1

    @property
    def sentences(self) -> int:
        """Sentences of other users that mention the entity, at most."""
        return self.spread * self.sentences_per_user


ALONE = Protected(spread=0)
"""A user, or an entity, that nobody else mentions."""


@dataclass(frozen=True)
class Neighbours:
    """Difference between two data sets that an event must not tell apart.

    Attributes:
        adjacency: difference in the unit.
        point: bounds on the other users that mention the entity, for the unit user-entity.
            Spread 0 is a user alone.
    """

    adjacency: Adjacency
    point: Protected = ALONE


class Promise(NamedTuple):
    """(epsilon, delta), epsilon in nats."""

    epsilon: float
    delta: float = 0.0


class Event(BaseModel):
    """One use of private data, as a frozen value that an accountant understands.

    A subclass declares `kind: Literal["its-name"] = "its-name"`, fields that say enough to write an
    accountant without seeing the mechanism. What it is worth is registered for the class, in an
    `AccountantTable`. All fields are hashable. Meanings never change: a new situation is a new
    kind.

    Attributes:
        kind: the name that the class is registered under.
        name: the kind, as components call it.
        version: of the meaning, for `uedp-bench describe`; it stays 1.
        source: where the analysis comes from (paper, theorem).
        Params: the class itself: its fields are what components call parameters.
        notion: meaning of epsilon.
        draws_gaussian: True if it draws Gaussian noise from the package's sampler, whose end is
            then part of delta (docs/proofs.md, section 9).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: ClassVar[str]
    version: ClassVar[int] = 1
    source: ClassVar[str] = ""
    Params: ClassVar[type[BaseModel]]
    notion: ClassVar[Notion] = "dp"
    draws_gaussian: ClassVar[bool] = False
    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        kind = cls.model_fields["kind"].default
        if isinstance(kind, str):
            cls.name, cls.Params = kind, cls

    @property
    def gaussian_rounds(self) -> int:
        """Number of rounds of noise from the package's Gaussian sampler that it stands for."""
        return int(self.draws_gaussian)

    @classmethod
    def create(cls, values: Mapping[str, Any] | None = None) -> Any:
        """Make an event with these fields.

        Raises:
            InputError: for an unknown field (with the nearest name) or a value out of range.
        """
        return parse_params(cls, values or {}, cls.name)

    def disjoint(self) -> tuple[tuple[Event, ...], ...]:
        """Sequences of events of which every unit meets exactly one; none for one that all meet."""
        return ()

    def refusal(self, adjacency: Adjacency) -> str:
        """Reason why nothing can be proven from it under an adjacency; empty if something can."""
        return ""

    def assumptions_of(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """Assumptions of the analysis of this kind of event, beside those of its emitter."""
        return ()

    def misplaced(self, unit: PrivacyUnit, adjacency: Adjacency) -> str:
        """Reason why the event cannot speak of a unit under an adjacency; empty if it can."""
        return ""

    def text(self, unit: PrivacyUnit) -> str:
        """The event in a sentence, for pages; by default its kind and its fields."""
        fields = self.model_dump(mode="json", exclude={"kind"})
        return ", ".join([self.kind, *(f"{name} {value}" for name, value in fields.items())])


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class AccountantTable(Generic[P, R]):
    """Functions of accountants by the type of event that each is about; subclasses inherit them.

    Args:
        missing: function for events of all other types.
    """

    def __init__(self, missing: Callable[P, R]) -> None:
        self.missing = missing
        self._functions = singledispatch(missing)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The answer of the function for the first argument, an event."""
        answer: R = self._functions(*args, **kwargs)
        return answer

    def __getitem__(self, kind: type[Event]) -> Callable[P, R]:
        """The function for events of a type; `missing` where none is registered."""
        return self._functions.dispatch(kind)

    def register(self, *kinds: type[Event]) -> Callable[[F], F]:
        """Decorator of the function for events of some types.

        What a reviewed event is worth must have been reviewed with it: a function is registered in
        the package, or the file, that has the event, and none replaces another.

        Raises:
            PluginError: for an event of another package, or one that has a function.
        """

        def add(function: F) -> F:
            for kind in kinds:
                if _package(kind) != _package(function):
                    raise PluginError(
                        f"{function.__module__} registers an accountant for {kind.__name__} of "
                        f"{kind.__module__}: accountants stand in the package of their event"
                    )
                if kind in self._functions.registry:
                    raise PluginError(f"{kind.__name__} has such an accountant already")
                self._functions.register(kind, function)
            return function

        return add


def _package(owner: Any) -> str:
    return str(owner.__module__).partition(".")[0]


class UnknownEvent(Event):
    """An event of a kind that nobody registered here, kept as it is in its file.

    Nothing is proven from it. It compares, and is written, by its JSON.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    kind: Annotated[str, Field(max_length=MOST_KIND)]

    def __hash__(self) -> int:
        return hash(json.dumps(self.model_dump(mode="json"), sort_keys=True))

    def refusal(self, adjacency: Adjacency) -> str:
        """Sentence that its kind is not registered, with a remedy."""
        return unknown_kind(self.kind)

    def text(self, unit: PrivacyUnit) -> str:
        """Its kind and the beginning of what it says."""
        return f"{plain(super().text(unit), 4 * MOST_KIND)} ({unknown_kind(self.kind)})"


def unknown_kind(kind: str) -> str:
    """Sentence that no event of a kind is registered, with the nearest kind that is."""
    from uedp_bench.components.registry import events

    near = nearest(kind, events.names())
    hint = f"did you mean {near!r}? Else give" if near else "give"
    return (
        f"no event of the kind {plain(kind, MOST_KIND)!r} is known here: {hint} its file with "
        "--plugin, or install its package"
    )


def read_event(value: Any) -> Any:
    """Read an event from its JSON, by its kind; keep one of an unknown kind as it is.

    Raises:
        ValueError: if it is no event: not a mapping with a kind, fields out of range, too large;
            or an event of a class that is not registered, which nobody could read again.
        PluginError: if the class of its kind does not load.
    """
    from uedp_bench.components.registry import events

    if isinstance(value, Event):
        if not isinstance(value, UnknownEvent) and value.kind not in events:
            raise ValueError(
                f"{type(value).__name__} is not registered: give @registry.events.register to the "
                "class in a file of --plugin, or an entry point in uedp_bench.events to its package"
            )
        return value
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ValueError("an event is a mapping with a kind")
    try:
        event_class = events.get(value["kind"])
    except UnknownNameError:
        return _unknown(value)
    return event_class.model_validate(value)


def _unknown(value: dict[str, Any]) -> UnknownEvent:
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, RecursionError):
        raise ValueError("is no JSON") from None
    if size > MOST_UNKNOWN:
        raise ValueError(f"an event of an unknown kind has at most {MOST_UNKNOWN:,} characters")
    return UnknownEvent.model_validate(value)


AnyEvent = Annotated[SerializeAsAny[Event], BeforeValidator(read_event)]
"""The open field: an event of any registered kind, or an `UnknownEvent`."""
