"""Results go to a server of MLflow with Postgres behind it: each once, whatever dies meanwhile."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time

import pytest
from logged_results import result_of
from services import Misbehaving, until
from tiny import flags

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import read_result
from uedp_bench.errors import TrackingError
from uedp_bench.tracking.content import GRID, ID, Grid
from uedp_bench.tracking.runs import PARENT, end_grid, log_result
from uedp_bench.tracking.store import client_of, use_experiment

PROCESSES = 8
CORPUS = {"created": "2024-05-01T00:00:00+00:00",
          "corpus": {"fingerprint": "ab12", "rows": 9, "train_rows": 5, "users": 3}}  # fmt: skip


@pytest.fixture
def client(server):
    return client_of(server.uri)


def grid_of(name, seeds):
    """Results of a grid by id."""
    base = result_of("x").spec
    specs = {f"{name}{seed}": base.model_copy(update={"seed": seed, "delta": len(name) * 1e-6})
             for seed in range(seeds)}  # fmt: skip
    return {
        one: result_of(one, spec=spec, provenance=CORPUS, series={"loss": [(1, 2.0), (2, 1.0)]})
        for one, spec in specs.items()
    }


def folder_of(out, identifier):
    folder = out / identifier
    (folder / "release").mkdir(parents=True, exist_ok=True)
    (folder / "planted.json").write_text("{}")
    (folder / "release" / "weights").write_bytes(b"w" * 1000)
    return folder


def log(results, uri, experiment, out, every=()):
    """Logs a share of a grid, as a command does."""
    grid = Grid.from_specs({one: result.spec for one, result in results.items()}, every)
    where = {"uri": uri, "experiment": experiment, "grid": grid}
    logged = [log_result(result, folder_of(out, one), **where) for one, result in results.items()]
    run_ids = [tracking["mlflow_run_id"] for tracking in logged]
    use_experiment(uri, experiment, lambda place: end_grid(place, grid, run_ids))


def check(client, experiment, grids, *, statuses=("FINISHED",)):
    """Every run of the grids is there once, whole, below the one parent of its grid."""
    (folder,) = [one for one in client.search_experiments() if one.name == experiment]
    runs = client.search_runs([folder.experiment_id], max_results=1000)
    children = {run.data.tags[ID]: run for run in runs if ID in run.data.tags}
    parents = {run.info.run_id: run for run in runs if GRID in run.data.tags}
    assert len(runs) == len(children) + len(parents)
    assert children.keys() == {one for grid in grids for one in grid}
    assert len(parents) == len(grids)
    assert {run.info.status for run in parents.values()} <= {*statuses}
    models = client.search_logged_models([folder.experiment_id], max_results=1000)
    for grid in grids:
        assert len({children[one].data.tags[PARENT] for one in grid}) == 1
        for one, result in grid.items():
            run = children[one]
            assert run.info.status == "FINISHED"
            assert run.data.tags[PARENT] in parents
            assert run.data.params["seed"] == str(result.spec.seed)
            utility = {name: each.value for name, each in result.utility.items()}
            assert {f"utility/{name}": value for name, value in utility.items()}.items() <= (
                run.data.metrics.items())  # fmt: skip
            for name, points in result.series.items():
                history = client.get_metric_history(run.info.run_id, f"round/{name}")
                assert sorted((point.step, point.value) for point in history) == [*points]
            for name in utility:
                assert len(client.get_metric_history(run.info.run_id, f"utility/{name}")) == 1
            assert len(run.inputs.dataset_inputs) == 1
            files = {entry.path for entry in client.list_artifacts(run.info.run_id)}
            assert files == {"result.json"}  # what was planted goes to no server unasked
            (model,) = [model for model in models if model.tags[ID] == one]
            assert (model.source_run_id, model.status) == (run.info.run_id, "READY")
            assert [output.model_id for output in run.outputs.model_outputs] == [model.model_id]
    assert len(models) == len(children)


@pytest.fixture
def patient(monkeypatch):
    """A server that is well is waited for, however busy the machine is."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")


def _work(barrier, *arguments):
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "60"  # eight ask at once, on whatever machine
    barrier.wait()
    log(*arguments)


def test_eight_processes_log_two_grids_at_once_into_an_experiment_that_nobody_made(
    server, client, tmp_path
):
    grids = [grid_of("a", 12), grid_of("bb", 12)]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mlflow.tracking", "uedp_bench.tracking.runs"])
    barrier = context.Barrier(PROCESSES)
    processes = []
    for number in range(PROCESSES):
        grid = [*grids[number % 2].items()]
        share = dict(grid[number // 2 :: PROCESSES // 2])
        every = [result.spec for _, result in grid]
        arguments = (barrier, share, server.uri, "at once", tmp_path, every)
        processes.append(context.Process(target=_work, args=arguments))
        processes[-1].start()
    deadline = time.monotonic() + 400
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0))
        process.kill()  # one that is late would keep the tests from ending
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    check(client, "at once", grids)


