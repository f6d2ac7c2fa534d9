"""Checkpoints of runs: where they lie, what they hold, who removes them."""

from __future__ import annotations

import json

import pytest
from tiny import NOISELESS, SPIES, USER_DP, plugged, runs

from uedp_bench.contracts.checkpoints import Pace
from uedp_bench.contracts.results import read_result
from uedp_bench.contracts.run_context import Speed
from uedp_bench.grid.scheduler import Job, result_after
from uedp_bench.grid.workers import DIED, Crash
from uedp_bench.io.folders import only_process, refuse_links
from uedp_bench.one_run import stored_run
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.identity import Identity

LONG = {**USER_DP, "params": {**USER_DP["params"], "rounds": 6}}
PRETRAINED = {"name": "next-word", "params": {"pretraining_epochs": 2}}
EACH = Pace(seconds=0, steps=1)


@pytest.fixture(scope="module", autouse=True)
def spies():
    with plugged(SPIES):
        yield


class Watch:
    """Remembers phases, and raises in one of them."""

    def __init__(self, phase="", done=0, error=KeyboardInterrupt):
        self.steps_seen, self._phase, self._done, self._error = [], phase, done, error

    def __call__(self, phase, done, total):
        self.steps_seen.append((phase, done))
        if phase == self._phase and done >= self._done:
            raise self._error()

    def steps(self, phase):
        return sum(label == phase and done > 0 for label, done in self.steps_seen)


def execution(out, watch=None, **more):
    return Execution(out, "cpu", progress=watch or Watch(), pace=EACH, **more)


def killed(spec, out, phase, done):
    with pytest.raises(KeyboardInterrupt):
        execute(spec, execution(out, Watch(phase, done)))


def numbers(result):
    return result.model_dump(exclude={"cost", "provenance"})


