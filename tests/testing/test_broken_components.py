"""Each check fails where its promise is broken: a kit that passes everything protects nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from tiny import plugged

from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.testing import (
    Subject,
    check_component,
    checks_for,
    parametrize_with_checks,
    subjects_of,
)
from uedp_bench.testing.checks import Outcome, run_check
from uedp_bench.training.bounds import Limits
from uedp_bench.training.noise import GaussianNoise

BROKEN = Path(__file__).parents[1] / "support" / "broken_components.py"
CAUGHT = {
    "mechanism/other-events": {"check_events_as_planned"},
    "mechanism/promises-less": {"check_promises_agree"},
    "mechanism/misses-target": {"check_promises_agree"},
    "mechanism/shuffles": {"check_published_corpus", "check_deterministic"},
    "mechanism/keeps-words": {"check_word_law"},
    "mechanism/hides-nothing": {"check_noise_is_fresh"},
    "mechanism/reads-valid": {"check_trains_on_training_rows"},
    "mechanism/says-nothing": {
        "check_declaration",
        "check_parameters_declared",
        "check_plan_is_accounted",
    },
    "attack/finds-nothing": {"check_leak_is_found"},
    "attack/accuses-all": {"check_planting", "check_nothing_is_made_up"},
    "task/mixes-rows": {"check_rows_alone", "check_utility_as_declared"},
    "source/other-each-time": {"check_corpus_repeats", "check_labels_in_range"},
}


@pytest.fixture
def broken() -> Iterator[None]:
    with plugged(BROKEN):
        yield


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", CAUGHT)
def test_a_broken_promise_is_caught(name: str) -> None:
    (subject,) = subjects_of(name)
    checks = [one for one in checks_for(subject) if one.name in CAUGHT[name]]
    outcomes = [run_check(one, subject) for one in checks]
    assert {one.check for one in outcomes if one.state == "failed"} == CAUGHT[name], outcomes


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("name", "pairs"),
    [("promises-less", r"\(0\.5, 1e-06\).*\(0\.5, 0\.338\)"),
     ("misses-target", r"\(8, 1e-05\).*\([0-9.]+, 1e-05\)")],
)  # fmt: skip
def test_a_smaller_promise_is_named_with_what_it_is_worth(name: str, pairs: str) -> None:
    (subject,) = subjects_of(name)
    assert re.search(pairs, outcome("check_promises_agree", subject).reason)


def outcome(check: str, subject: Subject) -> Outcome:
    (one,) = (one for one in checks_for(subject) if one.name == check)
    return run_check(one, subject)


def test_a_bound_that_does_not_hold_is_caught() -> None:
    from uedp_bench.training import unit_sums

    real = unit_sums.ShareWorker.unit_sum

    def twice(self: object, work: unit_sums.RoundWork, share: unit_sums.Share) -> object:
        wide = Limits(2.0 * work.limits.total)
        return real(self, work._replace(limits=wide), share)  # type: ignore[arg-type]

    subject = Subject(UserDP)
    assert outcome("check_bound_is_kept", subject).state == "passed"
    with patch.object(unit_sums.ShareWorker, "unit_sum", twice):
        check = outcome("check_bound_is_kept", subject)
    assert check.state == "failed"
    assert "bound" in check.reason


def test_an_unprotected_mechanism_that_protects_is_caught() -> None:
    class Reference(UserDP):
        unprotected = True

    assert outcome("check_plan_is_accounted", Subject(UserDP)).state == "passed"
    check = outcome("check_plan_is_accounted", Subject(Reference))
    assert (check.state, "unprotected" in check.reason) == ("failed", True)


def test_less_noise_and_a_deaf_audit_are_caught() -> None:
    add = GaussianNoise.add

    def half(self: GaussianNoise, total: object, std: float, rng: object) -> object:
        return add(self, total, std / 2, rng)  # type: ignore[arg-type]

    with patch.object(GaussianNoise, "add", half):
        assert outcome("check_events_as_planned", Subject(UserDP)).state == "failed"
    with patch("uedp_bench.training.federated.executor_of") as deaf:
        from uedp_bench.training.executors import executor_of

        deaf.side_effect = lambda local, learner, run, injected=(): executor_of(local, learner, run)
        assert "replaced" in outcome("check_audit_reaches_updates", Subject(UserDP)).reason


@pytest.mark.usefixtures("broken")
def test_an_expected_failure_has_a_reason_and_must_fail() -> None:
    (subject,) = subjects_of(
        "other-events", expected_failures={"check_events_as_planned": "it is broken on purpose"}
    )
    check = outcome("check_events_as_planned", subject)
    assert check.state == "expected failure"
    assert check.reason.startswith("it is broken on purpose (")
    expected = {"check_declaration": "nobody knows"}
    (subject,) = subjects_of("other-events", expected_failures=expected)
    assert outcome("check_declaration", subject).state == "failed"
    (wrong,) = subjects_of("other-events", expected_failures={"check_declarations": "mistyped"})
    with pytest.raises(InputError, match=r"'check_declarations'.*'check_declaration'"):
        checks_for(wrong)


def test_nothing_checked_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="parametrize_with_checks"):
        parametrize_with_checks([])
    with patch("uedp_bench.testing.checks_for", return_value=()):
        assert not check_component(UserDP).conforms
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    with plugged(), pytest.raises(InputError, match=r"empty\.py"):
        subjects_of(str(empty))


def test_what_to_check_is_found_by_name_class_or_file() -> None:
    assert subjects_of("mechanism/user-dp")[0].component is UserDP
    where = f"{UserDP.__module__}:UserDP"
    assert subjects_of(where)[0].name == "user-dp"
    with pytest.raises(UnknownNameError, match=r"'user-pd'.*'user-dp'"):
        subjects_of("user-pd")
    with pytest.raises(InputError, match=r"uedp_bench\.training\.bounds"):
        subjects_of("uedp_bench.training.bounds:FlatBound")
    with pytest.raises(InputError, match=r"give the file, broken\.py,"):
        subjects_of("broken.py:Shuffles")


@parametrize_with_checks([Subject(UserDP, params={"rounds": 1})])
def test_checks_are_tests(subject, check) -> None:
    if check.check.name in ("check_declaration", "check_published_corpus"):
        check(subject)
