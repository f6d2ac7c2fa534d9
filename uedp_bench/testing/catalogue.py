"""All checks, and those that a component is asked."""

from __future__ import annotations

from uedp_bench.errors import InputError, nearest
from uedp_bench.testing import (  # noqa: F401  # they declare their checks
    any_component,
    attacking,
    modelling,
    protecting,
    sourcing,
    training,
    working,
)
from uedp_bench.testing.checks import Check, declared
from uedp_bench.testing.subjects import Subject


def all_checks() -> tuple[Check, ...]:
    """All checks of all kinds."""
    return declared()


def checks_for(subject: Subject) -> tuple[Check, ...]:
    """The checks of a component's kind.

    Raises:
        InputError: if a failure is expected of a check that nobody declared, or under `python -O`,
            which takes assertions away: every check would pass.
    """
    if not __debug__:
        raise InputError("checks are assertions, which python -O leaves out: run without -O")
    names = [one.name for one in all_checks()]
    for name in subject.expected_failures:
        if name not in names:
            near = nearest(name, names)
            hint = f"; did you mean {near!r}?" if near else ""
            raise InputError(f"expected failure of {name!r}: no check has this name{hint}")
    return tuple(one for one in all_checks() if subject.kind in one.kinds)
