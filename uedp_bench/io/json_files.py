"""JSON files of anybody, read within limits.

A file may be a pipe that nobody writes to, a link to an endless device, a gigabyte, nested without
end, or hold what JSON libraries let pass and other programs read otherwise.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from uedp_bench.errors import plain
from uedp_bench.io.files import UnreadableError, read_regular

MOST_BYTES = 16 * 2**20
"""Largest size of a result file; the largest reference result has 48 kB."""

MOST_DEPTH = 100
"""Most levels of a file's lists and objects; libraries for JSON have limits."""

MOST_SHOWN = 80
"""Characters of a file that a message repeats."""


class FormError(Exception):
    """Unreadable file; the message is a sentence without a subject."""


@dataclass(frozen=True)
class Parsed:
    """A JSON value.

    Attributes:
        value: the value; of names that one object has twice, the last counts.
        twice: such names, each once an object.
        sound: True if `faults` is known to find nothing.
    """

    value: Any
    twice: tuple[str, ...] = ()
    sound: bool = False


def file_text(path: Path) -> str:
    """Read the text of a regular file.

    Args:
        path: path of the file, or of a link to it.

    Raises:
        FormError: for anything else than a text of at most `MOST_BYTES`.
    """
    try:
        content = read_regular(path, "file", MOST_BYTES)
    except UnreadableError as error:
        raise FormError(error.reason) from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise FormError("is no text in UTF-8, so no JSON") from None


def parse(text: str) -> Parsed:
    """Parse a JSON text that is not nested too deeply.

    Raises:
        FormError: if the text is no such JSON.
    """
    quick = _parsed_quickly(text)
    if quick is not None:
        return quick
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            counted = Counter(name for name, _ in pairs)
            twice.extend(name for name, count in counted.items() if count > 1)
        return out

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise FormError(TOO_DEEP) from None
    except ValueError as reason:
        if _opened(text) > MOST_DEPTH:  # no version of Python has the same limit
            raise FormError(TOO_DEEP) from None
        raise FormError(f"is no JSON: {plain(str(reason), MOST_SHOWN)}") from None
    if _too_deep(value):
        raise FormError(TOO_DEEP)
    return Parsed(value, tuple(twice))


def _parsed_quickly(text: str) -> Parsed | None:
    """The value by a parser of compiled code; None where `parse` must look closer, or complain.

    That parser keeps the last of names that an object has twice. Then the value has fewer colons
    than the text, if no string of the text has one as an escape.
    """
    if "\\u003" in text:
        return None
    try:
        value = from_json(text, allow_inf_nan=False)
        again = to_json(value, inf_nan_mode="constants")
    except (ValueError, TypeError):  # half a character makes either
        return None
    whole = text.count(":") == again.count(b":")
    finite = b"Infinity" not in again and b"NaN" not in again
    return Parsed(value, sound=True) if whole and finite and not _too_deep(value) else None


TOO_DEEP = f"is nested too deeply; results have at most {MOST_DEPTH} levels"


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def _opened(text: str) -> int:
    """Most lists and objects that are open at once, in a text that need not be JSON."""
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket[0], 0)
        deepest = max(depth, deepest)
        if deepest > MOST_DEPTH:
            break
    return deepest


_NESTED = {dict, list}


def _too_deep(value: Any) -> bool:
    depth, level = 0, [value] if type(value) in _NESTED else []
    while level and depth <= MOST_DEPTH:
        inner = (one.values() if type(one) is dict else one for one in level)
        level = [x for values in inner for x in values if type(x) in _NESTED]
        depth += 1
    return depth > MOST_DEPTH


def faults(value: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Find values that JSON libraries let pass, and that no text or number has.

    Args:
        value: value of `parse`.

    Yields:
        The place of NaN, of an infinite number or of half a character, and the error.
    """
    todo: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while todo:
        where, part = todo.pop()
        if isinstance(part, dict | list):
            named = part.items() if isinstance(part, dict) else enumerate(part)
            for name, inner in named:
                if isinstance(name, str) and not name.isascii() and _HALF.search(name):
                    yield where, f"the name {plain(repr(name), MOST_SHOWN)} has half of a character"
                if isinstance(inner, dict | list) or _faulty(inner):
                    todo.append(((*where, name), inner))
        elif isinstance(part, float) and not math.isfinite(part):
            yield where, f'{part} is no number of JSON; infinity is the text "inf"'
        elif _faulty(part):
            yield where, f"{plain(repr(part), MOST_SHOWN)} has half of a character"


def _faulty(part: Any) -> bool:
    if isinstance(part, float):
        return not math.isfinite(part)
    return isinstance(part, str) and not part.isascii() and _HALF.search(part) is not None


_HALF = re.compile("[\ud800-\udfff]")
"""Surrogates, which JSON can write and UTF-8 cannot."""
