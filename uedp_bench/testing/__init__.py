"""Checks that a component keeps its contract, for authors and for their test suites.

In a test file, every check is a test of its own:

    from uedp_bench.testing import Subject, parametrize_with_checks

    @parametrize_with_checks([Subject(WordDropout, params={"rate": 0.5})])
    def test_contract(subject, check):
        check(subject)

On the command line: `uedp-bench check my_mechanism.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from uedp_bench.components.component import Component
from uedp_bench.errors import InputError, nearest
from uedp_bench.testing import attacking, protecting, working  # noqa: F401 - they declare checks
from uedp_bench.testing.checks import (
    Check,
    NotApplicable,
    Outcome,
    Subject,
    all_checks,
    run_check,
    subjects_of,
)

__all__ = [
    "Check",
    "NotApplicable",
    "Outcome",
    "Report",
    "Subject",
    "all_checks",
    "check_component",
    "checks_for",
    "parametrize_with_checks",
    "subjects_of",
]


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


@dataclass(frozen=True)
class Report:
    """Outcomes of the checks of one component.

    Attributes:
        kind, name: kind and name of the component.
        outcomes: outcomes in the order of the checks.
    """

    kind: str
    name: str
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """Checks that failed, and that nobody expected to."""
        return tuple(one for one in self.outcomes if one.state == "failed")

    @property
    def conforms(self) -> bool:
        """True if nothing failed and something was checked: nothing at all is a failure."""
        return not self.failed and any(one.state == "passed" for one in self.outcomes)

    @property
    def verdict(self) -> str:
        """One line: how many checks passed, failed, were skipped or failed as expected."""
        counts = Counter(one.state for one in self.outcomes)
        counts_in_words = ", ".join(f"{number} {state}" for state, number in counts.items())
        return f"{self.kind} {self.name}: {counts_in_words or 'no check was made'}"

    def __str__(self) -> str:
        lines = [f"  {one.state:16} {one.check}: {one.reason}" for one in self.failed]
        return "\n".join([self.verdict, *lines])


def check_component(
    component: type[Component[Any]] | Subject,
    *,
    heard: Callable[[Check, Outcome], None] | None = None,
) -> Report:
    """Run all checks of a component's kind; a check that fails ends nothing.

    Args:
        component: class of the component, or a `Subject` where it needs parameters or partners.
        heard: function to call after each check.

    Raises:
        InputError: if its subject is wrong.
        PluginError: if another component has its name.
    """
    subject = component if isinstance(component, Subject) else Subject(component)
    outcomes = []
    for one in checks_for(subject):
        outcome = run_check(one, subject)
        outcomes.append(outcome)
        if heard is not None:
            heard(one, outcome)
    return Report(subject.kind, subject.name, tuple(outcomes))


@dataclass(frozen=True)
class Asked:
    """A check as a test calls it: `check(subject)`."""

    check: Check

    def __call__(self, subject: Subject) -> None:
        """Fails, skips or expects the failure of the test as the check does.

        Raises:
            AssertionError: with the reason, if it failed.
        """
        import pytest

        outcome = run_check(self.check, subject)
        if outcome.state == "skipped":
            pytest.skip(outcome.reason)
        if outcome.state == "expected failure":
            pytest.xfail(outcome.reason)
        if outcome.state == "failed":
            raise AssertionError(
                f"{subject.name}: {self.check.name}: {outcome.reason}\n({self.check.about})"
            )


def parametrize_with_checks(
    components: Iterable[type[Component[Any]] | Subject],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a test with the arguments `subject` and `check`, as that of scikit-learn is.

    Args:
        components: classes, or a `Subject` where a class needs parameters or partners.

    Raises:
        InputError: for no component: a suite that checks nothing must not pass.
    """
    import pytest

    subjects = [one if isinstance(one, Subject) else Subject(one) for one in components]
    if not subjects:
        raise InputError("parametrize_with_checks got no component: there is nothing to check")
    cases = [
        pytest.param(subject, Asked(one), id=f"{subject.name}-{one.name}")
        for subject in subjects
        for one in checks_for(subject)
    ]
    mark: Any = pytest.mark.parametrize(("subject", "check"), cases)
    return mark  # type: ignore[no-any-return]
