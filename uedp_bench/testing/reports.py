"""Reports on all checks of a component."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uedp_bench.components.component import Component
from uedp_bench.testing.catalogue import checks_for
from uedp_bench.testing.checks import Check, Outcome, run_check
from uedp_bench.testing.subjects import Subject


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
        component: its class, or a `Subject` where it needs parameters or partners.
        heard: is called after each check.

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
