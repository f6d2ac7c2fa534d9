"""MLflow shows a curve while a run trains, each point once, and nothing depends on it."""

from __future__ import annotations

import threading
import time

import pytest
from logged_results import result_of

from uedp_bench.errors import TrackingError
from uedp_bench.harness import live_metrics, tracking_client
from uedp_bench.harness.live_metrics import LiveMetrics
from uedp_bench.harness.scheduler import JobProgress, _Telling
from uedp_bench.harness.system_metrics import SystemMetrics
from uedp_bench.harness.tracking import LiveRun, log_result

SPEC = result_of("x").spec


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder of results: setting up its SQLite store takes seconds."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def uri(out):
    return tracking_client.default_uri(out)


@pytest.fixture
def client(uri):
    from mlflow.tracking import MlflowClient

    return MlflowClient(uri)


def heard(identifier, *points):
    return JobProgress(identifier, "train", 1, 2, tuple(points))


def run_of(client, identifier):
    experiment = client.get_experiment_by_name("tests").experiment_id
    (run,) = client.search_runs([experiment], f"tags.`uedp_bench.id` = '{identifier}'")
    return run


def curve(client, identifier, name="train_loss"):
    run = run_of(client, identifier).info.run_id
    points = client.get_metric_history(run, f"round/{name}")
    return sorted((point.step, point.value) for point in points)


def live(uri, *identifiers, **more):
    specs = dict.fromkeys(identifiers, SPEC)
    more = {"warn": pytest.fail, "seconds": 0.01, **more}
    return LiveMetrics(specs, (uri, "tests"), **more)


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_points_are_there_before_the_run_ends_and_the_result_adds_only_what_is_missing(
    uri, client, out
):
    with live(uri, "aa") as watching:
        watching.hear(heard("aa", ("train_loss", 1, 3.0)))
        until(lambda: not watching._waiting and watching._runs)
        watching.hear(heard("aa", ("train_loss", 2, 2.0), ("nan", 1, float("nan"))))
        until(lambda: len(curve(client, "aa")) == 2)
        run = run_of(client, "aa")
        assert run.info.status == "RUNNING"
        assert run.info.run_name == "deidentify + user-dp, seed 4 (aa)"
        assert run.data.params["mechanism.user-dp.rounds"] == "3"
        assert "round/nan" not in run.data.metrics
        watching.ended("aa")
        watching.hear(heard("aa", ("train_loss", 3, 99.0)))  # the result says it
    (out / "aa").mkdir()
    log_result(result_of("aa"), out / "aa", uri=None, experiment="tests")
    assert curve(client, "aa") == [(1, 3.0), (2, 2.0), (3, 1.5)]
    assert run_of(client, "aa").info.status == "FINISHED"


def test_a_run_that_goes_on_logs_no_step_twice(uri, client):
    for steps in ([1, 2, 3], [2, 3, 4]):
        with live(uri, "ab") as watching:
            points = [("train_loss", step, 1.0 / step) for step in steps]
            watching.hear(heard("ab", *points))
            until(lambda: watching._runs and not watching.sending.locked())
        assert run_of(client, "ab").info.status == "KILLED"
    assert curve(client, "ab") == [(step, 1.0 / step) for step in (1, 2, 3, 4)]


def test_a_run_that_failed_runs_again(uri, client, out):
    failed = result_of("ac", status="failed", series={"train_loss": [(1, 3.0)]})
    log_result(failed, out / "ac", uri=None, experiment="tests")
    run = LiveRun("ac", SPEC, (uri, "tests"))
    assert run_of(client, "ac").info.status == "RUNNING"
    run.log([("train_loss", 1, 3.0, 5), ("train_loss", 2, 2.0, 6)])
    assert curve(client, "ac") == [(1, 3.0), (2, 2.0)]
    log_result(result_of("ac"), out / "ac", uri=None, experiment="tests")
    assert run_of(client, "ac").info.status == "FINISHED"
    assert curve(client, "ac") == [(1, 3.0), (2, 2.0), (3, 1.5)]


