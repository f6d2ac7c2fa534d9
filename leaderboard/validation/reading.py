"""From a file of anybody to a `Result`, or to everything that keeps it from being one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from uedp_bench.leaderboard.validation.report import Problem, error, place, plain, shown
from uedp_bench.migrations import migrated
from uedp_bench.results import MOST_DEPTH, SCHEMA_VERSION, Result

MOST_BYTES = 64 * 2**20
MOST_PROBLEMS = 200
"""Problems that are listed of one file; the others are counted."""

_NEEDED = ("id", "group", "status", "spec")
"""Fields without which JSON is something else than a result."""


@dataclass(frozen=True)
class Reading:
    """What a file holds.

    Attributes:
        result: None where it is no result.
        problems: of the file and of its schema.
    """

    result: Result | None = None
    problems: tuple[Problem, ...] = ()


class _NotReadable(Exception):  # noqa: N818 - the one sentence that says why
    """The file cannot be looked into any further."""


def read(path: Path) -> Reading:
    """Reads a file of any schema version and lists all that is wrong with its form."""
    try:
        problems, data = _parsed(_text(path))
    except _NotReadable as reason:
        return Reading(problems=(error("", str(reason)),))
    version = data.get("schema_version", 1)
    if isinstance(version, int) and not 1 <= version <= SCHEMA_VERSION:
        known = f"versions 1 to {SCHEMA_VERSION}"
        what = f"{shown(version)} is unknown: this version of uedp-bench reads {known}"
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


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise _NotReadable("is a folder" if path.is_dir() else "there is no such file")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise _NotReadable(
                f"has {size / 2**20:.0f} MiB; results have at most {MOST_BYTES // 2**20}"
            )
        return path.read_bytes().decode("utf-8")
    except OSError as reason:
        raise _NotReadable(f"cannot be read: {reason.strerror}") from None
    except (UnicodeDecodeError, ValueError):
        raise _NotReadable("is no text in UTF-8, so no JSON") from None


def _parsed(text: str) -> tuple[list[Problem], dict[str, Any]]:
    """The object in a text, with what JSON libraries let pass and results must not have."""
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            names = [name for name, _ in pairs]
            twice.extend(name for name in out if names.count(name) > 1)
        return out

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise _NotReadable(_TOO_DEEP) from None
    except ValueError as reason:
        raise _NotReadable(f"is no JSON: {plain(str(reason))}") from None
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else shown(data)
        raise _NotReadable(f"is JSON of another kind: {kind}, and a result is an object")
    missing = [name for name in _NEEDED if name not in data]
    if len(missing) > 1:
        raise _NotReadable(f"is JSON of another kind: a result has {', '.join(missing)}")
    problems = [error(name, f"{shown(name)} is there twice in one object") for name in twice]
    problems += [error(place(where), what) for where, what in _no_values(data)]
    return problems, data


_TOO_DEEP = f"is nested too deeply; results have at most {MOST_DEPTH} levels"


def _no_values(data: Mapping[str, Any]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Places of NaN, of numbers beyond those of a float, and of what is no text."""
    todo: list[tuple[tuple[Any, ...], Any]] = [((), data)]
    while todo:
        where, value = todo.pop()
        if len(where) > MOST_DEPTH:
            raise _NotReadable(_TOO_DEEP)
        if isinstance(value, float) and not math.isfinite(value):
            yield where, f'{shown(value)} is no number of JSON; infinity is the text "inf"'
        elif isinstance(value, str) and _HALF.search(value):
            yield where, f"{shown(value)} has half of a character"
        elif isinstance(value, dict | list):
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            for name, part in parts:
                if isinstance(name, str) and _HALF.search(name):
                    yield where, f"the name {shown(name)} has half of a character"
                todo.append(((*where, name), part))


_HALF = re.compile("[\ud800-\udfff]")
"""Surrogates, which JSON can write and UTF-8 cannot."""


def _explained(found: Any) -> Problem:
    where = place(found["loc"])
    message = found["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if found["type"] == "missing":
        return error(where, "is missing")
    if found["type"] == "extra_forbidden":
        return error(where, "is no field of a result")
    if message != found["msg"]:
        message = f"it must be {message}" if "Input" in found["msg"] else message
    return error(where, f"{shown(found['input'])}: {plain(message, 200)}")


def _new(listed: list[Problem], known: list[Problem]) -> list[Problem]:
    """Those of fields that no known problem speaks of: NaN is no valid number either."""
    places = {problem.where for problem in known}
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
        told = plain(json.dumps(raw)) if isinstance(raw, float) else shown(raw)
        yield error(place(where), f"{told} must be written as {json.dumps(read)}")


def _differ(raw: Any, read: Any) -> bool:
    """Whether a value was read as another one; whole numbers may stand for floats."""
    if type(raw) is int and type(read) is float:
        return False
    return type(raw) is not type(read) or (isinstance(raw, str) and raw != read)


def _few(problems: list[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= MOST_PROBLEMS:
        return tuple(problems)
    left = len(problems) - MOST_PROBLEMS
    return (*problems[:MOST_PROBLEMS], error("", f"has {left} more problems"))
