"""Checks that a component keeps its contract, for authors and for their test suites.

In a test file, every check is a test of its own:

    from uedp_bench.testing import Subject, parametrize_with_checks

    @parametrize_with_checks([Subject(WordDropout, params={"rate": 0.5})])
    def test_contract(subject, check):
        check(subject)

On the command line: `uedp-bench check my_mechanism.py`.
"""

from __future__ import annotations

from uedp_bench.testing.checks import (
    Check,
    NotApplicable,
    Outcome,
    Subject,
    all_checks,
    subjects_of,
)
from uedp_bench.testing.suite import (
    Report,
    check_component,
    checks_for,
    parametrize_with_checks,
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
