"""Results of anybody: what is no result, or lies where its id does not say, is told in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pytest
from tiny import plugged, runs

from uedp_bench.contracts.capabilities import _CAPABILITIES, capability
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.release import PublishedOnly, Release, Updates
from uedp_bench.contracts.results import Result, write_result
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError, PluginError
from uedp_bench.io.sealed_files import DamagedFileError, seal_folder
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.private_data import check_saved, load_release, save_release
from uedp_bench.one_run.runner import execute
from uedp_bench.one_run.stored_run import result_of_run, result_of_text, stored_result

PARTS = {"seed": 1, "delta": 1e-5}
ID, GROUP = identity_of(PARTS)


def make_result(**fields) -> Result:
    spec = {"task": {"name": "t"}, "source": {"name": "s"}, "model": {"name": "m"},
            "mechanism": [{"name": "a"}]}  # fmt: skip
    run_fields = {"id": ID, "group": GROUP, "status": "finished", "spec": spec,
                  "provenance": {"identity": PARTS}}  # fmt: skip
    return Result.model_validate({**run_fields, **fields})


def put(folder, **fields):
    folder.mkdir(parents=True)
    write_result(make_result(**fields), folder / "result.json")
    return folder / "result.json"


def test_a_result_in_the_folder_of_its_id_is_read(tmp_path):
    path = put(tmp_path / ID)
    assert stored_result(path) == result_of_run(path, ID) == make_result()
    # MLflow keeps its copies in folders of another name.
    assert stored_result(put(tmp_path / "artifacts")) == make_result()


@pytest.mark.parametrize(
    ("folder", "fields", "message"),
    [
        ("other", {}, f"id '{ID}' is not the name of its folder, 'other'"),
        ("a\x1b[31m", {}, r"is not the name of its folder, 'a\x1b[31m'"),
        (ID, {"id": "../../home/secret"}, "'../../home/secret'"),
        ("0" * 16, {"id": "0" * 16}, "provenance.identity"),
        (ID, {"group": "0" * 16}, "provenance.identity"),
        (ID, {"provenance": {"identity": [1]}}, "provenance.identity"),
        (ID, {"provenance": {"identity": PARTS | {"seed": 2}}}, "hashes"),
    ],
)
def test_what_lies_elsewhere_or_was_not_run_is_no_result(tmp_path, folder, fields, message):
    path = put(tmp_path / folder, **fields)
    with pytest.raises(InputError) as caught:
        stored_result(path)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert result_of_run(path, ID) is None
    if "folder" not in message:
        with pytest.raises(InputError, match="MLflow run 7"):
            result_of_text(path.read_text(), "MLflow run 7")


def test_only_what_records_that_it_is_the_run_counts_as_its_result(tmp_path):
    old = put(tmp_path / "old" / ID, provenance={})
    assert stored_result(old).id == ID  # from before the identity was kept: shown, and run again
    assert result_of_run(old, ID) is None
    error = {"type": "ValueError", "message": "m", "phase": "train"}
    failed = put(tmp_path / "failed" / ID, status="failed", error=error, provenance={})
    assert result_of_run(failed, ID).status == "failed"
    for at, halves in enumerate([{"status": "failed"}, {"error": error}]):
        assert result_of_run(put(tmp_path / str(at) / ID, **halves), ID) is None
    assert result_of_run(tmp_path / "none" / "result.json", ID) is None


def _changed(**fields):
    return json.dumps(make_result().model_dump(mode="json") | fields)


@pytest.mark.parametrize(
    "text",
    [
        _changed(cost={"train_seconds": "nan"}),
        _changed(cost={"train_seconds": float("nan")}),
        _changed(cost={"train_seconds": "inf"}),
        _changed(cost={"extra": float("inf")}),
        _changed(delta=1, spec=3),
        _changed(utility={"\x1b[2J": {"value": "x\n\x1b"}}),
        _changed(utility={"p": {"value": 1, "low": "nan"}}),
        _changed(lower_bounds=[{"unit": "user", "epsilon": 1, "delta": "nan", "confidence": 0.9,
                                "method": "m"}]),
        _changed(id="\ud83d"),
        '{"id": "a", "id": "b"}',
        "[" * 100_000,
        "1" * 5000,
        "",
        "null",
        '"\x00"',
    ],
)  # fmt: skip
def test_a_text_of_anybody_is_a_result_or_one_line(text):
    with pytest.raises(InputError) as caught:
        result_of_text(text, "a\x1b[31m.json")
    assert str(caught.value).startswith(r"a\x1b[31m.json")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


ENSEMBLE = """
import copy
from torch import nn
from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.mechanisms.noiseless import Noiseless


class Mean(nn.Module):
    \"\"\"The mean of the logits of several networks.\"\"\"

    def __init__(self, networks):
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, *args, **names):
        return sum(each(*args, **names) for each in self.networks) / len(self.networks)


@mechanisms.register
class Ensemble(Noiseless):
    \"\"\"Trains one network and releases two that agree.\"\"\"

    name = "ensemble"

    def train(self, learner, corpus, run):
        module, events = super().train(learner, corpus, run)
        return Mean([module, copy.deepcopy(module)]), events
