"""Base of mechanisms, attacks, tasks, sources and models: name, typed parameters, needs."""

from __future__ import annotations

import importlib.util
import math
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, PlainSerializer, ValidationError
from pydantic_core import core_schema

from uedp_bench.errors import (
    MOST_SHOWN,
    InputError,
    MissingExtraError,
    Problems,
    SeveralInputError,
    mends_of,
    nearest,
    plain,
    shown,
)

if TYPE_CHECKING:
    from uedp_bench.components.metric import Metric


@dataclass(frozen=True)
class Requirement:
    """A package that a component needs.

    Attributes:
        module: module that is imported.
        use: the package and its use ("peft (lora_rank)"), for messages.
        install: command that installs it.
    """

    module: str
    use: str
    install: str

    def is_installed(self) -> bool:
        """True if the module can be imported; it is not imported for that."""
        try:
            return importlib.util.find_spec(self.module) is not None
        except ValueError:  # a module that somebody made without a spec
            return True

    def check(self, owner: str = "") -> None:
        """Refuse to go on without the package.

        Args:
            owner: component that needs it, for the message.

        Raises:
            MissingExtraError: with the command that installs it.
        """
        if not self.is_installed():
            raise MissingExtraError(f"{owner}: {self.use}" if owner else self.use, self.install)


def _of_extra(module: str, use: str, extra: str) -> Requirement:
    """Requirement of a package that an extra of this package installs."""
    return Requirement(module, use, f"pip install 'uedp-bench[{extra}]'")


DATASETS = _of_extra("datasets", "datasets", "hub")
FAISS = _of_extra("faiss", "faiss, which has approximate indexes (search=hnsw),", "approximate")
GENSIM = _of_extra("gensim", "gensim, which reads .kv, .model and .bin,", "embeddings")
PEFT = _of_extra("peft", "peft (lora_rank)", "lora")
PRESIDIO = (
    _of_extra("presidio_analyzer", "presidio-analyzer (finds entities)", "ner"),
    _of_extra("tldextract", "tldextract (finds addresses)", "ner"),
)
SACREBLEU = _of_extra("sacrebleu", "sacrebleu (BLEU and chrF)", "translation")
SENTENCEPIECE = _of_extra("sentencepiece", "sentencepiece (reads Marian's pieces)", "translation")


def of_detector(detector: str, pipeline: str | None) -> tuple[Requirement, ...]:
    """Requirements of a detector of entities.

    Args:
        detector: "spacy", "presidio", or another that needs nothing.
        pipeline: name of an installed spaCy pipeline, or a folder; None for none.
    """
    if detector not in ("spacy", "presidio"):
        return ()
    needs = PRESIDIO if detector == "presidio" else ()
    if pipeline is None or not pipeline.isidentifier():  # a folder
        return needs
    return (*needs, _of_pipeline(pipeline))


def _of_pipeline(name: str) -> Requirement:
    """Requirement of a spaCy pipeline that is installed as a package."""
    return Requirement(name, f"the spaCy pipeline {name}", f"python -m spacy download {name}")


def of_embedding(embedding: str | None) -> tuple[Requirement, ...]:
    """Requirements of a file of word vectors, a folder, or `spacy:NAME`; None needs nothing."""
    if embedding is None:
        return ()
    if embedding.startswith("spacy:"):
        return (_of_pipeline(embedding.removeprefix("spacy:")),)
    return (GENSIM,) if embedding.endswith((".kv", ".model", ".bin")) else ()


def check_requirements(components: Iterable[Component[Any]]) -> None:
    """Refuse components whose packages are missing, before data are read.

    Raises:
        MissingExtraError: naming the component and the command that installs the package.
        SeveralInputError: if there are several.
    """
    problems = Problems()
    for component in components:
        for requirement in component.requires():
            with problems.collect():
                requirement.check(component.name)
    problems.check()


MOST_PART, MOST_PATH = 255, 4095
"""Bytes of a name between two slashes, and of a whole path, on every usual system."""

MOST_PROBLEMS = 8
"""Most problems of one component that a message names."""

MOST_SAID = 400
"""Most characters about one bad value."""


