"""What mechanisms, attacks, tasks, sources and models share: a name and typed parameters."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from uedp_bench.errors import InputError, nearest


class Params(BaseModel):
    """Parameters of a component: frozen, self-validating, without unknown fields.

    Every field has a description (shown by `uedp-bench describe`) and its range as pydantic
    constraints, so that a bad value is refused before anything runs.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )


P = TypeVar("P", bound=Params)


@dataclass(frozen=True)
class MayBePath:
    """Marks a text parameter that may name a file or folder: `Annotated[str, MayBePath()]`.

    What the file or folder holds is then part of a run's identity, and its path is not.

    Attributes:
        words: values that are never a path.
    """

    words: tuple[str, ...] = ()


def at(default: object) -> Callable[[object], bool]:
    """For `exclude_if` of a parameter that was added later: at its default, specs leave it out.

    So results from before it keep their identity.
    """
    return lambda value: value == default


class Component(ABC, Generic[P]):
    """A named, versioned, parameterised part of a run.

    Attributes:
        name: the name it is registered under.
        version: raised when the same parameters give other results; part of a run's identity.
        source: where it comes from (paper, section).
        Params: the type of its parameters.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    source: ClassVar[str] = ""
    Params: ClassVar[type[Params]] = Params

    def __init__(self, params: P | None = None) -> None:
        self.params: P = cast("P", self.Params()) if params is None else params

    @classmethod
    def create(cls, values: Mapping[str, Any] | None = None) -> Any:
        """The component with these parameters, the rest at their defaults.

        Raises:
            InputError: for an unknown parameter (with the nearest name) or a value out of range.
        """
        return cls(cast("P", parse_params(cls.Params, values or {}, cls.name)))


def parse_params(params: type[BaseModel], values: Mapping[str, Any], owner: str) -> BaseModel:
    """Validated parameters; the first problem becomes one line that names field, value and range.

    Raises:
        InputError: see above.
    """
    try:
        return params.model_validate(dict(values))
    except ValidationError as error:
        raise InputError(
            "; ".join(_explain(params, problem, owner) for problem in error.errors())
        ) from None


def _explain(params: type[BaseModel], problem: Any, owner: str) -> str:
    field = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        near = nearest(field, params.model_fields)
        known = ", ".join(params.model_fields) or "none"
        hint = f"did you mean {near!r}?" if near else f"parameters: {known}"
        return f"{owner} has no parameter {field!r}; {hint}"
    if problem["type"] == "missing":
        return f"{owner} needs the parameter {field!r}"
    where = f"{owner}.{field}" if field else owner
    value = "" if isinstance(problem["input"], dict) else f" is {problem['input']!r}:"
    return f"{where}{value} {problem['msg'].removeprefix('Value error, ')}"
