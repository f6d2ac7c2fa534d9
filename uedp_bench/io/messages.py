"""Messages: texts of strangers as a terminal may print them, and settings that mend a bad value."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from uedp_bench.errors import ALIKE, InputError, SeveralInputError, nearest


def plain(text: str, most: int | None = None, *, lines: bool = False) -> str:
    r"""Escape everything that a terminal would obey or show out of order.

    Escape sequences, other control characters, and marks that turn the direction of writing are
    written as a Python string would write them: `\x1b`, `\u202e`.

    Args:
        text: text of anybody: a name, a path, a message.
        most: most characters to keep; the last one is `…` if the text is longer.
        lines: True if line breaks and tabs stay.
    """
    cut = text if most is None or len(text) <= most else f"{text[: most - 1]}…"
    if cut.isprintable():
        return cut
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in cut)


MOST_WRITTEN = 60
"""Most characters of a value; nobody wants to copy a longer one."""


def setting(name: str, value: Any) -> str:
    """`NAME=VALUE`, the value as YAML."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_./][\w./-]*", value)
    words = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    bare = plain and str(value).lower() not in words
    return f"{name}={value if bare else json.dumps(value, ensure_ascii=False, default=str)}"


def flags(mends: Iterable[str]) -> str:
    """Options of a command line, quoted for a shell."""
    return " ".join(f"--set {shlex.quote(each)}" for each in mends)


def below(error: InputError, owner: str) -> InputError:
    """Address the settings of an error to a component of a spec (`mechanism.user-dp`)."""
    if isinstance(error, SeveralInputError):
        return SeveralInputError(below(each, owner) for each in error.errors)
    error.mends = tuple(f"{owner}.{each}" for each in error.mends)
    return error


def only(error: InputError, names: Sequence[str]) -> InputError:
    """Remove settings of other names than these from an error; no `--set` gives them."""
    if isinstance(error, SeveralInputError):
        return SeveralInputError(only(each, names) for each in error.errors)
    if any(each.partition("=")[0] not in names for each in error.mends):
        error.mends = ()
    return error


def mends_of(params: type[BaseModel], problem: Any) -> tuple[str, ...]:
    """Settings that mend a problem of pydantic; none where nobody can know.

    Args:
        params: the type of the parameters.
        problem: problem of pydantic.
    """
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        if len(problem["loc"]) != 1:
            return ()
        near = nearest(name, params.model_fields, ALIKE)
        short = len(str(problem["input"])) <= MOST_WRITTEN
        right = (setting(near, problem["input"]),) if near and short else ()
        return (setting(name, None), *right)
    field = params.model_fields.get(str(problem["loc"][0])) if problem["loc"] else None
    if field is None or problem["type"] == "missing":
        return ()
    value = _allowed(problem) if len(problem["loc"]) == 1 else None
    if value is None and not field.is_required():
        value = field.get_default(call_default_factory=True)
        value = list(value) if isinstance(value, tuple) else value
        if not isinstance(value, str | int | float | bool | list | None):
            return ()
        return (setting(str(problem["loc"][0]), value),)
    return () if value is None else (setting(name, value),)


def _allowed(problem: Any) -> Any:
    """Allowed value that is nearest to a bad one; None if the type does not tell."""
    context = problem.get("ctx", {})
    if problem["type"] in ("greater_than_equal", "less_than_equal"):
        limit = context.get("ge", context.get("le"))
        whole = isinstance(problem["input"], int) and float(limit).is_integer()
        return int(limit) if whole else limit
    if problem["type"] == "literal_error":
        options: Sequence[str] = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        return nearest(str(problem["input"]), options, ALIKE)
    return None
