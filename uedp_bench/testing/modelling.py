"""Checks of tasks and models: their declarations, and rows that do not see each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.task import Task
from uedp_bench.testing.checks import NotApplicable, check
from uedp_bench.testing.small_runs import SmallRun, finished, small_run, task_of, tasks_for
from uedp_bench.testing.subjects import Subject

ROWS = 8
"""Rows whose losses are compared beside others and alone."""

RELATIVE, ABSOLUTE = 1e-4, 1e-5


@check("task")
def check_task_declares(subject: Subject) -> None:
    """Boards rank by what a task declares: a metric that nobody declared is in no table."""
    task: Any = subject.component
    assert task.metrics, "`metrics` declares none: a tuple of Metric, the headline first"
    assert task.metrics[0].better, (
        f"the headline {task.metrics[0].name} does not say what is better"
    )
    names = {one.name for one in task.metrics}
    for field, used in (("optional", task.optional), ("counted", task.counted),
                        ("floors", task.floors.values())):  # fmt: skip
        unknown = sorted({*used} - names)
        assert not unknown, f"`{field}` has {unknown[0]!r}, which `metrics` does not declare"
    needs = getattr(task, "needs", ())
    assert needs, "`needs` names no capability of the release that `score` asks"
    every = (*needs, *task.releases)
    strange = [need for need in every if not getattr(need, "_is_runtime_protocol", False)]
    assert not strange, f"{strange[0]!r} is no capability: a runtime-checkable protocol"


@check("task")
def check_utility_as_declared(subject: Subject) -> None:
    """A metric that is missing, or not declared, makes rows of a table incomparable."""
    result = finished(subject, tasks_for(subject)[0])
    assert result.error is None, result.error.message
    task: type[Task[Any]] = subject.component  # type: ignore[assignment]
    names = {one.name for one in task.metrics if "*" not in one.name}
    missing = sorted(names - {*task.optional} - {*result.utility})
    assert not missing, f"`score` gives no {missing[0]}, which `metrics` declares"
    for name, value in result.utility.items():
        if value.low is not None and value.high is not None:
            assert value.low <= value.value <= value.high, f"{name} lies outside its interval"


@check("task", "model")
def check_rows_alone(subject: Subject) -> None:
    """A row whose loss depends on its neighbours in a batch has no gradient of its own to clip."""
    trained = small_run(subject)
    learner = _learner(trained)
    rows = np.flatnonzero(learner.corpus.where("train"))[:ROWS]
    seeds = np.arange(len(rows), dtype=np.int64) + 11
    together, targets = _losses(learner, rows, seeds)
    for at in range(len(rows)):
        alone, count = _losses(learner, rows[[at]], seeds[[at]])
        assert np.isclose(alone[0], together[at], rtol=RELATIVE, atol=ABSOLUTE), (
            f"the loss of row {int(rows[at])} is {together[at]:.6g} beside other rows, and "
            f"{alone[0]:.6g} alone"
        )
        assert count[0] == targets[at], "the number of targets of a row depends on other rows"
    again, _ = _losses(learner, rows, seeds)
    assert np.array_equal(again, together), "equal seeds give other losses: draw by `seeds` alone"


def _losses(learner: Learner, rows: Any, seeds: Any) -> tuple[Any, Any]:
    import torch

    learner.module.train()
    with torch.no_grad():
        losses = learner.losses(learner.module, learner.batch(rows, seeds))
    shape = tuple(losses.nats.shape)
    assert shape == (len(rows),), f"losses of {len(rows)} rows have the shape {shape}"
    return losses.nats.double().numpy(), losses.targets.double().numpy()


def _learner(trained: SmallRun) -> Learner:
    """The last learner of a run's task."""
    visible = trained.ready.planted_corpus.corpus.only("train", "valid", "public")
    vocabulary, run = trained.protected.vocabulary, trained.ready.run
    stages = list(task_of(trained).stages(visible, vocabulary, run))
    if not stages:
        raise NotApplicable("the task trains nothing")
    return stages[-1]


@check("model")
def check_weights_by_seed(subject: Subject) -> None:
    """Runs of one seed start from the same weights, whoever drew numbers before."""
    import torch

    trained = small_run(subject)
    first = _learner(trained).module.state_dict()
    torch.rand(7)
    second = _learner(trained).module.state_dict()
    assert first.keys() == second.keys()
    changed = [name for name in first if not torch.equal(first[name], second[name])]
    assert not changed, f"the weight {changed[0]} is another one: draw by the seed that is given"