class Params(BaseModel):
    """Parameters of a component: frozen, self-validating, without unknown fields.

    Every field has a description (shown by `uedp-bench describe`) and its range as pydantic
    constraints, so that a bad value is refused before anything runs.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    def requires(self) -> tuple[Requirement, ...]:
        """Packages beyond the base installation that these values, or their parts, need."""
        parts = (getattr(self, name) for name in type(self).model_fields)
        return tuple(one for part in parts if isinstance(part, Params) for one in part.requires())


P = TypeVar("P", bound=Params)


@dataclass(frozen=True)
class MayBePath:
    """Mark of a text parameter that may name a file or folder: `Annotated[str, MayBePath()]`.

    The content of the file or folder is then part of a run's identity, and its path is not.

    Attributes:
        words: values that are never a path.
        of_a_run: True if it names the folder of a run, or the release in it; the run's record of
            the release counts in both cases.
        holds: files of the folder: a run is refused before data are read where one is missing.
    """

    words: tuple[str, ...] = ()
    of_a_run: bool = False
    holds: tuple[str, ...] = ()


def equals(default: object) -> Callable[[object], bool]:
    """Predicate for `exclude_if`: specs leave a parameter that was added later out at its default.

    Results from before the parameter keep their identity.
    """
    return lambda value: value == default


class _NoNaN:
    """Refuse NaN in compiled code: results have a hundred numbers each, and boards thousands."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        ordered = core_schema.float_schema(ge=-math.inf)  # NaN is not
        refusal = core_schema.custom_error_schema(ordered, "nan", custom_error_message="is NaN")
        return core_schema.chain_schema([handler(source), refusal])


def _write(value: float) -> float | str:
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


Number = Annotated[float, _NoNaN, PlainSerializer(_write, when_used="json")]
"""A float whose infinity is the string "inf" in JSON; NaN is refused."""


