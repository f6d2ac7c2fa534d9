"""MLflow has one run for each of ours and one parent for a grid, whoever makes them at once."""

from __future__ import annotations

import pytest
from logged_results import files_of, models_of, result_of, runs_of

from uedp_bench.errors import TrackingError
from uedp_bench.harness import (
    tracking,
    tracking_doubles,
)
from uedp_bench.harness.tracking_grid import GRID, Grid, GridRun
from uedp_bench.harness.tracking_reading import logged_runs
from uedp_bench.harness.tracking_values import ID
from uedp_bench.results import ComponentSpec, Result

# ------------------------------------------------------------------- made twice, or by two at once


@pytest.mark.parametrize("step", ["create_run", "create_logged_model"])
def test_a_request_whose_answer_was_lost_makes_nothing_twice(log, client, monkeypatch, step):
    """MLflow's client sends it again: the server does it once more."""
    from mlflow.tracking import MlflowClient

    original = getattr(MlflowClient, step)

    def twice(self, *args, **more):
        original(self, *args, **more)
        return original(self, *args, **more)

    result = result_of(f"ba{step[7:10]}")
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, step, twice)
        found = log(result)
    (run,) = runs_of(client, result.id)
    assert run.info.run_id == found["mlflow_run_id"]
    assert [model.status for model in models_of(client, run.info.run_id)] == ["READY"]
    every = client.search_logged_models([run.info.experiment_id], f"tags.`{ID}` = '{result.id}'")
    assert [model.source_run_id for model in every] == [run.info.run_id]


def test_another_client_that_was_faster_is_no_failure(log, client, monkeypatch):
    """Both looked and found no parameters; a server with Postgres refuses those of the second."""
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import BAD_REQUEST, INTERNAL_ERROR
    from mlflow.tracking import MlflowClient

    original, refused = MlflowClient.log_batch, []

    def second(self, run_id, *args, **more):
        original(self, run_id, *args, **more)
        if len(refused) < 3:
            refused.append(run_id)
            raise MlflowException("duplicate key value violates unique constraint", code)

    result = result_of("bc01")
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_batch", second)
        patched.setattr(tracking_doubles, "_PAUSE_SECONDS", 0.0)
        code = BAD_REQUEST
        log(result)
        assert len(refused) == 3
        refused.clear()
        code = INTERNAL_ERROR  # the server is in trouble: it is not asked again at once
        with pytest.raises(TrackingError, match="duplicate key"):
            log(result_of("bc02"))
        assert len(refused) == 1
    (run,) = runs_of(client, "bc01")
    assert run.info.status == "FINISHED"
    assert run.data.metrics["utility/perplexity"] == 50.0
    assert len(client.get_metric_history(run.info.run_id, "utility/perplexity")) == 1


def test_two_that_make_a_run_at_once_agree_on_one_that_holds_everything(log, client, monkeypatch):
    """Another command looked when there was none, and makes its own after ours was logged."""
    result = result_of("bb01")
    log(result)
    (first,) = runs_of(client, "bb01")
    others = [
        client.create_run(first.info.experiment_id, tags={ID: "bb01"}).info.run_id for _ in range(9)
    ]
    smallest = min(first.info.run_id, *others)
    assert log(result)["mlflow_run_id"] == smallest
    (run,) = runs_of(client, "bb01")
    assert run.info.run_id == smallest
    assert files_of(client, smallest) == {"result.json", "planted.json"}
    every = client.search_logged_models([run.info.experiment_id], f"tags.`{ID}` = 'bb01'")
    assert [model.source_run_id for model in every] == [smallest]
    assert log(result)["mlflow_run_id"] == smallest


