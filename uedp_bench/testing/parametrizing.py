"""Checks as tests of pytest, one for each promise of each component."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from uedp_bench.components.component import Component
from uedp_bench.errors import InputError
from uedp_bench.testing.catalogue import checks_for
from uedp_bench.testing.checks import Check, run_check
from uedp_bench.testing.subjects import Subject


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
