"""Whatever a run needs is made once: components, sources, the planted corpus, its identity."""

from __future__ import annotations

from collections import Counter

import pytest
from tiny import SPIES, USER_DP, plugged, runs

from uedp_bench.grid.scheduler import jobs_of, run_jobs
from uedp_bench.one_run import components, planting, runner
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec import identity

ASKS = {"name": "hold-out", "params": {"finds": "reference"}}
ONCE = ("embedded", "next-word", "deidentify", "user-dp", "noiseless", "hold-out")
LOADED = 3
"""Releases that are read from files, each with its model: the saved one, and two references."""


@pytest.fixture
def counts(monkeypatch):
    """Counts components that are made and calls of functions, by their names."""
    counted = Counter()
    for module, name in ((planting, "plant_all"), (identity, "identity_parts"),
                         (runner, "prepare"), (components, "tried_runs")):  # fmt: skip
        monkeypatch.setattr(module, name, watched(counted, name, getattr(module, name)))
    monkeypatch.setattr("uedp_bench.components.component.Component.create", create_of(counted))
    with plugged(SPIES):
        yield counted


def watched(counted, name, function):
    def call(*args, **kwargs):
        counted[name] += 1
        return function(*args, **kwargs)

    return call


def create_of(counted):
    from uedp_bench.components.component import Component

    create = Component.create.__func__

    def counting(cls, values=None, **others):
        counted[cls.name] += 1
        return create(cls, values, **others)

    return classmethod(counting)


def test_a_run_makes_everything_once(tmp_path, counts):
    (spec,) = runs(["deidentify", USER_DP], attacks=[ASKS])
    counts.clear()
    result = execute(spec, Execution(tmp_path, "cpu"))
    assert result.error is None, result.error
    assert result.cost.reference_models == 2
    assert {name: counts[name] for name in ONCE} == dict.fromkeys(ONCE, 1)
    assert counts["lstm-small"] == 1 + LOADED
    # The identity is that of the files as they are before and after the run, too.
    assert (counts["plant_all"], counts["identity_parts"], counts["prepare"]) == (1, 3, 1)
    assert not counts["tried_runs"]


def test_a_job_hands_its_identity_to_the_run(tmp_path, counts):
    (spec,) = runs(USER_DP)
    jobs = jobs_of([spec], tmp_path)
    assert counts["identity_parts"] == 1
    counts.clear()
    ((_, result),) = run_jobs(jobs, Execution(tmp_path, "cpu"), workers=0)
    assert result.id == jobs[0].id
    assert counts["identity_parts"] == 2  # to see that no file changed
