"""Results are read from folders and MLflow, each id once, and again only when they change."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import socket
from pathlib import Path

import pytest
from board_results import plain_spec

from uedp_bench.contracts.results import (
    Cost,
    Estimate,
    Result,
    write_result,
)
from uedp_bench.errors import InputError, TrackingError
from uedp_bench.leaderboard import sources
from uedp_bench.leaderboard.loading import Loader, load_results
from uedp_bench.leaderboard.sources import Experiment, Folder
from uedp_bench.one_run.private_data import keep_result
from uedp_bench.tracking.runs import log_result


def make_result(identifier="aa01", *, day=1, perplexity=50.0, group="g", **more):
    values = {
        "status": "finished",
        "utility": {"perplexity": Estimate(value=perplexity)},
        "provenance": {"created": f"2024-05-{day:02d}T00:00:00+00:00"},
    }
    return Result(id=identifier, group=group, spec=plain_spec("uedp"), **{**values, **more})


def put(result, folder):
    """Writes a result to the folder of its id, below another."""
    keep_result(result, folder)
    return folder / result.id / "result.json"


# ----------------------------------------------------------------------------------------- folders


def test_results_are_found_at_any_depth_once_and_not_among_mlflow_copies(tmp_path):
    for place in ("a", "b/c"):
        put(make_result(), tmp_path / place)
    logged = tmp_path / "mlartifacts" / "1" / "x" / "artifacts" / "result.json"
    logged.parent.mkdir(parents=True)
    write_result(make_result(), logged)
    (tmp_path / "mlartifacts" / "result.json").write_text("not a result")
    assert [result.id for result in load_results([tmp_path])] == ["aa01"]
    loaded = Loader([Folder(tmp_path)]).load()
    assert loaded.notes == ()
    # Even where MLflow's own folder is what is asked for, its copies are the results.
    assert len(load_results([tmp_path / "mlartifacts" / "1"])) == 1


def test_broken_files_are_all_named(tmp_path):
    texts = {"one": b"{", "two": b"\xff\xfe", "three": b"[" * 100_000, "four": b"{}"}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_bytes(text)
    path = put(make_result(), tmp_path / "five")
    path.write_text(path.read_text().replace('"g"', '"\\uD83D"'))
    put(make_result(), tmp_path / "whole")
    with pytest.raises(InputError) as caught:
        load_results([tmp_path])
    assert all(
        f"{name}/result.json is not a" in str(caught.value) for name in [*texts, "five/aa01"]
    )
    assert "whole" not in str(caught.value)
    assert [result.id for result in Loader([Folder(tmp_path)]).load().results] == ["aa01"]


def test_which_of_several_results_counts_does_not_depend_on_where_they_are(tmp_path):
    copies = [
        make_result(day=1, perplexity=2.0 + 1e-9),
        make_result(day=2, perplexity=2.0),
        make_result(day=2, perplexity=2.0 - 1e-9),
        make_result(day=3, perplexity=3.0, status="failed"),
    ]
    for names in itertools.permutations("abcd"):
        root = tmp_path / "".join(names)
        for name, copy in zip(names, copies, strict=True):
            put(copy, root / name)
        loaded = Loader([Folder(root)]).load()
        assert [result.utility["perplexity"].value for result in loaded.results] == [2.0]
        assert loaded.places["aa01"] == str(root / names[1] / "aa01" / "result.json")
        assert loaded.notes == ("of 1 runs there are several results; the newest count: aa01",)
        assert loaded.problems == loaded.clashes == ()


def test_one_id_for_two_different_runs_is_refused(tmp_path):
    put(make_result(), tmp_path / "a")
    put(make_result(group="h"), tmp_path / "b")
    with pytest.raises(InputError, match=r"/[ab]/aa01/result.json.*/[ab]/aa01/result.json: .*aa01"):
        load_results([tmp_path])


def test_devices_of_one_id_may_differ_in_rounding(tmp_path):
    put(make_result(perplexity=60.3), tmp_path / "a")
    put(make_result(day=2, perplexity=60.2, cost=Cost(device="cuda")), tmp_path / "b")
    assert load_results([tmp_path])[0].utility["perplexity"].value == 60.2


def test_only_what_has_changed_is_read_again(tmp_path, monkeypatch):
    for name in "abc":
        put(make_result(name), tmp_path)
    read = []
    original = sources.stored_result
    monkeypatch.setattr(sources, "stored_result", lambda path: read.append(path) or original(path))
    loader = Loader([Folder(tmp_path)])
    first = loader.load()
    assert len(read) == 3
    again = loader.load()
    assert len(read) == 3
    assert all(one is other for one, other in zip(first.results, again.results, strict=True))
    changed = put(make_result("b", perplexity=7.0), tmp_path)
    put(make_result("d"), tmp_path)
    shutil.rmtree(tmp_path / "c")
    assert [result.id for result in loader.load().results] == ["a", "b", "d"]
    assert read[3:] == [changed, tmp_path / "d" / "result.json"]


def test_a_half_written_file_is_read_again_once_it_is_whole(tmp_path):
    path = put(make_result(), tmp_path / "a")
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    loader = Loader([Folder(tmp_path)])
    assert loader.load().results == []
    assert len(loader.load().problems) == 1
    path.write_text(text)
    assert loader.load().problems == ()
    assert [result.id for result in loader.load().results] == ["aa01"]


def test_progress_counts_all_files(tmp_path):
    for name in "abc":
        put(make_result(name), tmp_path)
    counts = []
    Loader([Folder(tmp_path)]).load(lambda *done: counts.append(done))
    assert counts == [(1, 3), (2, 3), (3, 3)]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    put(make_result("a"), tmp_path)
    closed, listed = put(make_result("b"), tmp_path).parent, os.scandir

    def refusing(path):
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(InputError, match=re.escape(str(closed))):
        load_results([tmp_path])


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="none: no such folder"):
        load_results([tmp_path / "none"])
    assert Loader([Folder(tmp_path / "none", may_come=True)]).load().results == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: neither a folder"):
        Loader([Folder(tmp_path / "file", may_come=True)]).load()


# ------------------------------------------------------------------------------------------ MLflow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with two results, a run of somebody else, and an empty experiment."""
    from mlflow.tracking import MlflowClient

    out = tmp_path_factory.mktemp("a store")
    uri = f"sqlite:///{out}/mlflow.db"
    for result in (make_result("aa01"), make_result("aa02", perplexity=8.0)):
        log_result(result, out / result.id, uri=uri, experiment="mine")
    client = MlflowClient(uri)
    number = client.get_experiment_by_name("mine").experiment_id
    stranger = client.create_run(number)
    client.log_metric(stranger.info.run_id, "utility/perplexity", 1.0)
    client.create_experiment("empty")
    return uri