def weights(out):
    (folder,) = out.glob("*/release")
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def checkpoints(out):
    return {str(path.relative_to(out)) for path in out.rglob("checkpoint/*")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody disturbed: two stages, and a model that its attack asks for."""
    out = tmp_path_factory.mktemp("whole")
    attack = {"name": "hold-out", "params": {"finds": "reference"}}
    (spec,) = runs(LONG, task=PRETRAINED, attacks=[attack])
    watch = Watch()
    return spec, execute(spec, execution(out, watch)), out, watch


def test_every_stage_and_every_model_of_an_attack_goes_on(whole, tmp_path):
    spec, expected, undisturbed, watch = whole
    assert expected.status == "finished", expected.error
    assert "resumed" not in expected.cost.model_extra
    assert checkpoints(undisturbed) == set()
    for phase, done in [("pretrain", 3), ("train", 3), ("train", 5), ("reference train", 3)]:
        assert watch.steps(phase) > done
        killed(spec, tmp_path, phase, done)
    assert {path.split("/")[0] for path in checkpoints(tmp_path)} == {"cache", expected.id}
    last = Watch()
    result = execute(spec, execution(tmp_path, last))
    assert numbers(result) == numbers(expected)
    assert weights(tmp_path) == weights(undisturbed)
    assert result.cost.model_extra["resumed"] == 4
    assert last.steps("pretrain") == last.steps("train") == 0
    assert 0 < last.steps("reference train") < watch.steps("reference train")
    assert any(phase == "reference resumed train" for phase, _ in last.steps_seen)
    assert checkpoints(tmp_path) == set()


def test_a_public_stage_goes_on_in_whichever_run_comes_next(whole, tmp_path):
    spec, expected, _, watch = whole
    (other,) = runs(NOISELESS, task=PRETRAINED)
    killed(other, tmp_path, "pretrain", 3)
    last = Watch()
    result = execute(spec, execution(tmp_path, last))
    assert 0 < last.steps("pretrain") < watch.steps("pretrain")
    assert numbers(result) == numbers(expected)
    assert result.cost.model_extra["resumed"] == 1
    assert "pretraining_shared_seconds" not in result.cost.model_extra
    again = execute(other, execution(tmp_path, last))
    assert again.cost.model_extra["pretraining_shared_seconds"] > 0


def test_noise_of_the_system_goes_on_and_its_key_goes_with_the_run(tmp_path):
    (spec,) = runs(LONG, noise_source="os")
    killed(spec, tmp_path, "train", 3)
    (file,) = tmp_path.glob("*/checkpoint/run.json")
    key = json.loads(file.read_text())["root"]
    assert len(bytes.fromhex(key)) == 32
    killed(spec, tmp_path, "train", 4)
    assert json.loads(file.read_text())["root"] == key
    watch = Watch()
    result = execute(spec, execution(tmp_path, watch))
    assert result.status == "finished"
    assert watch.steps("train") == 3
    assert result.cost.model_extra["resumed"] == 2
    assert not file.exists()
    assert all(key.encode() not in path.read_bytes()
               for path in tmp_path.rglob("*") if path.is_file())  # fmt: skip


def test_another_number_of_ranks_or_units_at_once_starts_anew(monkeypatch):
    one = stored_run.made_by("x", "cpu", Speed())
    assert one != stored_run.made_by("x", "cpu", Speed(chunk=3))
    monkeypatch.setattr("uedp_bench.training.executors.world_size", lambda: 2)
    assert one != stored_run.made_by("x", "cpu", Speed())


def test_other_code_or_threads_start_anew_and_say_so(whole, tmp_path, monkeypatch):
    spec, expected, _, watch = whole
    killed(spec, tmp_path, "train", 3)
    monkeypatch.setattr(stored_run, "package_digest", lambda: "another")
    last = Watch()
    result = execute(spec, execution(tmp_path, last))
    assert ("starts anew, without the checkpoint: code changed since it was written", 0) in (
        last.steps_seen
    )
    assert last.steps("train") == watch.steps("train")
    assert "resumed" not in result.cost.model_extra
    assert numbers(result) == numbers(expected)


def test_a_failed_run_keeps_its_checkpoint_unless_nobody_will_go_on_from_it(tmp_path):
    (spec,) = runs(LONG)

    class BrokenError(RuntimeError):
        pass

    failed = execute(spec, execution(tmp_path, Watch("train", 4, BrokenError)))
    assert failed.error.type == "BrokenError"
    assert "owner" in failed.stored["checkpoint"]
    folder = tmp_path / failed.id / "checkpoint"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert read_result(tmp_path / failed.id / "result.json").stored == failed.stored
    without = execute(spec, execution(tmp_path, Watch("train", 5, BrokenError), keep_release=False))
    assert without.stored == {}
    assert not folder.exists()


def test_what_a_process_left_is_told_and_what_a_finished_run_left_is_removed(tmp_path):
    (spec,) = runs(LONG)
    killed(spec, tmp_path, "train", 3)
    (folder,) = tmp_path.glob("*/checkpoint")
    job = Job(Identity.from_spec(spec), spec)
    (tmp_path / job.id).mkdir(exist_ok=True)
    folder.rename(tmp_path / job.id / "checkpoint")
    crash = Crash(DIED, "was ended by signal 9", ("train", 3, 6, ()))
    assert "checkpoint" in result_after(job, execution(tmp_path), crash).stored
    with only_process(tmp_path):
        pass
    assert checkpoints(tmp_path)
    with only_process(tmp_path, keep_cache=False):
        pass
    assert checkpoints(tmp_path) == set()


def test_a_link_in_its_place_is_refused(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "checkpoint").symlink_to(tmp_path)
    with pytest.raises(Exception, match=r"--out.*checkpoint.*link"):
        refuse_links(tmp_path, "x")


def test_other_kernels_start_anew(monkeypatch):
    fast = stored_run.made_by("x", "cpu", Speed())
    monkeypatch.setenv("UEDP_BENCH_FAST", "0")
    assert {**fast, "kernels": "torch"} == stored_run.made_by("x", "cpu", Speed())
    assert fast["kernels"] == "fast"
