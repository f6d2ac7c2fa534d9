"""MLflow has what the result has, once, and each leads to the other."""

from __future__ import annotations

import errno
import json
import os
import socket
import time

import pytest
from logged_results import result_of

from uedp_bench.errors import TrackingError
from uedp_bench.harness import tracking
from uedp_bench.harness.tracking import log_result
from uedp_bench.results import ComponentSpec, Cost, Result


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder of results: setting up its SQLite store takes seconds."""
    return tmp_path_factory.mktemp("runs with a space")


@pytest.fixture
def log(out):
    def log(result, **more):
        folder = out / result.id
        (folder / "release").mkdir(parents=True, exist_ok=True)
        (folder / "planted.json").write_text("{}")
        (folder / "release" / "weights").write_bytes(b"w" * 100)
        return log_result(result, folder, uri=None, experiment="tests", **more)

    return log


@pytest.fixture
def client(out):
    from mlflow.tracking import MlflowClient

    return MlflowClient(f"sqlite:///{out}/mlflow.db")


def runs_of(client, identifier):
    experiment = client.get_experiment_by_name("tests").experiment_id
    return client.search_runs([experiment], f"tags.`uedp_bench.id` = '{identifier}'")


def test_row_to_run_and_back(log, client, out):
    found = log(result_of("aa01"))
    run = client.get_run(found["mlflow_run_id"])
    assert found["tracking_uri"] == f"sqlite:///{out}/mlflow.db"
    assert run.data.tags["uedp_bench.id"] == "aa01"
    assert run.data.tags["uedp_bench.group"] == "g"
    assert run.info.status == "FINISHED"
    artifacts = out / "mlartifacts" / run.info.run_id / "artifacts"
    copy = Result.model_validate(json.loads((artifacts / "result.json").read_text()))
    assert copy.id == "aa01"
    assert copy.tracking == found
    assert (artifacts / "release" / "weights").read_bytes() == b"w" * 100
    assert (artifacts / "planted.json").is_file()


def test_parameters_metrics_and_rounds(log, client):
    run_id = log(result_of("aa02"))["mlflow_run_id"]
    data = client.get_run(run_id).data
    expected = {
        "mechanism": "deidentify + user-dp",
        "mechanism.user-dp.rounds": "3",
        "mechanism.deidentify.style": "remove",
        "attack.membership.held_out": "0.1",
        "source": "embedded",
        "source.users": "7",
        "seed": "4",
    }
    assert expected.items() <= data.params.items()
    assert data.metrics["utility/perplexity"] == 50.0
    assert data.metrics["utility/perplexity/high"] == 51.0
    assert data.metrics["leakage/membership/tpr_at_0.1pct_fpr"] == 0.25
    assert data.metrics["epsilon/proven/user/add-or-remove"] == 7.5
    assert data.metrics["cost/train_seconds"] == 2.0
    assert data.metrics["diagnostics/clipped"] == 0.5
    history = client.get_metric_history(run_id, "round/train_loss")
    assert sorted((point.step, point.value) for point in history) == [(1, 3.0), (2, 2.0), (3, 1.5)]


def test_infinity_is_a_tag_and_never_a_huge_metric(log, client):
    data = client.get_run(log(result_of("aa03"))["mlflow_run_id"]).data
    assert data.tags["epsilon.claimed.entity.add-or-remove"] == "inf"
    assert data.tags["epsilon.proven.user-entity.add-or-remove"] == "refused"
    assert data.tags["epsilon.proven.user.add-or-remove"] == "7.5"
    assert all(value < 1e300 for value in data.metrics.values())
    assert not any("user-entity" in name or "signal" in name for name in data.metrics)


def test_logging_again_returns_the_same_run_and_a_changed_result_updates_it(log, client):
    broken = result_of("aa04", status="failed", series={}, diagnostics={"clipped": 0.9})
    first = log(broken)
    assert log(broken) == first
    assert client.get_run(first["mlflow_run_id"]).info.status == "FAILED"
    mended = result_of("aa04", provenance={"created": "2024-05-02T00:00:00+00:00"})
    moved = mended.spec.model_copy(update={"source": ComponentSpec(name="elsewhere")})
    assert log(mended.model_copy(update={"spec": moved})) == first
    (run,) = runs_of(client, "aa04")
    assert run.info.status == "FINISHED"
    assert run.data.tags["uedp_bench.status"] == "finished"
    assert run.data.metrics["diagnostics/clipped"] == 0.5
    assert len(client.get_metric_history(run.info.run_id, "round/train_loss")) == 3


def test_what_was_interrupted_is_logged_in_full_next_time(log, client, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tracking, "_log_files", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log(result_of("aa05"))
    found = log(result_of("aa05"))
    (run,) = runs_of(client, "aa05")
    assert run.info.run_id == found["mlflow_run_id"]
    names = {entry.path for entry in client.list_artifacts(run.info.run_id)}
    assert names == {"result.json", "planted.json", "release"}


@pytest.mark.parametrize("step", ["set_terminated", "set_tag", "log_batch", "log_text"])
def test_no_interrupted_run_stays_running(log, client, monkeypatch, step):
    """The run is cut off right before and right after each step; the next command ends it."""
    from mlflow.tracking import MlflowClient

    for after in (False, True):
        result = result_of(f"ab{step}{after}")
        original = getattr(MlflowClient, step)

        def interrupted(self, *args, original=original, after=after, **more):
            if after:
                original(self, *args, **more)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(MlflowClient, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                log(result)
        log(result)
        (run,) = runs_of(client, result.id)
        assert run.info.status == "FINISHED"
        names = {entry.path for entry in client.list_artifacts(run.info.run_id)}
        assert names == {"result.json", "planted.json", "release"}


def test_runs_of_a_grid_have_names_of_their_own_and_true_durations(log, client):
    cost = Cost(train_seconds=2.0, attack_seconds=1.5, reference_seconds=1.0)
    runs = [client.get_run(log(result_of(name, cost=cost))["mlflow_run_id"]).info
            for name in ("ac0001", "ac0002")]  # fmt: skip
    name = "deidentify + user-dp, seed 4"
    assert [run.run_name for run in runs] == [f"{name} (ac0001)", f"{name} (ac0002)"]
    assert {run.end_time - run.start_time for run in runs} == {3500}
    assert runs[0].end_time == 1714521600000


def test_a_store_whose_first_set_up_was_interrupted_is_no_store(tmp_path, monkeypatch):
    from mlflow.store.db import utils

    def stop(engine):
        """What Ctrl-C leaves in the middle: some of the tables."""
        utils.InitialBase.metadata.create_all(engine)
        raise KeyboardInterrupt

    folder, where = tmp_path / "runs" / "ad01", {"uri": None, "experiment": "tests"}
    with monkeypatch.context() as patched:
        patched.setattr(
            "mlflow.store.tracking.sqlalchemy_store._initialize_tables", stop, raising=False
        )
        patched.setattr(utils, "_safe_initialize_tables", stop)
        patched.setattr("mlflow.store.db.utils._initialize_tables", stop)
        with pytest.raises(KeyboardInterrupt):
            log_result(result_of("ad01"), folder, **where)
    assert list((tmp_path / "runs").iterdir()) == []
    tracking._experiment.cache_clear()
    assert log_result(result_of("ad01"), folder, **where)["experiment"] == "tests"
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "mlartifacts", "mlflow.db"]  # fmt: skip


def test_links_of_a_stranger_are_not_uploaded(log, client, out, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("private")
    for folder in (out / "ae01", out / "ae01" / "release"):
        folder.mkdir(parents=True)
        (folder / "note.txt").symlink_to(secret)
    run_id = log(result_of("ae01"))["mlflow_run_id"]
    names = {entry.path for entry in client.list_artifacts(run_id)}
    assert names == {"result.json"}


def test_a_release_that_nothing_is_proven_about_is_logged_only_on_request(log, client):
    unproven = {"guarantees": ()}
    without = log(result_of("af01", **unproven))["mlflow_run_id"]
    with_it = log(result_of("af02", **unproven), log_release=True)["mlflow_run_id"]
    assert {entry.path for entry in client.list_artifacts(without)} == {"result.json"}
    names = {entry.path for entry in client.list_artifacts(with_it)}
    assert names == {"result.json", "planted.json", "release"}


def test_a_large_release_is_logged_only_on_request(log, client, monkeypatch):
    monkeypatch.setattr(tracking, "MAX_RELEASE_BYTES", 99)
    without = log(result_of("aa06"))["mlflow_run_id"]
    with_it = log(result_of("aa07"), log_model=True)["mlflow_run_id"]
    assert "release" not in {entry.path for entry in client.list_artifacts(without)}
    assert "release" in {entry.path for entry in client.list_artifacts(with_it)}


def test_more_points_than_one_batch_holds(log, client):
    points = [(step, float(step)) for step in range(1, 1502)]
    run_id = log(result_of("aa08", series={"train_loss": points}))["mlflow_run_id"]
    assert len(client.get_metric_history(run_id, "round/train_loss")) == 1501


def test_an_unreachable_server_fails_fast_in_one_line_without_credentials(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(TrackingError) as caught:
        log_result(
            result_of("aa09"), tmp_path / "x", uri=f"http://me:secret@127.0.0.1:{port}",
            experiment="tests",
        )  # fmt: skip
    assert time.monotonic() - began < 20
    message = str(caught.value)
    assert f"cannot log to MLflow at http://***@127.0.0.1:{port}" in message
    assert "secret" not in message
    assert "\n" not in message
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ


def test_an_unknown_scheme_is_a_tracking_error(tmp_path):
    with pytest.raises(TrackingError, match="bogus://x"):
        log_result(result_of("aa10"), tmp_path / "x", uri="bogus://x", experiment="tests")


def test_a_full_disk_stays_what_it_is(log, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tracking, "_log_files", full)
    with pytest.raises(OSError, match="No space left") as caught:
        log(result_of("aa11"))
    assert caught.value.errno == errno.ENOSPC