def test_doubles_stay_until_one_run_holds_everything(log, client, monkeypatch):
    result = result_of("bb02")
    log(result)
    (first,) = runs_of(client, "bb02")
    for _ in range(9):
        client.create_run(first.info.experiment_id, tags={ID: "bb02"})

    def interrupted(*arguments):
        raise KeyboardInterrupt

    changed = result_of("bb02", diagnostics={"clipped": 0.9})
    with monkeypatch.context() as patched:
        patched.setattr(tracking, "_log_files", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log(changed)
    assert len(runs_of(client, "bb02")) == 10
    log(changed)
    assert len(runs_of(client, "bb02")) == 1


def parents(client, grid):
    experiment = client.get_experiment_by_name("tests").experiment_id
    return client.search_runs([experiment], f"tags.`{GRID}` = '{Grid.of(grid).key}'")


@pytest.mark.parametrize("smaller", ["ours", "theirs"])
def test_two_commands_that_share_a_grid_have_one_parent(log, client, smaller):
    """Both made a parent at once, and logged runs below it, before either saw the other's."""
    bound = {"ours": 1.1, "theirs": 1.2}[smaller]
    specs = clipped(bound, seeds=(1, 2, 3))
    every, results = [*specs.values()], [result_of(one, spec=spec) for one, spec in specs.items()]
    ours = GridRun(dict([*specs.items()][:2]), every)
    log(results[0], grid=ours)
    (mine,) = parents(client, specs)
    while True:
        made = client.create_run(mine.info.experiment_id, tags={GRID: Grid.of(specs).key})
        if (made.info.run_id < mine.info.run_id) == (smaller == "theirs"):
            break
        client.delete_run(made.info.run_id)
    theirs = GridRun(dict([*specs.items()][2:]), every)
    theirs._open = client, mine.info.experiment_id, made.info.run_id
    log(results[2], grid=theirs)
    log(results[1], grid=ours)
    theirs.end(results[2:])
    (parent,) = parents(client, specs)
    assert parent.info.run_id == min(mine.info.run_id, made.info.run_id)
    ours.end(results[:2])
    (parent,) = parents(client, specs)
    assert parent.info.status == "FINISHED"
    tags = [run.data.tags["mlflow.parentRunId"] for one in specs for run in runs_of(client, one)]
    assert tags == [parent.info.run_id] * 3


def test_a_share_of_a_grid_does_not_end_it(log, client):
    specs = clipped(1.3, seeds=(1, 2))
    (first, one), (second, other) = specs.items()
    for identifier, spec, status in ((first, one, "KILLED"), (second, other, "FINISHED")):
        grid = GridRun({identifier: spec}, [one, other])
        result = result_of(identifier, spec=spec)
        log(result, grid=grid)
        grid.end([result])
        (parent,) = parents(client, specs)
        assert parent.info.status == status
    names = {run.info.run_name for name in specs for run in runs_of(client, name)}
    assert names == {"deidentify + user-dp, seed 1", "deidentify + user-dp, seed 2"}


def test_a_run_that_ends_between_a_look_and_the_word_about_it_is_counted(log, client, monkeypatch):
    """Ours sees that a run is missing; theirs ends and says so; then ours says what it saw."""
    from mlflow.tracking import MlflowClient

    specs = clipped(1.6, seeds=(1, 2))
    every, results = [*specs.values()], [result_of(one, spec=spec) for one, spec in specs.items()]
    ours, theirs = (GridRun({result.id: result.spec}, every) for result in results)
    log(results[0], grid=ours)
    original, said = MlflowClient.set_terminated, []

    def late(self, run_id, status, *more):
        if not said:
            said.append(status)
            log(results[1], grid=theirs)
            theirs.end(results[1:])
            (parent,) = parents(client, specs)
            assert parent.info.status == "FINISHED"
        return original(self, run_id, status, *more)

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "set_terminated", late)
        ours.end(results[:1])
    assert said == ["KILLED"]
    (parent,) = parents(client, specs)
    assert parent.info.status == "FINISHED"


def test_runs_whose_parent_was_deleted_get_the_new_one(log, client):
    specs = clipped(1.4, 1.5)
    results = [result_of(one, spec=spec) for one, spec in specs.items()]
    for _ in range(2):
        grid = GridRun(specs)
        for result in results:
            log(result, grid=grid)
        grid.end(results)
        (parent,) = parents(client, specs)
        (run,) = runs_of(client, results[0].id)
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        client.delete_run(parent.info.run_id)


def clipped(*bounds, seeds=(1,)):
    """Specs of a grid by id: one for each clip bound and seed."""
    base = result_of("x").spec
    found = {}
    for bound in bounds:
        for seed in seeds:
            chain = (base.mechanism[0], ComponentSpec(name="user-dp", params={"clip": bound}))
            new = {"mechanism": chain, "seed": seed}
            found[f"{bound}-{seed}"] = base.model_copy(update=new)
    return found


def test_runs_of_a_grid_are_named_by_what_differs():
    grid = Grid.of(clipped(0.1, 0.5, seeds=(1, 2)))
    assert grid.names["0.5-2"] == "deidentify + user-dp (clip=0.5), seed 2"
    assert len(set(grid.names.values())) == 4
    assert grid.common["mechanism.deidentify.style"] == "remove"
    assert "mechanism.user-dp.clip" not in grid.common
    assert grid.key == Grid.of(clipped(0.5, 0.1)).key != Grid.of(clipped(0.5)).key


def test_a_grid_is_one_parent_with_its_runs_below_it(log, client, out):
    specs = clipped(0.1, 0.5)
    for _ in range(2):  # the same command again
        grid = GridRun(specs)
        results = [result_of(one, spec=spec) for one, spec in specs.items()]
        children = [log(result, grid=grid)["mlflow_run_id"] for result in results]
        grid.end(results)
    experiment = client.get_experiment_by_name("tests").experiment_id
    (parent,) = parents(client, specs)
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name.startswith("next-word on embedded, lstm-small (grid ")
    found = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    assert sorted(run.info.run_id for run in found) == sorted(children)
    # Boards read results, and the parent has none.
    listed = {run for run, _ in logged_runs(f"sqlite:///{out}/mlflow.db", "tests")}
    assert parent.info.run_id not in listed
    assert listed >= {*children}


def test_a_grid_that_was_interrupted_and_one_with_a_failed_run_say_so(log, client):
    specs = clipped(0.2, 0.3)
    first, second = (result_of(one, spec=spec) for one, spec in specs.items())
    grid = GridRun(specs)
    run_id = log(first, grid=grid)["mlflow_run_id"]
    parent = client.get_run(run_id).data.tags["mlflow.parentRunId"]
    grid.end([first])
    assert client.get_run(parent).info.status == "KILLED"
    error = {"type": "InputError", "message": "no", "phase": "train"}
    failed = Result.model_validate({**second.model_dump(), "status": "failed", "error": error})
    grid.end([first, failed])
    assert client.get_run(parent).info.status == "FAILED"


def test_a_run_that_is_alone_has_no_parent(log, client):
    grid = GridRun(clipped(0.7))
    (one,) = clipped(0.7).items()
    run = client.get_run(log(result_of(one[0], spec=one[1]), grid=grid)["mlflow_run_id"])
    assert "mlflow.parentRunId" not in run.data.tags
    assert run.info.run_name == "deidentify + user-dp, seed 1"
