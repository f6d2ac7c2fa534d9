"""MLflow has what the result has, once, and each leads to the other."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from logged_results import files_of, models_of, result_of, runs_of

from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import ComponentSpec, Result
from uedp_bench.errors import InputError, TrackingError
from uedp_bench.tracking import content, runs
from uedp_bench.tracking.runs import log_result
from uedp_bench.tracking.store import default_uri, without_credentials


def test_row_to_run_and_back(log, client, out):
    tags = log(result_of("aa01"))
    run = client.get_run(tags["mlflow_run_id"])
    assert tags["tracking_uri"] == f"sqlite:///{out}/mlflow.db"
    assert run.data.tags["uedp_bench.id"] == "aa01"
    assert run.data.tags["uedp_bench.group"] == "g"
    assert run.info.status == "FINISHED"
    artifacts = out / "mlartifacts" / run.info.run_id / "artifacts"
    copy = Result.model_validate(json.loads((artifacts / "result.json").read_text()))
    assert copy.id == "aa01"
    assert copy.tracking == tags
    assert (artifacts / "planted.json").is_file()
    (model,) = models_of(client, run.info.run_id)
    folder = Path(unquote(urlparse(model.artifact_location).path))
    assert (folder / "release" / "weights").read_bytes() == b"w" * 100
    assert Result.model_validate_json((folder / "result.json").read_text()).id == "aa01"
    assert model.status == "READY"


def test_epsilons_that_do_not_compare_share_no_column():
    def promised(epsilon: float, notion: str) -> Guarantee:
        return Guarantee(kind="claimed", notion=notion, unit="word", adjacency="replace-one",
                         epsilon=epsilon, delta=0.0, accountant=f"of {epsilon}")  # fmt: skip

    promises = (promised(3.0, "dp"), promised(1.0, "dp"), promised(9.0, "metric-dp"))
    result = result_of("aa09").model_copy(update={"guarantees": promises})
    logged = {name: value for name, value, _ in content.metrics(result) if "epsilon" in name}
    name = "epsilon/claimed/word/replace-one"
    assert logged == {name: 3.0, f"{name}/per unit of distance": 9.0}
    assert "9 (per unit of distance)" in content.tags(result)[name.replace("/", ".")]


def test_columns_of_long_names_fit_a_tag():
    leakage = {"é" * 50: {f"{at}{'x' * 240}": {"value": 1.0} for at in range(60)}}
    result = Result.model_validate(result_of("aa10").model_dump() | {"leakage": leakage})
    declared = {"leakage": {"é" * 50: [{"name": name, "main": True} for name in leakage["é" * 50]]}}
    result = Result.model_validate(result.model_dump() | {"metrics": declared})
    _, value = content.view([result])
    assert 4_000 < len(value) <= 5_000
    assert "epsilon/proven/" in value


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


def test_a_tag_says_which_epsilon_is_declared_or_refuted():
    claim = Guarantee(kind="claimed", notion="dp", unit="user", adjacency="add-or-remove",
                      epsilon=1.0, delta=0.0, accountant=DECLARED, status="refuted")  # fmt: skip
    other = claim.model_copy(update={"epsilon": 9.0, "accountant": "pld", "status": "given"})
    result = result_of("aa77").model_copy(update={"guarantees": (claim, other)})
    assert content.tags(result)["epsilon.claimed.user.add-or-remove"] == (
        "1 (declared by the user, refuted), 9"
    )


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


ON_A_CORPUS = {
    "created": "2024-05-01T00:00:00+00:00",
    "corpus": {"fingerprint": "ab12", "rows": 9, "train_rows": 5, "users": 3},
}
STEPS = ["set_terminated", "set_tag", "log_batch", "log_text", "log_inputs", "log_outputs",
         "log_model_artifacts", "finalize_logged_model"]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
def test_no_interrupted_run_stays_running(log, client, monkeypatch, step):
    """The run is cut off right before and right after each step; the next command ends it."""
    from mlflow.tracking import MlflowClient

    for after in (False, True):
        result = result_of(f"ab{step}{after}", provenance=ON_A_CORPUS)
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
        assert files_of(client, run.info.run_id) == {"result.json", "planted.json"}
        assert [model.status for model in models_of(client, run.info.run_id)] == ["READY"]


def test_runs_have_names_of_their_own_and_true_durations(log, client):
    times = {"created": "2024-05-01T00:01:00.250+00:00", "started": "2024-05-01T00:00:58.000+00:00"}
    logged = [client.get_run(log(result_of(name, provenance=times))["mlflow_run_id"]).info
              for name in ("ac0001", "ac0002")]  # fmt: skip
    name = "deidentify + user-dp, seed 4"
    assert [run.run_name for run in logged] == [f"{name} (ac0001)", f"{name} (ac0002)"]
    assert {run.end_time - run.start_time for run in logged} == {2250}
    assert logged[0].end_time == 1714521660250


@pytest.mark.long
def test_a_store_whose_first_set_up_was_interrupted_is_no_store(tmp_path, monkeypatch):
    from mlflow.store.db import utils

    def stop(engine):
        """What Ctrl-C leaves in the middle: some of the tables."""
        utils.InitialBase.metadata.create_all(engine)
        raise KeyboardInterrupt

    folder = tmp_path / "runs" / "ad01"
    where = {"uri": default_uri(folder.parent), "experiment": "tests"}
    with monkeypatch.context() as patched:
        patched.setattr(
            "mlflow.store.tracking.sqlalchemy_store._initialize_tables", stop, raising=False
        )
        patched.setattr(utils, "_safe_initialize_tables", stop)
        patched.setattr("mlflow.store.db.utils._initialize_tables", stop)
        with pytest.raises(KeyboardInterrupt):
            log_result(result_of("ad01"), folder, **where)
    assert list((tmp_path / "runs").iterdir()) == []
    assert log_result(result_of("ad01"), folder, **where)["experiment"] == "tests"
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "mlartifacts", "mlflow.db"]  # fmt: skip


def test_a_store_whose_folder_was_moved_writes_nothing_where_it_was(tmp_path, log, out):
    log(result_of("ad03"))
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copy(out / "mlflow.db", moved)
    with pytest.raises(TrackingError, match=r"moved or copied.*mlflow\.db"):
        log_result(result_of("ad04"), moved / "ad04", uri=default_uri(moved), experiment="tests")


def test_links_of_a_stranger_are_not_uploaded(log, client, out, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("private")
    for folder in (out / "ae01", out / "ae01" / "release"):
        folder.mkdir(parents=True)
        (folder / "note.txt").symlink_to(secret)
    run_id = log(result_of("ae01"))["mlflow_run_id"]
    assert files_of(client, run_id) == {"result.json"}
    assert models_of(client, run_id) == []


def test_a_release_that_nothing_is_proven_about_is_logged_only_on_request(log, client):
    unproven = {"guarantees": ()}
    without = log(result_of("af01", **unproven))["mlflow_run_id"]
    with_it = log(result_of("af02", **unproven), unproven=True)["mlflow_run_id"]
    assert files_of(client, without) == {"result.json"}
    assert models_of(client, without) == []
    assert files_of(client, with_it) == {"result.json", "planted.json"}
    assert len(models_of(client, with_it)) == 1


def test_a_large_release_is_logged_only_on_request(log, client, monkeypatch):
    monkeypatch.setattr(runs, "MAX_RELEASE_BYTES", 99)
    without = log(result_of("aa06"))["mlflow_run_id"]
    with_it = log(result_of("aa07"), large=True)["mlflow_run_id"]
    assert models_of(client, without) == []
    assert len(models_of(client, with_it)) == 1


def test_a_server_without_models_gets_the_release_among_the_files(log, client, monkeypatch):
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import ENDPOINT_NOT_FOUND
    from mlflow.tracking import MlflowClient

    def unknown(*arguments, **more):
        raise MlflowException("no such endpoint", error_code=ENDPOINT_NOT_FOUND)

    monkeypatch.setattr(MlflowClient, "search_logged_models", unknown)
    run_id = log(result_of("aa12"))["mlflow_run_id"]
    assert files_of(client, run_id) == {"result.json", "planted.json", "release"}


def test_a_model_is_logged_again_only_when_its_files_change(log, client, out):
    first = log(result_of("aa13"))["mlflow_run_id"]
    (before,) = models_of(client, first)
    log(result_of("aa13", diagnostics={"clipped": 0.1}))
    assert [model.model_id for model in models_of(client, first)] == [before.model_id]
    (out / "aa13" / "release" / "bias").write_bytes(b"b")
    log(result_of("aa13", diagnostics={"clipped": 0.2}))
    assert len(models_of(client, first)) == 2


def test_data_sets_have_the_name_the_fingerprint_and_the_source_of_the_corpus(log, client):
    run = client.get_run(log(result_of("aa14", provenance=ON_A_CORPUS))["mlflow_run_id"])
    (data_set,) = run.inputs.dataset_inputs
    assert (data_set.dataset.name, data_set.dataset.digest) == ("embedded", "ab12")
    assert json.loads(data_set.dataset.profile) == {"rows": 9, "train_rows": 5, "users": 3}
    assert [(tag.key, tag.value) for tag in data_set.tags] == [("mlflow.data.context", "training")]

    import mlflow.data

    read = mlflow.data.get_source(data_set.dataset).to_dict()["tags"]
    assert read == {"uedp_bench.source": "embedded", "parameters": '{"users": 7}'}


def test_the_experiment_is_one_of_trained_models(log, client):
    log(result_of("aa15"))
    experiment = client.get_experiment_by_name("tests")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"


def test_more_points_than_one_batch_holds(log, client):
    points = [(step, float(step)) for step in range(1, 1502)]
    run_id = log(result_of("aa08", series={"train_loss": points}))["mlflow_run_id"]
    assert len(client.get_metric_history(run_id, "round/train_loss")) == 1501


@pytest.fixture(scope="module")
def imported():
    """Modules that logging imports: that takes seconds, which are not those of a server."""
    import mlflow.store.tracking.sqlalchemy_store
    import mlflow.tracking  # noqa: F401


@pytest.mark.usefixtures("imported")
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
    assert f"http://***@127.0.0.1:{port}" in message
    assert "secret" not in message
    assert "\n" not in message
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ


@pytest.mark.usefixtures("imported")
def test_a_database_that_is_gone_is_known_in_seconds(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    uri = f"postgresql://me:secret@127.0.0.1:{port}/runs?sslkey=token"
    with pytest.raises(TrackingError) as caught:
        log_result(result_of("aa16"), tmp_path / "x", uri=uri, experiment="tests")
    assert time.monotonic() - began < 20
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("name", ["what?", "50%25", "a#b"])
def test_a_folder_that_no_address_holds_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="--out"):
        default_uri(tmp_path / name)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:secret@host:5000/x?token=secret", "http://***@host:5000/x?***"),
        ("https://host/?access_token=secret", "https://host/?***"),
        ("failed at postgresql://host/db?password=secret for now", None),
        ("sqlite:///runs/mlflow.db", "sqlite:///runs/mlflow.db"),
    ],
)
def test_addresses_are_shown_without_secrets(uri, shown):
    assert "secret" not in without_credentials(uri)
    assert shown in (None, without_credentials(uri))


def test_canaries_go_to_no_server_of_others_unasked(log, client, monkeypatch):
    monkeypatch.setattr(runs, "sqlite_file", lambda uri: None)
    unasked = log(result_of("ag01"))["mlflow_run_id"]
    run = log(result_of("ag02"), unproven=True)["mlflow_run_id"]
    assert files_of(client, unasked) == {"result.json"}
    assert files_of(client, run) == {"result.json", "planted.json"}


def test_an_unknown_scheme_is_a_tracking_error(tmp_path):
    with pytest.raises(TrackingError, match="bogus://x"):
        log_result(result_of("aa10"), tmp_path / "x", uri="bogus://x", experiment="tests")