def test_a_server_that_is_gone_is_told_of_once_and_holds_nobody_up(monkeypatch):
    asked, said, begun, go_on = [], [], threading.Event(), threading.Event()

    class Gone:
        def __init__(self, *known):
            asked.append(known)
            begun.set()
            go_on.wait(30)  # a server that does not answer
            raise TrackingError("cannot log to MLflow at http://gone: no answer")

    monkeypatch.setattr(live_metrics, "LiveRun", Gone)
    with live("http://gone", "ad", "ae", warn=said.append) as watching:
        watching.hear(heard("ad", ("train_loss", 1, 3.0)))
        assert begun.wait(30)
        for step in range(1000):
            watching.hear(heard("ae", ("train_loss", step, 3.0)))
        assert len(watching._waiting) == 1000
        go_on.set()
        until(lambda: said)
        watching.ended("ad")
        time.sleep(0.1)  # the thread looks ten times
    assert len(asked) == 1
    assert said == [
        "cannot log to MLflow at http://gone: no answer; metrics are logged when the runs have "
        "ended"
    ]


def test_a_server_that_returns_gets_points_again(uri, client, monkeypatch):
    monkeypatch.setattr(live_metrics, "RETRY_SECONDS", 0.05)
    asked, said, real = [], [], LiveRun

    def back(*known):
        asked.append(known)
        if len(asked) < 3:
            raise TrackingError("cannot log to MLflow: no answer")
        return real(*known)

    monkeypatch.setattr(live_metrics, "LiveRun", back)
    with live(uri, "az", warn=said.append) as watching:
        watching.hear(heard("az", ("train_loss", 1, 3.0)))
        until(lambda: watching._runs)
        watching.hear(heard("az", ("train_loss", 2, 2.0)))
        until(lambda: curve(client, "az") == [(2, 2.0)])  # the result adds the first
    assert len(said) == 1
    assert run_of(client, "az").info.status == "KILLED"


def test_the_queue_forgets_the_oldest(uri, monkeypatch):
    monkeypatch.setattr(live_metrics, "_MOST_WAITING", 3)
    watching = live(uri, "af")
    watching.hear(heard("af", *[("train_loss", step, 1.0) for step in range(9)]))
    assert [step for _, _, step, _, _ in watching._waiting] == [6, 7, 8]
    watching.hear(heard("somebody else", ("train_loss", 1, 1.0)))
    assert len(watching._waiting) == 3


def test_a_run_tells_its_points_with_its_progress():
    told = []
    telling = _Telling(told.append)
    telling.progress("train", 0, 9)
    for step in range(1, 4):
        telling.point("train_loss", step, 1.0)
        telling.progress("train", step, 9)
    telling.progress("score", 0, 1)
    assert told[0] == ("train", 0, 9, ())
    assert [point for *_, points in told for point in points] == [
        ("train_loss", step, 1.0) for step in (1, 2, 3)
    ]
    assert len(told) < 5


def test_a_run_without_points_yet_is_there_with_samples_of_the_machine(uri, client, monkeypatch):
    class Machine:
        def sample(self):
            return {"system/cpu_utilization_percentage": 50.0}

    monkeypatch.setattr(live_metrics, "SystemMetrics", Machine)
    before = round(1000 * time.time())
    for _ in range(2):
        with live(uri, "ag") as watching:
            watching.hear(heard("ag"))
            after = round(1000 * time.time())
            until(lambda: watching._runs and not watching.sending.locked())
    run = run_of(client, "ag")
    assert before <= run.info.start_time <= after
    name = "system/cpu_utilization_percentage"
    points = client.get_metric_history(run.info.run_id, name)
    assert [point.step for point in points] == [*range(len(points))]
    assert {point.value for point in points} == {50.0}


def test_the_machine_is_sampled_now_and_then_and_never_where_that_is_off(monkeypatch):
    machine = SystemMetrics()
    first = machine.sample()
    assert 0.0 <= first["system/cpu_utilization_percentage"] <= 100.0
    assert first["system/system_memory_usage_megabytes"] > 0.0
    assert machine.sample() == {}
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "false")
    assert SystemMetrics().sample() == {}
