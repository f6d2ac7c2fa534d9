"""Checks, their registry, and their outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from uedp_bench.errors import MissingExtraError, UedpBenchError, described

if TYPE_CHECKING:
    from uedp_bench.testing.subjects import Subject

Kind = Literal["mechanism", "attack", "task", "source", "model"]
KINDS: tuple[Kind, ...] = ("mechanism", "attack", "task", "source", "model")

State = Literal["passed", "failed", "skipped", "expected failure"]

MOST_SAID = 600
"""Characters of the reason of an outcome."""


class NotApplicable(Exception):  # noqa: N818 - it is no error
    """Raised by a check that has nothing to ask of a component; the message says why."""


@dataclass(frozen=True)
class Check:
    """One promise of the contract, and the function that asks a component to keep it.

    Attributes:
        name: name of the function.
        kinds: kinds of components that it is for.
        ask: raises an `AssertionError` with a sentence where the promise is broken, and
            `NotApplicable` where there is nothing to ask.
        about: purpose of the check: the first sentence of the function's docstring.
    """

    name: str
    kinds: tuple[Kind, ...]
    ask: Callable[[Subject], None]
    about: str


@dataclass(frozen=True)
class Outcome:
    """Outcome of one check.

    Attributes:
        check: name of the check.
        state: state of the check: a failure that was declared with a reason is an "expected
            failure"; a check that passes although its failure was declared has "failed".
        reason: reason of a failure or skip; empty where it passed.
        seconds: duration of the check.
    """

    check: str
    state: State
    reason: str = ""
    seconds: float = 0.0


_CHECKS: dict[str, Check] = {}


def check(*kinds: Kind) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Declares a function as a check of these kinds; of all of them where none is named."""

    def declare(ask: Callable[[Subject], None]) -> Callable[[Subject], None]:
        about = " ".join((ask.__doc__ or "").strip().partition("\n\n")[0].split())
        _CHECKS[ask.__name__] = Check(ask.__name__, kinds or KINDS, ask, about)
        return ask

    return declare


def declared() -> tuple[Check, ...]:
    """The checks of all modules that were imported."""
    return tuple(_CHECKS.values())


def run_check(one: Check, subject: Subject) -> Outcome:
    """Ask one promise of a component."""
    expected, start = subject.expected_failures.get(one.name), time.perf_counter()
    state: State = "passed"
    reason = ""
    try:
        one.ask(subject)
        if expected is not None:
            state, reason = "failed", f"it passes, and was expected to fail: {expected}"
    except (NotApplicable, MissingExtraError) as said:
        state, reason = "skipped", str(said)
    except Exception as error:
        state, reason = "failed", _message(error)
        if expected is not None:
            state, reason = "expected failure", f"{expected} ({reason})"
    return Outcome(one.name, state, reason[:MOST_SAID], time.perf_counter() - start)


def _message(error: Exception) -> str:
    message = " ".join(str(error).split())
    is_own = isinstance(error, AssertionError | UedpBenchError) and message
    return message if is_own else described(error)
