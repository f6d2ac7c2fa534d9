"""Every error that a user can meet, as one tree.

::

    UedpBenchError
    ├── InputError            bad input: one line, exit code 2
    │   ├── UnknownNameError  no such mechanism, attack, ...; carries the nearest names
    │   ├── MissingExtraError an optional dependency is not installed; carries the install command
    │   ├── SeveralInputError  all that is wrong with one input
    │   └── CapabilityError   a task, mechanism or attack cannot work with what it was given
    ├── PluginError           a plug-in breaks a promise of its contract
    │   └── PluginLoadError   it does not load, or two claim one name: an InputError, too
    ├── PrivacyError          what was executed is not what the accountant was told
    └── TrackingError         MLflow cannot be reached or refuses; results on disk are whole
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


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
    """Everything that is wrong with an input, said at once."""

    def __init__(self, errors: Iterable[InputError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))


class Problems:
    """Gathers what is wrong with an input, so that all of it is said at once.

    Attributes:
        found: errors by their messages, each once.
    """

    def __init__(self) -> None:
        self.found: dict[str, InputError] = {}

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Goes on after an `InputError` of what is inside."""
        try:
            yield
        except SeveralInputError as several:
            self.found |= {str(each): each for each in several.errors}
        except InputError as error:
            self.found.setdefault(str(error), error)

    def check(self) -> None:
        """Says what was found.

        Raises:
            InputError: if there was anything.
        """
        errors = tuple(self.found.values())
        if len(errors) > 1:
            raise SeveralInputError(errors)
        for only in errors:
            raise only


class UnknownNameError(InputError):
    """A name that is not registered.

    Args:
        kind: what was looked up, in the singular ("mechanism").
        name: the name that was asked for.
        known: the names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        self.near = near = nearest(name, self.known)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(self.known) or 'none'}"
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
    """A plug-in that was asked for cannot be loaded, or its name is taken: nothing ran."""


class PrivacyError(UedpBenchError):
    """The events that training emitted are not the events that were planned."""


class TrackingError(UedpBenchError):
    """A result could not be logged to MLflow; its file on disk is complete."""


MOST_SHOWN = 80
"""Characters of a value that a message repeats."""

MOST_COMPARED = 100
"""Characters of a name; longer ones are close to none."""

ALIKE = 0.8
"""Similarity (difflib's ratio) of a misspelt name and the one that was meant."""


def shown(value: object) -> str:
    """A value as a message repeats it: on one line, and short however large it is."""
    try:
        found = _SHORT.repr(value)
    except ValueError:  # Python refuses to print numbers of more than 4,300 digits
        return "a number of very many digits"
    return found if len(found) <= MOST_SHOWN else f"{found[: MOST_SHOWN - 1]}…"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = MOST_SHOWN


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """The known name closest to `name`, or None where nothing is close.

    Args:
        name: as it was written.
        known: the names that exist.
        least: similarity of the two. A question needs less than `ALIKE`, at which a value may be
            moved from one name to the other.
    """
    if len(name) > MOST_COMPARED:
        return None
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=least)
    return close[0] if close else None


def is_input_error(name: str) -> bool:
    """True if the name of a type, as failed results hold it, is one of bad input."""
    kinds: list[type] = [InputError, *InputError.__subclasses__()]
    return name in {kind.__name__ for kind in kinds}
