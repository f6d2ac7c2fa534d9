"""MLflow has one run for each of ours and one parent for a grid, whoever makes them at once."""

from __future__ import annotations

import pytest
from logged_results import files_of, models_of, result_of, runs_of

from uedp_bench.contracts.results import ComponentSpec, Result
from uedp_bench.errors import TrackingError
from uedp_bench.tracking import store
from uedp_bench.tracking.content import CONTENT, GRID, ID, Grid
from uedp_bench.tracking.runs import end_grid
from uedp_bench.tracking.store import Place, logged_runs

pytestmark = pytest.mark.long

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
        tags = log(result)
    (run,) = runs_of(client, result.id)
    assert run.info.run_id == tags["mlflow_run_id"]
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
        patched.setattr(store, "_PAUSE_SECONDS", 0.0)
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


@pytest.mark.parametrize("whole", [True, False])
def test_doubles_of_a_run_are_deleted_with_their_models(log, client, whole):
    """Other commands looked when there was no run, and each made one."""
    result = result_of(f"bb{whole}")
    log(result)
    (first,) = runs_of(client, result.id)
    if not whole:
        client.delete_tag(first.info.run_id, CONTENT)
    doubles = [
        client.create_run(first.info.experiment_id, tags={ID: result.id}).info.run_id
        for _ in range(9)
    ]
    kept = first.info.run_id if whole else min(first.info.run_id, *doubles)
    for _ in range(2):
        assert log(result)["mlflow_run_id"] == kept
    (run,) = runs_of(client, result.id)
    assert run.info.run_id == kept
    assert run.info.status == "FINISHED"
    assert files_of(client, kept) == {"result.json", "planted.json"}
    every = client.search_logged_models([run.info.experiment_id], f"tags.`{ID}` = '{result.id}'")
    assert [model.source_run_id for model in every] == [kept]


def parents(client, grid):
    experiment = client.get_experiment_by_name("tests").experiment_id
    return client.search_runs([experiment], f"tags.`{GRID}` = '{Grid.from_specs(grid).key}'")


def end(client, grid, *run_ids):
    end_grid(Place(client, client.get_experiment_by_name("tests").experiment_id), grid, run_ids)


@pytest.mark.parametrize("smaller", ["ours", "theirs"])
def test_two_commands_that_share_a_grid_have_one_parent(log, client, smaller):
    """Both made a parent at once, and logged runs below it, before either saw the other's."""
    bound = {"ours": 1.1, "theirs": 1.2}[smaller]
    specs = clipped(bound, seeds=(1, 2, 3))
    results = [result_of(one, spec=spec) for one, spec in specs.items()]
    grid = Grid.from_specs(specs)
    ours = [log(results[0], grid=grid)["mlflow_run_id"]]
    (mine,) = parents(client, specs)
    while True:
        other = client.create_run(mine.info.experiment_id, tags={GRID: grid.key}).info.run_id
        if (other < mine.info.run_id) == (smaller == "theirs"):
            break
        client.delete_run(other)
    tags = {ID: results[2].id, "mlflow.parentRunId": other}
    client.create_run(mine.info.experiment_id, tags=tags)
    ours.append(log(results[1], grid=grid)["mlflow_run_id"])
    theirs = [log(results[2], grid=grid)["mlflow_run_id"]]
    client.set_tag(theirs[0], "mlflow.parentRunId", other)  # as if it had not looked again
    for run_ids in (theirs, ours):
        end(client, grid, *run_ids)
        (parent,) = parents(client, specs)
        assert parent.info.run_id == min(mine.info.run_id, other)
        assert parent.info.status == "FINISHED"
        below = [
            run.data.tags["mlflow.parentRunId"] for one in specs for run in runs_of(client, one)
        ]
        assert below == [parent.info.run_id] * 3


def test_a_share_of_a_grid_does_not_end_it(log, client):
    specs = clipped(1.3, seeds=(1, 2))
    (first, one), (second, other) = specs.items()
    for identifier, spec, status in ((first, one, "KILLED"), (second, other, "FINISHED")):
        grid = Grid.from_specs({identifier: spec}, [one, other])
        end(client, grid, log(result_of(identifier, spec=spec), grid=grid)["mlflow_run_id"])
        (parent,) = parents(client, specs)
        assert parent.info.status == status
    names = {run.info.run_name for name in specs for run in runs_of(client, name)}
    assert names == {"deidentify + user-dp, seed 1", "deidentify + user-dp, seed 2"}


