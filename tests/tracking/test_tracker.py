"""A command's results and curves reach MLflow once, now or later, and hold no run up."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace

import pytest
from logged_results import result_of

from uedp_bench.contracts.results import Headline, read_result, write_result
from uedp_bench.errors import InputError, TrackingError
from uedp_bench.grid.scheduler import JobProgress
from uedp_bench.python_api.run_grid import Options
from uedp_bench.tracking import runs, tracker
from uedp_bench.tracking.content import GRID
from uedp_bench.tracking.runs import PARENT
from uedp_bench.tracking.tracker import EXPERIMENT, Tracker

SPEC = result_of("x").spec


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(tracker, "SECONDS", 0.01)


def job(identifier, *, todo=True):
    return SimpleNamespace(id=identifier, spec=SPEC, todo=todo)


def live(tracked, *identifiers, warn=pytest.fail, machine=False):
    jobs = [job(identifier) for identifier in identifiers]
    return tracked.live(jobs, (), lambda message: None, warn, machine=machine)


def progress(identifier, *points):
    return JobProgress(identifier, "train", 1, 2, tuple(points))


def log(tracked, out, result):
    """Has a result logged that lies on disk."""
    (out / result.id).mkdir(exist_ok=True)
    write_result(result, out / result.id / "result.json")
    tracked.log(result)
    return result


def tagged(client, tag, value):
    experiment = client.get_experiment_by_name(EXPERIMENT)
    return client.search_runs([experiment.experiment_id], f"tags.`{tag}` = '{value}'")


def run_of(client, identifier):
    (run,) = tagged(client, "uedp_bench.id", identifier)
    return run


def curve(client, identifier, name="round/train_loss"):
    points = client.get_metric_history(run_of(client, identifier).info.run_id, name)
    return sorted((point.step, point.value) for point in points)


def until(condition):
    deadline = time.monotonic() + 120
    while True:
        try:
            if condition():
                return
        except (AttributeError, ValueError):  # not there yet
            pass
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---------------------------------------------------------------------------------- a store


def test_points_come_while_a_run_trains_and_the_result_adds_the_rest(client, out):
    tracked = Tracker(out, "")
    with live(tracked, "aa") as listen:
        listen(progress("aa", ("train_loss", 1, 3.0)))
        until(lambda: curve(client, "aa") == [(1, 3.0)])
        listen(progress("aa", ("train_loss", 2, 2.0), ("nan", 1, float("nan"))))
        until(lambda: len(curve(client, "aa")) == 2)
        run = run_of(client, "aa")
        assert run.info.status == "RUNNING"
        assert run.info.run_name == "deidentify + user-dp, seed 4"
        assert run.data.params["mechanism.user-dp.rounds"] == "3"
        assert "round/nan" not in run.data.metrics
        result = log(tracked, out, result_of("aa"))
        listen(progress("aa", ("train_loss", 3, 99.0)))  # the result says it
    assert curve(client, "aa") == [(1, 3.0), (2, 2.0), (3, 1.5)]
    assert run_of(client, "aa").info.status == "FINISHED"
    tracking = tracked.latest(result).tracking
    assert tracking["mlflow_run_id"] == run.info.run_id
    assert read_result(out / "aa" / "result.json").tracking == tracking


def test_an_experiment_holds_a_view_of_the_columns_that_matter(client, out):
    tracked = Tracker(out, "")
    headline = Headline(metric="perplexity", larger_is_better=False)
    with live(tracked, "view"):
        log(tracked, out, result_of("view", headline=headline))
    tags = client.get_experiment_by_name(EXPERIMENT).tags
    columns = json.loads(tags["mlflow.sharedViewState.uedp-bench"])["selectedColumns"]
    assert "metrics.`utility/perplexity`" in columns
    assert any(column.startswith("metrics.`epsilon/proven/") for column in columns)
    logged = {f"metrics.`{name}`" for name in run_of(client, "view").data.metrics}
    assert {column for column in columns if column.startswith("metrics")} <= logged


def test_a_run_that_goes_on_logs_no_step_twice(client, out):
    for steps in ([1, 2, 3], [2, 3, 4]):
        with live(Tracker(out, ""), "ab") as listen:
            listen(progress("ab", *[("train_loss", step, 1.0 / step) for step in steps]))
            until(lambda last=steps[-1]: curve(client, "ab")[-1:] == [(last, 1.0 / last)])
            assert run_of(client, "ab").info.status == "RUNNING"
        assert run_of(client, "ab").info.status == "KILLED"
    assert curve(client, "ab") == [(step, 1.0 / step) for step in (1, 2, 3, 4)]


def test_a_run_that_failed_runs_again(client, out):
    tracked = Tracker(out, "")
    with live(tracked, "ac"):
        log(tracked, out, result_of("ac", status="failed", series={"train_loss": [(1, 3.0)]}))
    assert run_of(client, "ac").info.status == "FAILED"
    tracked = Tracker(out, "")
    with live(tracked, "ac") as listen:
        listen(progress("ac", ("train_loss", 1, 3.0), ("train_loss", 2, 2.0)))
        until(lambda: curve(client, "ac") == [(1, 3.0), (2, 2.0)])
        assert run_of(client, "ac").info.status == "RUNNING"
        log(tracked, out, result_of("ac"))
    assert run_of(client, "ac").info.status == "FINISHED"
    assert curve(client, "ac") == [(1, 3.0), (2, 2.0), (3, 1.5)]


def test_an_interrupted_command_ends_its_runs_and_their_grid(client, out):
    with pytest.raises(KeyboardInterrupt), live(Tracker(out, ""), "ad", "ae") as listen:
        listen(progress("ad"))
        until(lambda: run_of(client, "ad"))
        raise KeyboardInterrupt
    run = run_of(client, "ad")
    assert run.info.status == "KILLED"
    assert client.get_run(run.data.tags[PARENT]).info.status == "KILLED"
    tracked = Tracker(out, "")
    with live(tracked, "ad", "ae"):
        for identifier in ("ad", "ae"):
            log(tracked, out, result_of(identifier))
    assert {run_of(client, one).data.tags[PARENT] for one in ("ad", "ae")} == {
        run.data.tags[PARENT]
    }
    parent = client.get_run(run.data.tags[PARENT])
    assert GRID in parent.data.tags
    assert parent.info.status == "FINISHED"


@pytest.mark.parametrize("switch", ["", "false"])
def test_mlflow_samples_the_machine_unless_that_is_off(client, out, monkeypatch, switch):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    if switch:
        monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", switch)
    name, one = "system/cpu_utilization_percentage", f"ag{switch}"
    before = round(1000 * time.time())
    for least in (2, 4):
        with live(Tracker(out, ""), one, machine=True) as listen:
            listen(progress(one))
            after = round(1000 * time.time())
            if switch:
                until(lambda: run_of(client, one).info.status == "RUNNING")
                time.sleep(0.3)
            else:
                until(lambda least=least: len(curve(client, one, name)) >= least)
        # The monitor of the run sends its last points after the command; the next goes on from it.
        until(lambda: not any("(finish)" in thread.name for thread in threading.enumerate()))
    run = run_of(client, one)
    assert before <= run.info.start_time <= after
    steps = [step for step, _ in curve(client, one, name)] if not switch else []
    assert steps == [*range(len(steps))]
    assert (name in run.data.metrics) == (not switch)


def test_a_folder_that_no_address_holds_is_refused_before_any_run(tmp_path):
    with pytest.raises(InputError, match="--out"), live(Tracker(tmp_path / "50%25", ""), "ah"):
        pytest.fail("begun")


def test_nothing_is_tracked_unasked(tmp_path):
    tracked = Tracker(tmp_path, None)
    with live(tracked, "ai") as listen:
        listen(progress("ai", ("train_loss", 1, 3.0)))
        result = log(tracked, tmp_path, result_of("ai"))
    assert tracked.latest(result) is result
    assert [path.name for path in tmp_path.iterdir()] == ["ai"]
    assert Options(tmp_path).tracking is None


# ----------------------------------------------------------------------------- a server that fails


class Server:
    """Stands for MLflow: it takes results, but while it is gone, and none that it refuses."""

    def __init__(self):
        self.gone, self.refused, self.ids, self.took = False, set(), [], []

    def log_result(self, result, folder, **options):
        self.ids.append(result.id)
        if self.gone or result.id in self.refused:
            raise TrackingError("cannot log to MLflow at http://here: no answer")
        self.took.append(result.id)
        return {"mlflow_run_id": f"run-{result.id}"}


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setattr(runs, "log_result", server.log_result)
    monkeypatch.setattr(Tracker, "_end", lambda self: None)
    return server


def test_a_server_that_returns_gets_what_waited_at_the_end(server, tmp_path):
    tracked, warnings = Tracker(tmp_path, "http://here"), []
    with live(tracked, "aa", "ab", "ac", warn=warnings.append):
        results = [log(tracked, tmp_path, result_of("aa"))]
        until(lambda: server.took == ["aa"])
        server.gone = True
        results += [log(tracked, tmp_path, result_of(one)) for one in ("ab", "ac")]
        until(lambda: tracked.error)
        time.sleep(0.1)
        assert server.ids == ["aa", "ab"]  # it is not asked at every result
        server.gone = False
    assert tracked.error is None
    assert sorted(server.took) == ["aa", "ab", "ac"]
    assert warnings == ["cannot log to MLflow at http://here: no answer; results wait to be logged"]
    for result in results:
        tracking = {"mlflow_run_id": f"run-{result.id}"}
        assert tracked.latest(result).tracking == tracking
        assert read_result(tmp_path / result.id / "result.json").tracking == tracking


def test_a_server_that_returns_gets_all_while_runs_train(server, tmp_path, monkeypatch):
    monkeypatch.setattr(tracker, "RETRY_SECONDS", 0.0)
    tracked, warnings = Tracker(tmp_path, "http://here"), []
    server.gone = True
    with live(tracked, "aa", "ab", warn=warnings.append):
        log(tracked, tmp_path, result_of("aa"))
        until(lambda: tracked.error)
        server.gone = False
        log(tracked, tmp_path, result_of("ab"))
        until(lambda: sorted(server.took) == ["aa", "ab"])
        until(lambda: tracked.error is None)
    assert len(warnings) == 1


def test_a_server_that_stays_away_is_asked_seldom(server, tmp_path):
    tracked = Tracker(tmp_path, "http://here")
    server.gone = True
    with live(tracked, "aa", "ab", "ac", "ad", warn=lambda line: None):
        results = [log(tracked, tmp_path, result_of(one)) for one in ("aa", "ab", "ac", "ad")]
        until(lambda: tracked.error)
    assert isinstance(tracked.error, TrackingError)
    assert len(server.ids) == 3  # the first result, and twice at the end
    assert {tracked.latest(result).tracking.get("mlflow_run_id") for result in results} == {None}


def test_a_result_that_is_refused_holds_no_other_up(server, tmp_path):
    tracked = Tracker(tmp_path, "http://here")
    server.refused = {"aa"}
    with live(tracked, "aa", "ab", "ac", warn=lambda line: None):
        for name in ("aa", "ab", "ac"):
            log(tracked, tmp_path, result_of(name))
    assert sorted(server.took) == ["ab", "ac"]
    assert tracked.error is not None


def test_a_server_that_does_not_answer_holds_no_run_up(tmp_path, server, monkeypatch):
    begun, go_on, warnings = threading.Event(), threading.Event(), []

    def silent(self):
        begun.set()
        go_on.wait(120)
        raise TrackingError("cannot log to MLflow at http://here: no answer")

    monkeypatch.setattr(Tracker, "_send_points", silent)
    tracked = Tracker(tmp_path, "http://here")
    with live(tracked, "ad", warn=warnings.append) as listen:
        assert begun.wait(120)
        for step in range(1000):
            listen(progress("ad", ("train_loss", step, 3.0)))
        log(tracked, tmp_path, result_of("ad"))
        go_on.set()
        until(lambda: warnings)
    assert len(warnings) == 1
    assert tracked.error is None
    assert server.took == ["ad"]


def test_points_wait_in_a_queue_that_forgets_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(tracker, "SECONDS", 60.0)
    monkeypatch.setattr(tracker, "_MOST_POINTS", 3)
    tracked = Tracker(tmp_path, "http://127.0.0.1:9")
    with live(tracked, "af", warn=lambda line: None) as listen:
        listen(progress("af", *[("train_loss", step, 1.0) for step in range(9)]))
        listen(progress("somebody else", ("train_loss", 1, 1.0)))
        assert [step for _, _, step, _, _ in tracked._points] == [6, 7, 8]