class Component(ABC, Generic[P]):
    """A named, versioned, parameterised part of a run.

    Attributes:
        name: the name it is registered under.
        version: raised when the same parameters give other results; part of a run's identity.
        source: source (paper, section).
        Params: the type of its parameters.
        metrics: declarations of its numbers: utility of a task, leakage of an attack, counts of a
            mechanism (`Run.count`). Results carry them.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    source: ClassVar[str] = ""
    Params: ClassVar[type[Params]] = Params
    metrics: ClassVar[tuple[Metric, ...]] = ()

    def __init__(self, params: P | None = None) -> None:
        self.params: P = cast("P", self.Params()) if params is None else params

    def reads(self) -> frozenset[str]:
        """Content (`entities`, `targets`, `records`, `layer NAME`) that it needs of its corpus.

        None by default. A run in which a publisher does not carry one of them is refused before it
        trains; of an attack, the attack is skipped.
        """
        return frozenset()

    def requires(self) -> tuple[Requirement, ...]:
        """Packages beyond the base installation that it needs; by default those of its parameters.

        A run is refused before its data are read if one is missing.
        """
        return self.params.requires()

    def check_files(self) -> None:
        """Refuse files that its parameters name and that it cannot use; none by default.

        It is called for every run before any data are read; files that are missing are refused
        before that.

        Raises:
            InputError: naming the parameter, the file and the error.
        """

    @classmethod
    def create(cls, values: Mapping[str, Any] | None = None, **others: Any) -> Any:
        """Create the component with parameters, the rest at their defaults.

        Args:
            values: values of its parameters.
            others: arguments of its constructor beside the parameters (a task's model).

        Raises:
            InputError: for an unknown parameter (with the nearest name) or a value out of range.
        """
        return cls(cast("P", parse_params(cls.Params, values or {}, cls.name)), **others)


def named(component: Component[Any]) -> dict[str, Any]:
    """Name and parameters of a component, from which its registry creates it again."""
    return {"name": component.name, "params": component.params.model_dump(mode="json")}


def parse_params(params: type[BaseModel], values: Mapping[str, Any], owner: str) -> BaseModel:
    """Validate parameters.

    Raises:
        InputError: for every problem a line that names field, value and range.
    """
    try:
        validated = params.model_validate(dict(values))
    except ValidationError as error:
        problems = _causes(error.errors(include_url=False))
        errors = [
            InputError(_explain(params, problem, owner), mends_of(params, problem))
            for problem in problems[:MOST_PROBLEMS]
        ]
        left = len(problems) - len(errors)
        if len(problems) == 1:
            raise errors[0] from None
        more = [InputError(f"and {left} more")] if left else []
        raise SeveralInputError([*errors, *more]) from None
    except (OverflowError, RecursionError) as error:
        raise InputError(f"{owner}: a value is too large or too deep: {error}") from None
    for name, value in validated:
        _check_names(value, f"{owner}.{name}")
        if name != "seed":  # names a stream of random numbers, and is the size of nothing
            check_whole(value, f"{owner}.{name}")
    return validated


@contextmanager
def possible_numbers(owner: str) -> Iterator[None]:
    """Name the component whose parameters, with public sizes, make an impossible number.

    Args:
        owner: component, or several, whose events or claims are made inside.

    Raises:
        InputError: in place of pydantic's error about an event, or of an overflow.
    """
    try:
        yield
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise InputError(
            f"{owner}: from its parameters and public sizes follows an event whose {field} is "
            f"{shown(problem['input'])}: {plain(problem['msg'], MOST_SAID)}"
        ) from None
    except OverflowError as error:
        raise InputError(
            f"{owner}: its parameters and public sizes are larger than it computes with ({error})"
        ) from None


MOST_WHOLE = 10**12
"""Largest whole number of a parameter."""


def check_whole(value: Any, where: str) -> None:
    """Refuse whole numbers beyond all sizes, before they size an array or a loop.

    Raises:
        InputError: naming the field, the value and what is allowed.
    """
    if isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise InputError(f"{where} is {shown(value)}; it must be at most {MOST_WHOLE:,}")


def _check_names(value: Any, where: str) -> None:
    """Refuse paths that no file system has, before anything looks for them."""
    if isinstance(value, tuple | list):
        for part in value:
            _check_names(part, where)
    elif isinstance(value, Path):
        try:
            fits = all(len(part.encode()) <= MOST_PART for part in value.parts)
        except UnicodeEncodeError:
            raise InputError(f"{where} is {shown(str(value))}: it is not UTF-8") from None
        if not fits or len(str(value)) > MOST_PATH or "\0" in str(value):
            raise InputError(
                f"{where} is {shown(str(value))}: no file can have this name (a part of a path "
                f"has up to {MOST_PART} bytes, all of it up to {MOST_PATH}, none of them null)"
            )


_WORDINGS = {"path_type": "Input should be a path, written as text"}
"""Wordings in place of pydantic's, by its name of the problem."""


def _causes(problems: list[Any]) -> list[Any]:
    """Problems that do not follow from others: bad parts also make a list too short."""
    deep = [problem["loc"] for problem in problems]
    return [
        problem
        for problem in problems
        if problem["type"] != "too_short"
        or not any(loc[:-1] == problem["loc"] for loc in deep if loc != problem["loc"])
    ]


def _explain(params: type[BaseModel], problem: Any, owner: str) -> str:
    field = plain(".".join(str(part) for part in problem["loc"]), 2 * MOST_SHOWN)
    if problem["type"] == "extra_forbidden":
        near = nearest(field, params.model_fields)
        names = ", ".join(params.model_fields) or "none"
        hint = f"did you mean {near!r}?" if near else f"parameters: {names}"
        return f"{owner} has no parameter {shown(field)}; {hint}"
    if problem["type"] == "missing":
        whole, _, part = field.rpartition(".")
        if not whole:
            return f"{owner} needs the parameter {field!r}"
        index = f"part {part}, counted from 0," if part.isdigit() else repr(part)
        return f"{owner}.{whole} is {shown(problem['input'])}: {index} is missing"
    where = f"{owner}.{field}" if field else owner
    value = "" if isinstance(problem["input"], dict) else f" is {shown(problem['input'])}:"
    text = _WORDINGS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
    return f"{where}{value} {plain(text, MOST_SAID)}"