def test_a_run_that_ends_between_a_look_and_the_word_about_it_is_counted(log, client, monkeypatch):
    """Ours sees that a run is missing; theirs ends and says so; then ours says what it saw."""
    from mlflow.tracking import MlflowClient

    specs = clipped(1.6, seeds=(1, 2))
    every, results = [*specs.values()], [result_of(one, spec=spec) for one, spec in specs.items()]
    ours, theirs = (Grid.from_specs({result.id: result.spec}, every) for result in results)
    run_id = log(results[0], grid=ours)["mlflow_run_id"]
    original, statuses = MlflowClient.set_terminated, []

    def late(self, run_id, status, *more):
        if not statuses:
            statuses.append(status)
            end(client, theirs, log(results[1], grid=theirs)["mlflow_run_id"])
            (parent,) = parents(client, specs)
            assert parent.info.status == "FINISHED"
        return original(self, run_id, status, *more)

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "set_terminated", late)
        end(client, ours, run_id)
    assert statuses == ["KILLED"]
    (parent,) = parents(client, specs)
    assert parent.info.status == "FINISHED"


def test_runs_whose_parent_was_deleted_get_the_new_one(log, client):
    specs = clipped(1.4, 1.5)
    results = [result_of(one, spec=spec) for one, spec in specs.items()]
    grid = Grid.from_specs(specs)
    for _ in range(2):
        end(client, grid, *[log(result, grid=grid)["mlflow_run_id"] for result in results])
        (parent,) = parents(client, specs)
        (run,) = runs_of(client, results[0].id)
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        client.delete_run(parent.info.run_id)


def clipped(*bounds, seeds=(1,)):
    """Specs of a grid by id: one for each clip bound and seed."""
    base = result_of("x").spec
    results = {}
    for bound in bounds:
        for seed in seeds:
            chain = (base.mechanism[0], ComponentSpec(name="user-dp", params={"clip": bound}))
            new = {"mechanism": chain, "seed": seed}
            results[f"{bound}-{seed}"] = base.model_copy(update=new)
    return results


def test_runs_of_a_grid_are_named_by_what_differs():
    grid = Grid.from_specs(clipped(0.1, 0.5, seeds=(1, 2)))
    assert grid.names["0.5-2"] == "deidentify + user-dp (clip=0.5), seed 2"
    assert len(set(grid.names.values())) == 4
    assert grid.common["mechanism.deidentify.style"] == "remove"
    assert "mechanism.user-dp.clip" not in grid.common
    assert grid.key == Grid.from_specs(clipped(0.5, 0.1)).key
    assert grid.key != Grid.from_specs(clipped(0.5)).key


def test_a_grid_is_one_parent_with_its_runs_below_it(log, client, out):
    specs = clipped(0.1, 0.5)
    for _ in range(2):  # the same command again
        grid = Grid.from_specs(specs)
        results = [result_of(one, spec=spec) for one, spec in specs.items()]
        children = [log(result, grid=grid)["mlflow_run_id"] for result in results]
        end(client, grid, *children)
    experiment = client.get_experiment_by_name("tests").experiment_id
    (parent,) = parents(client, specs)
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name.startswith("next-word on embedded, lstm-small (grid ")
    children_logged = client.search_runs(
        [experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    )
    assert sorted(run.info.run_id for run in children_logged) == sorted(children)
    # Boards read results, and the parent has none.
    listed = {run for run, _ in logged_runs(f"sqlite:///{out}/mlflow.db", "tests")}
    assert parent.info.run_id not in listed
    assert listed >= {*children}


def test_a_grid_that_was_interrupted_and_one_with_a_failed_run_say_so(log, client):
    specs = clipped(0.2, 0.3)
    first, second = (result_of(one, spec=spec) for one, spec in specs.items())
    grid = Grid.from_specs(specs)
    run_id = log(first, grid=grid)["mlflow_run_id"]
    parent = client.get_run(run_id).data.tags["mlflow.parentRunId"]
    end(client, grid, run_id)
    assert client.get_run(parent).info.status == "KILLED"
    error = {"type": "InputError", "message": "no", "phase": "train"}
    failed = Result.model_validate({**second.model_dump(), "status": "failed", "error": error})
    end(client, grid, run_id, log(failed, grid=grid)["mlflow_run_id"])
    assert client.get_run(parent).info.status == "FAILED"


def test_a_run_that_is_alone_has_no_parent(log, client):
    grid = Grid.from_specs(clipped(0.7))
    (one,) = clipped(0.7).items()
    run = client.get_run(log(result_of(one[0], spec=one[1]), grid=grid)["mlflow_run_id"])
    assert "mlflow.parentRunId" not in run.data.tags
    assert run.info.run_name == "deidentify + user-dp, seed 1"
