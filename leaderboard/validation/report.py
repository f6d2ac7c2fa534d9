"""Reading of a file of anybody, and the report on its problems."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uedp_bench import errors as terminal
from uedp_bench.contracts.results import SCHEMA_VERSION, Result, migrated
from uedp_bench.io.files import MOST_SHOWN, FormError, faults, file_text, parse
from uedp_bench.leaderboard.sources import Line

_FEW = 4
"""Parts of a list or object that is repeated, not only named."""

MOST_SAID = 400
"""Characters of a sentence, at most."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(_Frozen):
    """One thing that is wrong with a result, or that could not be checked.

    Attributes:
        where: field, its parts joined by dots; empty for the file.
        what: sentence with the value and what is allowed.
        severity: "error", or "note" for what could not be checked, with the reason.
    """

    where: str
    what: str
    severity: Literal["error", "note"] = "error"


class Report(_Frozen):
    """Problems of one file, or of one line of a bundle.

    Attributes:
        path: path of the file, as named by the caller; with the line of a bundle before it.
        id: id of the result, where it has a usable one.
        problems: problems of the file, errors first.
        publication_notes: sentences for whoever publishes the file.
        numbers: numbers of a finished run, by which results of one id are told apart.
    """

    path: str
    id: str | None = None
    problems: tuple[Problem, ...] = ()
    publication_notes: tuple[str, ...] = ()
    numbers: dict[str, float] = Field(default={}, repr=False)

    @property
    def valid(self) -> bool:
        """True if there is no error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Problems that are errors."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Problems that are notes."""
        return tuple(problem for problem in self.problems if problem.severity == "note")


def error(where: str, what: str) -> Problem:
    """An error; see `Problem`."""
    return Problem(where=plain(where), what=plain(what, MOST_SAID))


def note(where: str, what: str) -> Problem:
    """A note; see `Problem`."""
    return Problem(where=plain(where), what=plain(what, MOST_SAID), severity="note")


def place_of(file: Path | Line) -> str:
    """The place of what is checked, as messages repeat it."""
    return plain(file.place if isinstance(file, Line) else str(file), MOST_SAID)


def place(parts: Iterable[Any]) -> str:
    """The parts of a field's name joined by dots."""
    return ".".join(str(part) for part in parts)


def texts_within(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """All texts in nested values, with the names and numbers that lead to them."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict | list | tuple):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            yield from texts_within(part, (*where, name))


def shown(value: Any) -> str:
    """A value as a sentence repeats it: short, on one line, and in characters that print."""
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    if isinstance(value, dict | list | tuple):
        if len(value) <= _FEW:
            return plain(json.dumps(value, default=str))
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) else str(value)
    return plain(repr(value) if isinstance(value, str) else str(value))


def plain(text: str, most: int = MOST_SHOWN) -> str:
    """A text without what a terminal would obey, cut where it is long."""
    return terminal.plain(text, most)


MOST_PROBLEMS = 200
"""Problems that are listed of one file; the others are counted."""

_NEEDED = ("id", "group", "status", "spec")
"""Fields that JSON needs to be a result at all."""


@dataclass(frozen=True)
class Reading:
    """Contents of a file.

    Attributes:
        result: result in the file; None where it holds none.
        problems: problems of the file and of its schema.
    """

    result: Result | None = None
    problems: tuple[Problem, ...] = ()


def read(file: Path | Line) -> Reading:
    """Reads a result of any schema version and lists all that is wrong with its form.

    Args:
        file: a `result.json`, or the line of a bundle.
    """
    try:
        problems, data = _parsed(file.text if isinstance(file, Line) else file_text(file))
    except FormError as reason:
        return Reading(problems=(error("", str(reason)),))
    version = data.get("schema_version", 1)
    if isinstance(version, int) and not 1 <= version <= SCHEMA_VERSION:
        versions = f"versions 1 to {SCHEMA_VERSION}"
        what = f"{shown(version)} is unknown: this version of uedp-bench reads {versions}"
        return Reading(problems=(*problems, error("schema_version", what)))
    data = migrated(data)
    try:
        result = Result.model_validate(data)
    except ValidationError as found:
        listed = [
            _explained(each) for each in found.errors(include_url=False, include_context=False)
        ]
        return Reading(problems=_few([*problems, *_new(listed, problems)]))
    if problems:
        return Reading(problems=_few(problems))
    return Reading(result, _few(list(_coerced(data, result.model_dump(mode="json"), ()))))


def _parsed(text: str) -> tuple[list[Problem], dict[str, Any]]:
    """The object in a text, with what JSON libraries let pass and results must not have."""
    parsed = parse(text)
    data = parsed.value
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else shown(data)
        raise FormError(f"is JSON of another kind: {kind}, and a result is an object")
    missing = [name for name in _NEEDED if name not in data]
    if len(missing) > 1:
        raise FormError(f"is JSON of another kind: a result has {', '.join(missing)}")
    problems = [error(name, f"{shown(name)} is there twice in one object") for name in parsed.twice]
    problems += [error(place(where), what) for where, what in faults(data)]
    return problems, data


def _explained(details: Any) -> Problem:
    where = place(details["loc"])
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if details["type"] == "missing":
        return error(where, "is missing")
    if details["type"] == "extra_forbidden":
        return error(where, "is no field of a result")
    if message != details["msg"]:
        message = f"it must be {message}" if "Input" in details["msg"] else message
    return error(where, f"{shown(details['input'])}: {plain(message, 200)}")


def _new(listed: list[Problem], reported: list[Problem]) -> list[Problem]:
    """Problems of fields that are not reported yet: NaN is no valid number either."""
    places = {problem.where for problem in reported}
    return [p for p in listed if p.where not in places and "NaN" not in p.what]


def _coerced(raw: Any, read: Any, where: tuple[Any, ...]) -> Iterator[Problem]:
    """Values that were read as another kind of value: "1" for 1, 3.0 for 3, true for 1."""
    if isinstance(raw, dict) and isinstance(read, dict):
        for name in raw.keys() & read.keys():
            yield from _coerced(raw[name], read[name], (*where, name))
    elif isinstance(raw, list) and isinstance(read, list):
        for number, (a, b) in enumerate(zip(raw, read, strict=False)):
            yield from _coerced(a, b, (*where, number))
    elif _differ(raw, read):
        written = plain(json.dumps(raw)) if isinstance(raw, float) else shown(raw)
        yield error(place(where), f"{written} must be written as {json.dumps(read)}")


def _differ(raw: Any, read: Any) -> bool:
    """True if a value was read as another one; whole numbers may stand for floats."""
    if type(raw) is int and type(read) is float:
        return False
    return type(raw) is not type(read) or (isinstance(raw, str) and raw != read)


def _few(problems: list[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= MOST_PROBLEMS:
        return tuple(problems)
    left = len(problems) - MOST_PROBLEMS
    return (*problems[:MOST_PROBLEMS], error("", f"has {left} more problems"))
