"""Checks that sources, tasks and models do their work, alone and in whole runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.contracts.results import Result, read_result
from uedp_bench.contracts.source import Source, SourceParams
from uedp_bench.contracts.task import Task
from uedp_bench.errors import InputError, MissingExtraError, UedpBenchError, is_input_error
from uedp_bench.one_run.planting import load_corpus
from uedp_bench.one_run.private_data import check_saved, keep_result, save_release
from uedp_bench.testing.checks import NotApplicable, Subject, check
from uedp_bench.testing.small_runs import (
    SmallRun,
    digest,
    finished,
    impossible,
    scored,
    small_run,
    tasks_for,
)


@check("mechanism", "task", "model")
def check_saved_release(subject: Subject) -> None:
    """A release that cannot be loaded again cannot be attacked again, and nobody can check it."""
    trained = small_run(subject)
    if isinstance(trained.release, PublishedOnly):
        raise NotApplicable("nothing but the published corpus is released")
    folder = subject.folder / "saved"
    save_release(trained.release, folder)
    ready = trained.ready
    check_saved(ready.parts.task, folder, trained.release, ready.planted_corpus.corpus)


@check()
def check_runs(subject: Subject) -> None:
    """A component that works alone may still fail in a run: one is done with every task that fits.

    Of an attack, one is done. The first that finishes is a whole run with its guarantee, saved and
    read. A run that is refused before it trains is no failure, but one at least must finish.
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
        if subject.kind == "attack":  # what it plants is the same with every task
            break
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


@check("source")
def check_source_declares(subject: Subject) -> None:
    """Every source takes public text, samples and annotation, and says whether it needs a path."""
    kind: Any = subject.component
    assert issubclass(kind.Params, SourceParams), "Params does not derive from SourceParams"
    if kind.needs_path:
        assert "path" in kind.Params.model_fields, "`needs_path` is true, and there is no `path`"


@check("source")
def check_corpus_repeats(subject: Subject) -> None:
    """A corpus that is another one each time gives a run an identity of its own each time."""
    source = _source(subject)
    first, second = load_corpus(source), source.load()
    assert digest(first) == digest(second), "`load` gives another corpus when it is called again"
    assert len(first), "the corpus has no row"
    for split in ("train", "test"):
        assert first.where(split).any(), f"no row is in the split {split}"
    empty = [row for row, text in enumerate(first.texts) if not text.strip()]
    assert not empty, f"row {empty[0]} has no text"


@check("source")
def check_labels_in_range(subject: Subject) -> None:
    """A label outside its names becomes a class that no table has."""
    corpus = load_corpus(_source(subject))
    columns = {"labels": (corpus.labels, corpus.label_names)}
    columns |= {
        name: (values, corpus.attribute_names[name]) for name, values in corpus.attributes.items()
    }
    for name, (values, names) in columns.items():
        if values is not None and len(values):
            top = int(np.max(values))
            assert top < len(names), f"{name} has the number {top}, and only {len(names)} names"


@check("source")
def check_missing_file_refused(subject: Subject) -> None:
    """A mistyped path must stand in the error, without a traceback."""
    kind: Any = subject.component
    if "path" not in kind.Params.model_fields:
        raise NotApplicable("it reads no file")
    path = str(subject.folder / "no-such-file.csv")
    try:
        kind.create({**subject.small, "path": path}).load()
    except InputError as error:
        assert "no-such-file" in str(error) or subject.name in str(error), (
            f"the error names neither the path nor {subject.name}: {error}"
        )
    except UedpBenchError:
        pass
    else:
        raise AssertionError(f"{path} does not exist, and `load` says nothing")


def _source(subject: Subject) -> Source[Any]:
    if subject.lacks_files:
        raise NotApplicable("it reads files: give some, as --set path=FILE")
    source: Source[Any] = subject.create()
    return source


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
    stages = list(trained.ready.parts.task.stages(visible, vocabulary, run))
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
