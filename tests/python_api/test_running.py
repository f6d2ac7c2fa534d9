"""Runs from Python: the same results as the command line, and releases that are asked again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uedp_bench as ub
from tests.support.tiny import USER_DP, tiny
from uedp_bench.components import registry
from uedp_bench.contracts.capabilities import Scorer
from uedp_bench.errors import CapabilityError, InputError, PluginError
from uedp_bench.python_api.results import Results

ATTACK = {"name": "membership", "params": {"held_out_users": 10, "shadow_models": 2}}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Results:
    out = tmp_path_factory.mktemp("runs")
    spec = tiny(USER_DP, attacks=[ATTACK])
    return ub.run(spec, out=out, workers=0)


def test_finished_runs_are_skipped_and_ids_are_those_of_the_command(done: Results) -> None:
    assert done.out is not None
    before = (done.folder(done[0]) / "result.json").stat().st_mtime_ns
    again = ub.run(tiny(USER_DP), attacks=[ATTACK], out=done.out, workers=0)
    assert [r.id for r in again] == [r.id for r in done]
    assert (done.folder(done[0]) / "result.json").stat().st_mtime_ns == before
    assert done.failed == ()


def test_a_saved_run_is_attacked_again_with_the_same_numbers(done: Results) -> None:
    saved = ub.load_run(done.folder(done[0]))
    assert isinstance(saved.release, Scorer)
    planted = saved.planted["membership"]
    again = ub.attack(saved.release, saved.corpus, "membership", planted=planted)
    # No reference model is trained after the run, so the loss is what both know.
    estimate = done[0].details["membership"]["scores"]["loss"]["auc"]
    assert again.details["scores"]["loss"]["auc"]["value"] == pytest.approx(estimate["value"])


def test_splits_say_who_trained_where_nothing_was_planted(done: Results) -> None:
    saved = ub.load_run(done.folder(done[0]))
    leakage = ub.attack(saved.release, saved.corpus, "membership")
    assert 0 <= leakage.metrics["auc"].value <= 1
    members_only = saved.corpus.take(np.flatnonzero(~saved.corpus.where("held_out")))
    with pytest.raises(InputError, match="held_out"):
        ub.attack(saved.release, members_only, "membership")


def test_attacks_that_plant_before_training_say_so(done: Results) -> None:
    saved = ub.load_run(done.folder(done[0]))
    with pytest.raises(InputError, match=r"secret-sharer.*`planted`"):
        ub.attack(saved.release, saved.corpus, "secret-sharer")
    with pytest.raises(CapabilityError, match="reidentify"):
        ub.attack(saved.release, saved.corpus, "reidentify")


def test_a_folder_without_a_release_is_named(done: Results, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"result\.json"):
        ub.load_release(tmp_path)
    text = (done.folder(done[0]) / "result.json").read_text(encoding="utf-8")
    (tmp_path / "result.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="--no-release"):
        ub.load_release(tmp_path)


def test_mistakes_are_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'mechansims'.*mechanisms"):
        ub.run(mechansims=["noiseless"], out=tmp_path)
    with pytest.raises(InputError, match="user-dp"):
        ub.run(mechanisms=["user-pd"], out=tmp_path)
    with pytest.raises(InputError, match="embedding"):
        ub.run(tiny(USER_DP), settings={"model.embeding": 4}, out=tmp_path, workers=0)
    assert not list(tmp_path.iterdir())


def test_settings_make_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def keep(data: dict[str, Any], options: Any, tracker: Any) -> list[Any]:
        seen.append(data)
        return []

    monkeypatch.setattr("uedp_bench.python_api.running.run_grid", keep)
    path = tmp_path / "mail.csv"
    ub.run(
        source={"name": "text", "params": {"path": path}}, mechanisms=["user-dp"], seeds=(1, 2),
        settings={"mechanism.noise_multiplier": [0.5, 1]}, out=tmp_path, workers=0,
    )  # fmt: skip
    assert seen[0]["seeds"] == [1, 2]
    assert seen[0]["source"]["params"]["path"] == str(path)
    assert seen[0]["mechanisms"][0][0]["params"]["noise_multiplier"] == [0.5, 1]


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    """Processes that a run spawns import nothing of the script that started it."""
    script = tmp_path / "study.py"
    script.write_text(
        "import multiprocessing as mp, pathlib, os, time\n"
        "from uedp_bench.python_api.running import _without_main\n"
        "if __name__ != '__main__':\n"
        "    pathlib.Path('imported').touch()\n"
        "with _without_main():\n"
        "    child = mp.get_context('spawn').Process(target=os.getpid)\n"
        "    child.start()\n"
        "    child.join()\n"
        "print('exit', child.exitcode, __file__.endswith('study.py'))\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, check=True,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "exit 0 True\n"
    assert not (tmp_path / "imported").exists()


def test_components_of_this_script_are_refused_in_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    kind = registry.mechanisms.get("noiseless")
    own = type("Own", (kind,), {"name": "own-noiseless", "__module__": "__main__"})
    before = dict(registry.mechanisms._plugins)
    try:
        registry.mechanisms.register(own)
        with pytest.raises(InputError, match="plugins=\\[file\\]"):
            ub.run(tiny("own-noiseless"), out=tmp_path)
    finally:
        registry.mechanisms._plugins = before


def test_components_of_a_notebook_without_a_file_cannot_be_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    own = type("Own", (), {"name": "own", "__module__": "__main__"})
    with pytest.raises(PluginError, match="%%writefile"):
        registry.mechanisms.register(own)