"""


def test_an_ensemble_that_does_not_load_is_a_failed_run(tmp_path: Path) -> None:
    file = tmp_path / "ensemble.py"
    file.write_text(ENSEMBLE)
    with plugged(file):
        (spec,) = runs({"name": "ensemble", "params": {"epochs": 1}})
        result = execute(spec, Execution(tmp_path / "out", "cpu"))
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.phase == "save"
    assert "next-word" in result.error.message
    assert not result.utility


class Constant(Release):
    """Gives every class the same probability, moved by a number that it may forget to save."""

    def __init__(self, moved: float, shape: int = 2) -> None:
        self.moved, self.shape = moved, shape

    def class_logprobs(self, corpus: Corpus) -> np.ndarray:
        return np.full((len(corpus), self.shape), self.moved)


class Loads:
    """As a task that loads what it is told to."""

    name = "a-task"

    def __init__(self, again: Release) -> None:
        self.again = again

    def load(self, folder: Path) -> Release:
        return self.again


@pytest.mark.parametrize(
    ("again", "message"),
    [
        (Constant(1.0, shape=3), r"Classifier.*\(2, 3\).*\(2, 2\)"),
        (Constant(1.5), r"Classifier.* 0\.5"),
        (PublishedOnly(), "no Classifier"),
        (Constant(float("nan")), "Classifier.*differ"),
    ],
)
def test_other_answers_are_refused(again: Release, message: str) -> None:
    corpus = Corpus(("a", "b"), {"user": np.arange(2)}, np.array([2, 2]))
    with pytest.raises(PluginError, match=message):
        check_saved(Loads(again), Path(), Constant(1.0), corpus)
    check_saved(Loads(Constant(1.00001)), Path(), Constant(1.0), corpus)
    check_saved(Loads(again), Path(), PublishedOnly(), corpus)


class Broken(Constant):
    """Classifier with a mistake in its code."""

    def class_logprobs(self, corpus: Corpus) -> np.ndarray:
        return np.concatenate([np.empty(0), np.zeros((len(corpus), 2))])


def test_an_error_of_a_release_names_its_line() -> None:
    corpus = Corpus(("a", "b"), {"user": np.arange(2)}, np.array([2, 2]))
    with pytest.raises(PluginError, match=rf"ValueError.*\({Path(__file__).name}, line \d+\)"):
        check_saved(Loads(Broken(1.0)), Path(), Constant(1.0), corpus)


class Updated(Constant):
    """The same, with weights that moved."""

    def save(self, folder: Path) -> None:
        (folder / "release.json").write_text(json.dumps(self.moved))


class LoadsUpdated:
    """As a task that knows nothing of updates."""

    name = "a-task"

    def load(self, folder: Path) -> Release:
        return Updated(json.loads((folder / "release.json").read_text()))


def test_the_harness_keeps_how_the_weights_moved(tmp_path: Path) -> None:
    corpus = Corpus(("a", "b"), {"user": np.arange(2)}, np.array([2, 2]))
    release = Updated(1.0)
    save_release(release, tmp_path / "plain")
    assert not isinstance(load_release(LoadsUpdated(), tmp_path / "plain"), Updates)
    release.update = np.arange(3, dtype=np.float32)
    save_release(release, tmp_path / "moved")
    again = load_release(LoadsUpdated(), tmp_path / "moved")
    assert isinstance(again, Updates)
    assert again.update.tolist() == [0.0, 1.0, 2.0]
    check_saved(LoadsUpdated(), tmp_path / "moved", release, corpus)
    with pytest.raises(PluginError, match="no Updates"):
        check_saved(LoadsUpdated(), tmp_path / "plain", release, corpus)
    np.save(tmp_path / "moved" / "update.npy", np.zeros(3, dtype=np.float32))
    seal_folder(tmp_path / "moved")
    with pytest.raises(PluginError, match=r"Updates.* 2$"):
        check_saved(LoadsUpdated(), tmp_path / "moved", release, corpus)


def test_a_release_that_changed_on_the_disk_is_refused(tmp_path: Path) -> None:
    save_release(Updated(1.0), tmp_path)
    (tmp_path / "release.json").write_text("2.0")
    with pytest.raises(DamagedFileError, match=r"release\.json"):
        load_release(LoadsUpdated(), tmp_path)


def test_a_capability_of_a_stranger_is_asked_its_own_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("uedp_bench.contracts.capabilities._CAPABILITIES", dict(_CAPABILITIES))

    @capability(lambda release, rows: np.full(len(rows), release.loudness()))
    @runtime_checkable
    class Shouter(Protocol):
        def loudness(self) -> float: ...

    class Loud(Release):
        def __init__(self, volume: float) -> None:
            self.volume = volume

        def loudness(self) -> float:
            return self.volume

    corpus = Corpus(("a", "b"), {"user": np.arange(2)}, np.array([2, 2]))
    check_saved(Loads(Loud(1.0)), Path(), Loud(1.0), corpus)
    with pytest.raises(PluginError, match=r"Shouter.* 2$"):
        check_saved(Loads(Loud(3.0)), Path(), Loud(1.0), corpus)
    with pytest.raises(PluginError, match="no Shouter"):
        check_saved(Loads(Release()), Path(), Loud(1.0), corpus)


class Crowd(Release):
    """Losses that are relative to those of the rows beside them."""

    def scorable(self, corpus: Corpus) -> np.ndarray:
        return np.ones(len(corpus), dtype=bool)

    def row_losses(self, corpus: Corpus) -> np.ndarray:
        return np.full(len(corpus), 1.0 / len(corpus))


def test_a_loss_that_depends_on_other_rows_is_refused() -> None:
    corpus = Corpus(("a", "b"), {"user": np.arange(2)}, np.array([2, 2]))
    with pytest.raises(PluginError, match=r"row 0.*0\.5.* 1 "):
        check_saved(Loads(Crowd()), Path(), Crowd(), corpus)
