"""Errors, and the words in which messages show the values of strangers.

::

    UedpBenchError
    ├── InputError            bad input: one line, exit code 2
    │   ├── UnknownNameError  no such mechanism, attack, ...; carries the nearest names
    │   ├── MissingExtraError an optional dependency is not installed; carries the install command
    │   ├── SeveralInputError  all errors of one input
    │   └── CapabilityError   a task, mechanism or attack cannot work with its input
    ├── PluginError           a plug-in breaks a promise of its contract
    │   └── PluginLoadError   it does not load, or two claim one name: an InputError, too
    ├── PrivacyError          execution differs from what the accountant was told
    └── TrackingError         MLflow cannot be reached or refuses; results on disk are whole
"""

from __future__ import annotations

import difflib
import json
import re
import reprlib
import shlex
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel


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


class UedpBenchError(Exception):
    """Base of all errors raised on purpose by this package."""


class InputError(UedpBenchError, ValueError):
    """Bad input. The message names the field, the value and what is allowed.

    Args:
        message: one sentence.
        mends: settings of `uedp-bench run --set` that mend it, together, such as
            `mechanism.user-dp.users=4000`; none where no setting does.
    """

    def __init__(self, message: str = "", mends: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.mends = mends


class SeveralInputError(InputError):
    """All errors of one input together."""

    def __init__(self, errors: Iterable[InputError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))


class Problems:
    """Collector of all errors of an input, to raise them together.

    Attributes:
        errors: errors by their messages, each once.
    """

    def __init__(self) -> None:
        self.errors: dict[str, InputError] = {}

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Go on after an `InputError` in the block."""
        try:
            yield
        except SeveralInputError as several:
            self.errors |= {str(each): each for each in several.errors}
        except InputError as error:
            self.errors.setdefault(str(error), error)

    def check(self) -> None:
        """Raise the collected errors.

        Raises:
            InputError: if there is any.
        """
        errors = tuple(self.errors.values())
        if len(errors) > 1:
            raise SeveralInputError(errors)
        for only in errors:
            raise only


class UnknownNameError(InputError):
    """A name that is not registered.

    Args:
        kind: kind of the component, in the singular ("mechanism").
        name: unknown name.
        names: registered names.
    """

    def __init__(self, kind: str, name: str, names: Iterable[str]) -> None:
        self.kind, self.name, self.names = kind, name, tuple(sorted(names))
        self.near = near = nearest(name, self.names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(self.names) or 'none'}"
        super().__init__(f"no {kind} named {shown(name)}; {hint}")


class MissingExtraError(InputError):
    """An optional dependency is missing; the message ends with the command that installs it."""

    def __init__(self, needed_for: str, install: str) -> None:
        super().__init__(f"{needed_for} is not installed; install it with: {install}")


class CapabilityError(InputError):
    """Two components cannot work together; the message says which capability is missing."""


class PluginError(UedpBenchError):
    """A plug-in breaks a promise of its contract."""


class PluginLoadError(PluginError, InputError):
    """A plug-in cannot be loaded, or its name is taken: nothing ran."""


class PrivacyError(UedpBenchError):
    """The events that training emitted are not the events that were planned."""


class TrackingError(UedpBenchError):
    """A result could not be logged to MLflow; its file on disk is complete."""


MOST_SHOWN = 80
"""Most characters of a value that a message repeats."""

MOST_COMPARED = 100
"""Most characters of a name; longer ones are close to none."""

ALIKE = 0.8
"""Similarity (difflib's ratio) of a misspelt name and the intended one."""


def shown(value: object) -> str:
    """Print a value as messages repeat it: on one line, and short however large it is."""
    try:
        text = _SHORT.repr(value)
    except ValueError:  # Python refuses to print numbers of more than 4,300 digits
        return "a number of very many digits"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = MOST_SHOWN


def described(error: BaseException) -> str:
    """The type and message of an error that nobody expected, and the line that raised it."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{name}: {text}{place}" if text else f"{name}{place}"


def nearest(name: str, names: Iterable[str], least: float = 0.6) -> str | None:
    """Find the name closest to `name`; None if none is close.

    Args:
        name: name as it was written.
        names: existing names.
        least: similarity of the two. A question needs less than `ALIKE`, at which a value may be
            moved from one name to the other.
    """
    if len(name) > MOST_COMPARED:
        return None
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=least)
    return close[0] if close else None


def is_input_error(name: str) -> bool:
    """True if the name of a type, as failed results hold it, is one of bad input."""
    kinds: list[type] = [InputError, *InputError.__subclasses__()]
    return name in {kind.__name__ for kind in kinds}