@pytest.mark.long
def test_results_of_an_experiment_are_its_artifacts(store, tmp_path):
    loaded = Loader([Experiment("mine", store)]).load().checked()
    assert {r.id: r.utility["perplexity"].value for r in loaded.results} == {
        "aa01": 50.0, "aa02": 8.0,
    }  # fmt: skip
    assert loaded.notes == ("experiment mine: 1 without result.json, left out",)
    assert all(place.startswith("MLflow run ") for place in loaded.places.values())
    # A folder and MLflow: each id once, and the copy in MLflow is no other content.
    put(make_result("aa01"), tmp_path / "a")
    both = Loader([Folder(tmp_path), Experiment("mine", store)]).load()
    assert [result.id for result in both.results] == ["aa01", "aa02"]
    assert both.notes == loaded.notes
    assert Loader([Experiment("empty", store)]).load().results == []


def test_runs_that_arrive_are_read_and_others_not_again(store, monkeypatch):
    loader = Loader([Experiment("mine", store, seconds=0.0)])
    before = loader.load().results
    runs_read = []
    original = sources.logged_results
    monkeypatch.setattr(
        sources, "logged_results", lambda uri, runs: runs_read.extend(runs) or original(uri, runs)
    )
    folder = Path(store.removeprefix("sqlite:///")).parent
    run = log_result(make_result("aa03"), folder / "aa03", uri=store, experiment="mine")
    after = loader.load().results
    assert [result.id for result in after] == ["aa01", "aa02", "aa03"]
    assert runs_read == [run["mlflow_run_id"]]
    assert all(any(one is other for other in after) for one in before)
    # A listing is good for some seconds: servers are not asked all the time.
    patient = Loader([Experiment("mine", store, seconds=60.0)])
    assert len(patient.load().results) == 3
    monkeypatch.setattr(sources, "logged_runs", lambda *arguments: pytest.fail("asked"))
    assert len(patient.load().results) == 3


def test_an_artifact_that_is_no_result_is_named_by_its_run(store):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(store)
    run = client.create_run(client.create_experiment("broken")).info.run_id
    client.log_text(run, json.dumps({"id": "x"}), "result.json")
    (problem,) = Loader([Experiment("broken", store)]).load().problems
    assert problem.startswith(f"result.json of MLflow run {run}")


def test_an_unknown_experiment_says_which_there_are(store):
    with pytest.raises(InputError, match=r"'other' .*: Default, .*mine"):
        Loader([Experiment("other", store)]).load()


def test_reading_makes_no_store_and_changes_no_other_file(tmp_path):
    missing = tmp_path / "mlflow.db"
    with pytest.raises(InputError, match=r"mlflow\.db: no such file"):
        Loader([Experiment("mine", f"sqlite:///{missing}")]).load()
    assert not missing.exists()
    missing.write_text("something else entirely, and long enough to be no empty database")
    with pytest.raises(InputError, match=r"mlflow\.db: .*database"):
        Loader([Experiment("mine", f"sqlite:///{missing}")]).load()
    with pytest.raises(InputError, match="mlruns"):
        Loader([Experiment("mine", str(tmp_path / "mlruns"))]).load()
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def test_an_unreachable_server_is_one_line_without_credentials():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TrackingError) as caught:
        Loader([Experiment("mine", f"http://me:secret@127.0.0.1:{port}")]).load()
    message = str(caught.value)
    assert f"http://***@127.0.0.1:{port}" in message
    assert "secret" not in message
    assert "\n" not in message
