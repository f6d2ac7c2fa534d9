"""Contract of metrics: the reading of a result's numbers, as components declare it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from uedp_bench.components.component import Number, equals
from uedp_bench.errors import InputError, nearest, shown

Better = Literal["lower", "higher"]
Kind = Literal["utility", "leakage", "cost", "diagnostics"]

MOST_METRICS = 200
"""Most metrics that one component declares."""

MOST_LABEL = 60
"""Characters of a label."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has characters that nobody can print")
    return text


_Label = Annotated[str, Field(max_length=MOST_LABEL), AfterValidator(_printable)]
_Sentence = Annotated[str, Field(max_length=300), AfterValidator(_printable)]
_Unit = Annotated[str, Field(max_length=20), AfterValidator(_printable)]


def _but(default: object) -> Any:
    """Default of a field that results leave out where it has it."""
    return Field(default=default, exclude_if=equals(default))


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Metric:
    """Declaration of a metric.

    Attributes:
        name: name in results; one '*' stands for any text, or none.
        label: label in tables, by default the name. The text that '*' stands for replaces the '*'
            of the label, or follows it.
        about: one sentence for readers.
        better: direction that is better for a protector of text: less leakage is better. None for
            neither (references, floors, counts).
        unit: unit of the numbers; empty for none.
        percent: True for a fraction that tables show in percent.
        low, high: limits of honest values.
        no_leak: value where nothing leaks; less is chance, and no better.
        main: True if tables show it unless readers choose.
        baseline: name of the cheap model of private text, without privacy, that has this value of
            the headline; empty for all other metrics.
        floor_metric: name of the metric of the same attack up to which nothing leaks, where it is
            above `no_leak`; empty for none.
        limit_metric: name of the metric of the same attack that has its largest value.
    """

    name: str
    label: _Label = _but("")
    about: _Sentence = _but("")
    better: Better | None = _but(None)
    unit: _Unit = _but("")
    percent: bool = _but(False)
    low: Number = _but(-math.inf)
    high: Number = _but(math.inf)
    no_leak: Number | None = _but(None)
    main: bool = _but(False)
    baseline: _Label = _but("")
    floor_metric: str = _but("")
    limit_metric: str = _but("")

    @model_validator(mode="after")
    def _limits(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g}, above high, {self.high:g}")
        if self.no_leak is not None and not self.low <= self.no_leak <= self.high:
            raise ValueError(f"no_leak is {self.no_leak:g}, outside of low and high")
        return self

    def __hash__(self) -> int:
        """Hash of the name: boards look metrics up a million times."""
        return hash(self.name)

    @classmethod
    def rate(
        cls, name: str, label: str, about: str, better: Better | None = None, **more: Any
    ) -> Metric:
        """A fraction from 0 to 1 that tables show in percent."""
        return cls(name, label, about, better, percent=True, low=0.0, high=1.0, **more)

    @classmethod
    def share(
        cls, name: str, label: str, about: str, better: Better | None = None, **more: Any
    ) -> Metric:
        """A fraction from 0 to 1 that tables show as it is."""
        return cls(name, label, about, better, low=0.0, high=1.0, **more)

    def reads(self, name: str) -> bool:
        """True if it declares the metric of this name."""
        head, star, tail = self.name.partition("*")
        fits = name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail)
        return fits if star else name == self.name

    def named(self, name: str) -> Metric:
        """Metric of one name that it declares."""
        head, star, tail = self.name.partition("*")
        label = self.label or self.name.replace("_", " ")
        if star and name != self.name:
            rest = name.removeprefix(head).removesuffix(tail).replace("_", " ")
            label = label.replace("*", rest) if "*" in label else f"{label} {rest}".strip()
        return _changed(self, name=name, label=label)

    def ranked(self, larger_is_better: bool) -> Metric:
        """Metric as a headline that ranks results, whatever its declared direction."""
        return _same(_changed(self, better="higher" if larger_is_better else "lower", main=True))


def _changed(metric: Metric, **fields: Any) -> Metric:
    """Copy with fields that no component declared, and that need not keep to limits."""
    one = copy(metric)
    for name, value in fields.items():
        object.__setattr__(one, name, value)
    return one


