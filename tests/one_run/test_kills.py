"""Kills at random moments: nothing is lost, damaged, left over, drawn or logged twice."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tiny import flags

from uedp_bench.one_run.stored_run import stored_result

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")]

KILLS = int(os.environ.get("UEDP_BENCH_KILLS", "20"))
"""Of a training; the command, which costs more, is killed a quarter as often."""
SEED = int(os.environ.get("UEDP_BENCH_KILL_SEED", "1"))
SCRIPT = Path(__file__).parents[1] / "support" / "kills.py"
GRID = ["--mechanism", "user-dp", "--set", "mechanism.user-dp.rounds=2",
        "--set", "mechanism.user-dp.users_per_round=10",
        "--mechanism", "noiseless", "--set", "mechanism.noiseless.epochs=1",
        "--checkpoint-steps", "1"]  # fmt: skip
"""One run proves something, and computes for long; the other proves nothing."""


def numbers(result):
    return result.model_dump(exclude={"cost", "provenance", "tracking"})


def logged(out):
    """(id, status, content) of every run in the store of a folder."""
    query = (
        "select i.value, r.status, c.value from runs r "
        "join tags i on i.run_uuid = r.run_uuid and i.key = 'uedp_bench.id' "
        "left join tags c on c.run_uuid = r.run_uuid and c.key = 'uedp_bench.content'"
    )
    with closing(sqlite3.connect(out / "mlflow.db")) as store:
        return sorted(store.execute(query).fetchall())


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What was killed, and the folder in which it went on."""
    folder = tmp_path_factory.mktemp("killed")
    command = flags(folder, *GRID)
    at = command.index("--out")
    command = [part for part in command[:at] + command[at + 2 :] if part != "--no-tracking"]
    script = [sys.executable, str(SCRIPT), str(folder), str(KILLS), str(SEED), *command]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


def only_run(out):
    """The result of the only run in a folder, and the weights that it released."""
    (file,) = out.glob("*/result.json")
    release = file.parent / "release"
    weights = {path.name: path.read_bytes() for path in release.rglob("*") if path.is_file()}
    return stored_result(file), weights


def test_killed_at_random_moments_a_training_ends_with_the_same_model_and_result(killed):
    record, folder = killed[0]["trainings"], killed[1]
    assert record["code"] == 0, record
    assert record["kills"] == KILLS
    expected, weights = only_run(folder / "whole")
    assert expected.status == "finished"
    assert "resumed" not in expected.cost.model_extra
    assert expected.cost.model_extra["rows_pretrain"] > 0
    resumed = 0
    for out in sorted(folder.glob("training-*")):
        result, bits = only_run(out)
        assert numbers(result) == numbers(expected)
        assert bits == weights
        resumed += result.cost.model_extra.get("resumed", 0)
        assert {path.name for path in (out / result.id).iterdir()} == {
            "result.json", "planted.json", "release"}  # fmt: skip
        assert all(path.suffix in (".pt", ".lock") for path in (out / "cache").iterdir())
    assert KILLS / 2 < resumed <= KILLS


def test_killed_at_random_moments_a_grid_ends_as_if_nothing_had_happened(killed):
    record, folder = killed[0]["commands"], killed[1]
    assert record["code"] == 0, record
    assert len(record["kills"]) == -(-KILLS // 4)
    folders = [folder / "undisturbed", *sorted(folder.glob("killed-*"))]
    assert len(folders) == record["grids"] + 1
    expected = {path.parent.name: stored_result(path)
                for path in (folder / "undisturbed").glob("*/result.json")}  # fmt: skip
    assert len(expected) == 2
    assert {result.status for result in expected.values()} == {"finished"}
    for out in folders:
        results = {path.parent.name: stored_result(path) for path in out.glob("*/result.json")}
        assert {k: numbers(v) for k, v in results.items()} == {
            k: numbers(v) for k, v in expected.items()
        }
        names = {path.name for path in out.iterdir()}
        assert names == {*expected, ".lock", "mlflow.db", "mlartifacts"}
        for identifier in expected:
            kept = {path.name for path in (out / identifier).iterdir()}
            assert kept == {"result.json", "planted.json", "release"}
        runs = logged(out)
        assert [(identifier, status) for identifier, status, _ in runs] == [
            (identifier, "FINISHED") for identifier in sorted(expected)
        ]
        assert all(content for _, _, content in runs)
