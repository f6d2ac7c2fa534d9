"""What a server does not take waits, and is logged once the server takes it."""

from __future__ import annotations

import pytest
from logged_results import result_of

from uedp_bench.cli import tracker as tracker_module
from uedp_bench.cli.tracker import Tracker
from uedp_bench.errors import TrackingError
from uedp_bench.harness import tracking
from uedp_bench.results import read_result, write_result


class Server:
    """Stands for MLflow: it takes results, but while it is gone, and none that it refuses."""

    def __init__(self):
        self.gone, self.refused, self.asked, self.took = False, set(), [], []

    def log_result(self, result, folder, **how):
        self.asked.append(result.id)
        if self.gone or result.id in self.refused:
            raise TrackingError("cannot log to MLflow at http://here: no answer")
        self.took.append(result.id)
        return {"mlflow_run_id": f"run-{result.id}"}


@pytest.fixture
def server(monkeypatch):
    found = Server()
    monkeypatch.setattr(tracking, "log_result", found.log_result)
    return found


@pytest.fixture
def log(tmp_path):
    """Logs a result that lies on disk."""

    def log(tracker, name):
        result = result_of(name)
        (tmp_path / name).mkdir(exist_ok=True)
        write_result(result, tmp_path / name / "result.json")
        return tracker.log(result)

    return log


def test_a_server_that_returns_gets_what_waited_at_the_end(server, log, tmp_path):
    tracker, said = Tracker(tmp_path, "http://here"), []
    with tracker.live([], lambda message: None, said.append):
        results = [log(tracker, "aa")]
        server.gone = True
        results += [log(tracker, "ab"), log(tracker, "ac")]
        assert server.asked == ["aa", "ab"]  # it is not asked at every result
        assert tracker.error is not None
        server.gone = False
    assert tracker.error is None
    assert server.took == ["aa", "ab", "ac"]
    assert said == ["cannot log to MLflow at http://here: no answer; results wait to be logged"]
    for result in results:
        known = {"mlflow_run_id": f"run-{result.id}"}
        assert tracker.latest(result).tracking == known
        assert read_result(tmp_path / result.id / "result.json").tracking == known


def test_a_server_that_returns_gets_all_with_the_next_result(server, log, tmp_path, monkeypatch):
    monkeypatch.setattr(tracker_module, "RETRY_SECONDS", 0.0)
    tracker = Tracker(tmp_path, "http://here")
    server.gone = True
    log(tracker, "aa")
    server.gone = False
    assert log(tracker, "ab").tracking == {"mlflow_run_id": "run-ab"}
    assert tracker.error is None
    assert server.took == ["aa", "ab"]


def test_a_server_that_stays_away_is_asked_seldom(server, log, tmp_path):
    tracker = Tracker(tmp_path, "http://here")
    server.gone = True
    with tracker.live([], lambda message: None, lambda line: None):
        for name in ("aa", "ab", "ac", "ad"):
            assert log(tracker, name).tracking == {}
    assert tracker.error is not None
    assert len(server.asked) == 3  # the first result, and twice at the end


def test_a_result_that_is_refused_holds_no_other_up(server, log, tmp_path):
    tracker = Tracker(tmp_path, "http://here")
    server.refused = {"aa"}
    with tracker.live([], lambda message: None, lambda line: None):
        for name in ("aa", "ab", "ac"):
            log(tracker, name)
    assert sorted(server.took) == ["ab", "ac"]
    assert tracker.error is not None