@lru_cache(maxsize=10_000)
def _same(metric: Metric) -> Metric:
    """The first metric that equals it: thousands of results share their declarations."""
    return metric


MetricList = Annotated[
    tuple[Annotated[Metric, AfterValidator(_same)], ...], Field(max_length=MOST_METRICS)
]
"""Declarations of one component."""

COSTS = (
    Metric("train_seconds", "train s", "seconds of training and publishing", "lower", "s",
           low=0.0, main=True),
    Metric("peak_memory_mb", "peak MB", "peak memory, of the GPU where it trains on one", "lower",
           "MB", low=0.0, main=True),
    Metric("message_mb_a_round", "MB a round", "10^6 bytes between parties in a round",
           "lower", "MB", low=0.0, main=True),
    Metric("message_bytes", "bytes sent", "between parties, in all rounds", "lower", low=0.0),
    Metric("bytes_sent_by_each_*", "bytes sent by each", "mean over parties of this role", "lower",
           low=0.0),
    Metric("bytes_received_by_each_*", "bytes received by each", "mean over parties of this role",
           "lower", low=0.0),
    Metric("reference_seconds", "shadow s", "seconds of training shadow models and other models "
           "that attacks asked for, as if none were shared", "lower", "s", low=0.0),
    Metric("resumed", "resumed", "times that the run went on from a checkpoint", "lower", low=0.0),
    Metric("*_seconds", "* s", "seconds of this phase", "lower", "s", low=0.0),
)  # fmt: skip
"""Costs of every run; mechanisms declare further counts."""

DIAGNOSTICS = (
    Metric("signal_to_noise", "signal/noise", "norm of the clipped sum over the norm of the noise",
           low=0.0, main=True),
)  # fmt: skip
"""Diagnostics of every training with noise."""


class Declared(BaseModel):
    """Declarations of the metrics of a run, by its components.

    Attributes:
        utility: metrics of the task.
        leakage: metrics of each attack that ran.
        cost: metrics of the mechanisms.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    utility: MetricList = ()
    leakage: dict[str, MetricList] = {}
    cost: MetricList = Field(default=(), exclude_if=equals(()))

    def metric(self, kind: Kind, name: str, attack: str = "") -> Metric:
        """The metric of a name; undeclared ones have no direction and no limits.

        Args:
            kind: kind of the metric.
            name: name in results.
            attack: attack that measured it, for the kind "leakage".
        """
        return _search(self.declarations(kind, attack), name)[1]

    def place(self, kind: Kind, name: str, attack: str = "") -> int:
        """Place of a metric among those of its component; undeclared ones come last."""
        return _search(self.declarations(kind, attack), name)[0]

    def declarations(self, kind: Kind, attack: str = "") -> tuple[Metric, ...]:
        """All declarations of a kind, or of an attack."""
        if kind == "leakage":
            return self.leakage.get(attack, ())
        if kind == "utility":
            return self.utility
        return (*COSTS, *self.cost) if kind == "cost" else DIAGNOSTICS


@lru_cache(maxsize=100_000)
def _search(metrics: tuple[Metric, ...], name: str) -> tuple[int, Metric]:
    exact = (at for at, one in enumerate(metrics) if one.name == name)
    fits = (at for at, one in enumerate(metrics) if one.reads(name))
    place = next(exact, next(fits, len(metrics)))
    return place, (*metrics, Metric(name))[place].named(name)


def refuse_undeclared(owner: str, metrics: tuple[Metric, ...], names: Iterable[str]) -> None:
    """Refuse metrics that a component gives and does not declare.

    A component that declares none at all may give any: they are shown without a direction.

    Args:
        owner: the component, for the message ("the attack NAME").
        metrics: its declarations.
        names: names of its measurements.

    Raises:
        InputError: naming the component, the metric and the nearest declared one.
    """
    for name in names if metrics else ():
        if not any(one.reads(name) for one in metrics):
            near = nearest(name, [one.name for one in metrics])
            hint = f"did you mean {near!r}?" if near else "add Metric(...) of this name to them"
            raise InputError(
                f"{owner} gives the metric {shown(name)}, and its `metrics` do not declare it; "
                f"{hint}"
            )