@pytest.mark.usefixtures("patient")
def test_answers_that_are_lost_lose_and_double_nothing(server, client, tmp_path, monkeypatch):
    """A quarter of all requests fail, most of them after the server did what they ask."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    grid, between = grid_of("ccc", 4), Misbehaving(server.uri, seed=1)
    between.does = "lose"
    failures = 0
    for _ in range(100):  # the same command again and again
        try:
            log(grid, between.uri, "losses", tmp_path)
            break
        except TrackingError:
            failures += 1
    between.does = "pass"
    assert 0 < failures < 100
    log(grid, between.uri, "losses", tmp_path)
    between.close()
    check(client, "losses", [grid])


def test_what_postgres_misses_while_it_is_gone_is_logged_when_it_returns(
    server, postgres, client, tmp_path
):
    grid = grid_of("dddd", 2)
    first = dict([*grid.items()][:1])
    every = [result.spec for result in grid.values()]
    log(first, server.uri, "without a store", tmp_path, every)
    postgres.kill()
    began = time.monotonic()
    with pytest.raises(TrackingError):
        log(grid, server.uri, "without a store", tmp_path, every)
    assert time.monotonic() - began < 60
    postgres.start()
    log(grid, server.uri, "without a store", tmp_path, every)
    check(client, "without a store", [grid])


DP = ["--mechanism", "user-dp", "--set", "mechanism.rounds=2",
      "--set", "mechanism.users_per_round=10"]  # fmt: skip


def command(out, uri, *more):
    without = [part for part in flags(out, *DP, *more) if part != "--no-tracking"]
    return [*without, "--tracking-uri", uri]


def test_a_server_that_dies_in_the_middle_of_a_grid_gets_all_when_it_returns(server, tmp_path):
    """The next command logs what is missing; the results themselves wait for nobody."""
    out = tmp_path / "out"
    arguments = command(out, server.uri, "--seeds", "1,2,3,4,5,6,7,8", "--json")
    arguments[arguments.index("--workers") + 1] = str(PROCESSES)
    running = subprocess.Popen(
        [sys.executable, "-m", "uedp_bench", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    until(lambda: any(out.glob("*/result.json")), "no run ends")
    server.kill()
    output, errors = running.communicate(timeout=300)
    assert running.returncode == 1, errors
    (row,) = json.loads(output)  # the table is whole
    assert row["seeds"] == [1, 2, 3, 4, 5, 6, 7, 8]
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    assert "same command" in line
    server.start()
    assert run_cli(arguments) == 0
    results = {path.parent.name: read_result(path) for path in out.glob("*/result.json")}
    assert len(results) == 8
    assert {result.tracking["tracking_uri"] for result in results.values()} == {server.uri}
    client = client_of(server.uri)
    runs = {
        one: client.get_run(result.tracking["mlflow_run_id"]) for one, result in results.items()
    }
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert {one: run.data.tags[ID] for one, run in runs.items()} == {one: one for one in runs}
    experiment = next(iter(runs.values())).info.experiment_id
    logged = client.search_runs([experiment], f"tags.`{ID}` != ''")
    assert len(logged) == 8
    (parent,) = client.search_runs([experiment], f"tags.`{GRID}` != ''")
    assert parent.info.status == "FINISHED"
    assert {run.data.tags[PARENT] for run in logged} == {parent.info.run_id}


@pytest.mark.parametrize("does", ["hang", "fail"])
def test_a_server_that_does_not_answer_stops_no_grid(tmp_path, capsys, does):
    bad = Misbehaving()
    bad.does = does
    began = time.monotonic()
    assert run_cli(command(tmp_path, bad.uri, "--seeds", "1,2", "--json")) == 1
    assert time.monotonic() - began < 240  # MLflow's own limit is 120 s, eight times over
    bad.close()
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)
    assert row["seeds"] == [1, 2]
    assert bad.uri in printed.err


@pytest.mark.usefixtures("patient")
def test_a_slow_server_gets_everything(server, client, tmp_path):
    grid, between = grid_of("eeeee", 2), Misbehaving(server.uri)
    between.does = "slow"
    log(grid, between.uri, "slowly", tmp_path)
    between.close()
    check(client, "slowly", [grid])
