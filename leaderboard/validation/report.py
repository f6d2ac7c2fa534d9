"""Problems of a file, each at a field, and safe display of texts of strangers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.io import printable as terminal
from uedp_bench.io.json_files import MOST_SHOWN
from uedp_bench.leaderboard.bundles import Line

FEW = 4
"""Parts of a list or object that is repeated, not only named."""

MOST_SAID = 400
"""Characters of a sentence, at most."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(_Frozen):
    """One thing that is wrong with a result, or that could not be checked.

    Attributes:
        where: the field, its parts joined by dots; empty for the file.
        what: a sentence with the value and what is allowed.
        severity: "note" where nothing is known to be wrong: what could not be checked, and why.
    """

    where: str
    what: str
    severity: Literal["error", "note"] = "error"


class Report(_Frozen):
    """Problems of one file, or of one line of a bundle.

    Attributes:
        path: path of the file, as named by the caller; with the line of a bundle before it.
        id: id of the result, where it has a usable one.
        problems: errors first.
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


def shown(value: Any) -> str:
    """A value as a sentence repeats it: short, on one line, and in characters that print."""
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    if isinstance(value, dict | list | tuple):
        if len(value) <= FEW:
            return plain(json.dumps(value, default=str))
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) else str(value)
    return plain(repr(value) if isinstance(value, str) else str(value))


def plain(text: str, most: int = MOST_SHOWN) -> str:
    """A text without what a terminal would obey, cut where it is long."""
    return terminal.plain(text, most)
