"""Checks that a component does its work: whole runs with every task that fits, saved and read."""

from __future__ import annotations

import json

from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.contracts.results import Result, read_result
from uedp_bench.errors import InputError, MissingExtraError, is_input_error
from uedp_bench.one_run.stored import keep_result
from uedp_bench.store.saved_release import check_saved, save_release
from uedp_bench.testing.checks import NotApplicable, check
from uedp_bench.testing.small_runs import (
    finished,
    impossible,
    scored,
    small_run,
    task_of,
    tasks_for,
)
from uedp_bench.testing.subjects import Subject


@check("mechanism", "task", "model")
def check_saved_release(subject: Subject) -> None:
    """A release that cannot be loaded again cannot be attacked again, and nobody can check it."""
    trained = small_run(subject)
    if isinstance(trained.release, PublishedOnly):
        raise NotApplicable("nothing but the published corpus is released")
    folder = subject.folder / "saved"
    save_release(trained.release, folder)
    check_saved(task_of(trained), folder, trained.release, trained.ready.planted_corpus.corpus)


@check()
def check_runs(subject: Subject) -> None:
    """A component that works alone may still fail in a run: one is done with every task that fits.

    The first that finishes is a whole run with its guarantee, saved and read. A run that is refused
    before it trains is no failure, but one at least must finish.
    """
    refusals: list[str] = []
    done = 0
    for task in tasks_for(subject):
        try:
            utility = scored(subject, task) if done else _whole(subject, task).utility
        except MissingExtraError as error:
            raise NotApplicable(str(error)) from error
        except InputError as error:
            refusals.append(f"{task}: {error}")
            continue
        assert utility, f"the run with the task {task} has no utility"
        done += 1
    if not done:
        raise NotApplicable(impossible(refusals))


def _whole(subject: Subject, task: str) -> Result:
    """The result of a whole run.

    Raises:
        InputError: if it was refused.
    """
    result = finished(subject, task)
    if result.error is not None and is_input_error(result.error.type):
        raise InputError(result.error.message)
    assert result.error is None, (
        f"the run with the task {task} ended with {result.error.type} in the phase "
        f"{result.error.phase}: {result.error.message}"
    )
    for failure in result.failed_attacks:
        if is_input_error(failure.type):
            raise InputError(failure.message)
        raise AssertionError(failure.traceback or failure.reason)
    return result


@check()
def check_result_round_trip(subject: Subject) -> None:
    """A result that cannot be read again is in no table."""
    for task in tasks_for(subject):
        try:
            result = _whole(subject, task)
        except InputError:
            continue
        keep_result(result, subject.folder)
        read = read_result(subject.folder / result.id / "result.json")
        texts = [json.dumps(r.model_dump(mode="json"), sort_keys=True) for r in (result, read)]
        assert texts[0] == texts[1], "the result that is read is not the one that was written"
        return
    raise NotApplicable("no small run is possible")
