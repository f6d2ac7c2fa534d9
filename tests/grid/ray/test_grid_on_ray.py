"""Grids on several nodes of Ray: the same numbers, and whatever dies loses what it must."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ray_grids import commands, nothing_left, numbers, on_cluster
from tiny import NOISELESS, SPIES, USER_DP, plugged, runs

from uedp_bench.cli.main import run_cli
from uedp_bench.errors import InputError
from uedp_bench.grid import ray_nodes
from uedp_bench.grid.grid_on_ray import LOST, OnRay
from uedp_bench.grid.scheduler import jobs_of, run_jobs
from uedp_bench.grid.workers import DIED, TIMEOUT
from uedp_bench.one_run.preparing import Execution

pytest.importorskip("ray", reason="needs Ray: install the extra cluster")
LOST_ONCE = Path(__file__).parent / "lost_once.py"
PLUG_IN = """
from uedp_bench.api import Params, PublishingMechanism, mechanisms
from uedp_bench.api.events import NonPrivate, PrivacyEvent

EVENTS = (PrivacyEvent(unit="record", event=NonPrivate(reason="the first half stays")),)


@mechanisms.register
class CutInHalf(PublishingMechanism[Params]):
    name = "cut-in-half"
    rowwise = True

    def plan(self, stats):
        return EVENTS

    def publish(self, corpus, run):
        public = corpus.where("public")
        halves = [text if known else text[: len(text) // 2]
                  for text, known in zip(corpus.texts, public, strict=True)]
        return corpus.with_texts(halves), EVENTS
"""


@pytest.fixture(scope="module", autouse=True)
def plug_ins():
    with plugged(SPIES, LOST_ONCE):
        yield


def files(out):
    """Names and rights of all that runs left, apart from locks."""
    return {
        path.relative_to(out).as_posix(): oct(path.stat().st_mode)
        for path in out.rglob("*")
        if path.suffix != ".lock" and path.name != ".lock" and path.name != "cache"
    }


def run_all(cluster, specs, out, timeout=None, heard=lambda message: None, **options):
    running = run_jobs(
        jobs_of(specs, out),
        Execution(out, "cpu", **options),
        workers=1,
        plugins=(SPIES, LOST_ONCE),
        timeout=timeout,
        listen=heard,
        executor=OnRay(cluster.address),
    )
    return {job.label: result for job, result in running}


def test_numbers_and_files_are_those_of_one_machine(cluster, tmp_path, monkeypatch, capsys):
    """The source names a file by a path that leads elsewhere in every other process."""
    monkeypatch.chdir(tmp_path)
    words = [a + b for a in ("rain", "snow", "wind") for b in "abcdefghijklmnopqrst"]
    rows = [f"person{at % 60},Number {at} tells {words[at % 53]} of {words[at % 59]}."
            for at in range(300)]  # fmt: skip
    Path("mail.csv").write_text("\n".join(["author,body", *rows]) + "\n")
    Path("public.txt").write_text("rain snow wind\nnumber tells of\n")
    Path("cut.py").write_text(PLUG_IN)
    line = [
        "run", "--source", "text", "--path", "/proc/self/cwd/mail.csv", "--set",
        "source.text_column=body", "--set", "source.user_column=author", "--set",
        "source.public=[/proc/self/cwd/public.txt]", "--model", "lstm-small", "--set",
        "model.units=8", "--set", "model.embedding=8", "--set", "model.vocabulary_size=200",
        "--mechanism", "user-dp", "--mechanism", "cut-in-half", "--plugin", "cut.py",
        "--set", "mechanism.user-dp.rounds=2", "--set", "mechanism.user-dp.users=40", "--set",
        "mechanism.user-dp.users_per_round=10", "--seeds", "1,2", "--threads", "1",
        "--quiet",
    ]  # fmt: skip
    assert run_cli([*line, "--out", "one", "--workers", "1", "--no-tracking"]) == 0
    capsys.readouterr()
    options = ["--on", cluster.address, "--no-tracking", "--json"]
    # Nodes do not see this folder of results.
    several = "/proc/self/cwd/several"
    assert run_cli([*line, "--out", several, *options, "--releases"]) == 0
    assert numbers(Path("several")) == numbers(Path("one"))
    assert len(numbers(Path("one"))) == 4
    assert files(Path("several")) == files(Path("one"))
    table = capsys.readouterr().out
    assert json.loads(table)  # nothing of Ray stands between
    text = "".join(path.read_text() for path in Path("several").rglob("*.json"))
    assert "uedp-bench-grid" not in text
    assert nothing_left()
    # Without being asked for, releases stay where they were made.
    assert run_cli([*line, "--seeds", "3", "--out", "alone", *options]) == 0
    assert {path.name for path in Path("alone").glob("*/*")} == {"result.json"}
    assert all(result["stored"] == {} for result in numbers(Path("alone")).values())


def test_a_process_that_dies_is_a_failure_and_others_go_on(cluster, tmp_path):
    line = on_cluster(cluster.address, tmp_path, "--plugin", str(SPIES), "--mechanism",
                      "spy-training", "--seeds", "1,2", "--quiet", "--set",
                      "mechanism.seed=2", "--set", "mechanism.does=exit")  # fmt: skip
    assert run_cli(line) == 1
    by_seed = {each["spec"]["seed"]: each for each in numbers(tmp_path).values()}
    assert by_seed[1]["status"] == "finished"
    assert by_seed[2]["error"]["type"] == DIED
    assert "exit code 9" in by_seed[2]["error"]["message"]
    assert by_seed[2]["error"]["failures"] == 1


def test_a_run_that_hangs_is_ended_and_others_go_on(cluster, tmp_path):
    """The others have ten times as long as one of them takes here and now."""
    began = time.monotonic()
    for _ in run_jobs(jobs_of(runs(USER_DP), tmp_path), Execution(tmp_path / "here"), workers=0):
        took = time.monotonic() - began
    heard = []
    specs = runs({"name": "spy-training", "params": {"does": "hang"}}, USER_DP)
    results = run_all(cluster, specs, tmp_path, timeout=5 + 10 * took, heard=heard.append)
    assert results["spy-training, seed 1"].error.type == TIMEOUT
    assert results["user-dp, seed 1"].status == "finished"
    phases = {message.phase for message in heard}
    assert phases >= {"load", "plant", "train", "score"}
    assert any(message.points for message in heard)


@pytest.mark.parametrize("way", ["remove", "kill"])
def test_a_node_that_dies_loses_its_runs_which_go_on_elsewhere(cluster, tmp_path, way, capsys):
    """It is taken away, or killed with the task on it; the other node is left."""
    workers = [node for node in cluster.list_all_nodes() if not node.head]
    for _ in range(2 - len(workers)):
        cluster.add_node(num_cpus=1, object_store_memory=10**8)
    marks, out, heard = tmp_path / "marks", tmp_path / "out", []
    marks.mkdir()
    specs = runs({"name": "lost-once", "params": {"folder": str(marks)}}, NOISELESS)
    doomed = {node.unique_id: node for node in cluster.list_all_nodes() if not node.head}

    def end_its_node():
        deadline = time.monotonic() + 300
        while not (marks_left := list(marks.glob("*"))) or not marks_left[0].read_text():
            assert time.monotonic() < deadline, "no task begins"
            time.sleep(0.1)
        for node in doomed.values():
            raylet = node.all_processes["raylet"][0].process.pid
            if raylet in ancestors(int(marks_left[0].read_text())):
                if way == "remove":
                    cluster.remove_node(node, allow_graceful=False)
                else:
                    os.kill(raylet, signal.SIGKILL)
                    end_task(int(marks_left[0].read_text()))

    killer = threading.Thread(target=end_its_node, daemon=True)
    killer.start()
    from uedp_bench.contracts.checkpoints import Pace

    results = run_all(cluster, specs, out, heard=heard.append, state=out, pace=Pace(steps=1))
    killer.join(60)
    lost = results["lost-once, seed 1"]
    assert [result.error for result in results.values() if result.error] == []
    assert LOST in {message.phase for message in heard}
    assert lost.diagnostics["sums"] == 6.0
    assert lost.cost.model_extra["resumed"] == 1  # nodes of one machine share its disk
    assert not (out / lost.id / "checkpoint").exists()
    assert capsys.readouterr().out == ""  # tables and JSON go there
    assert nothing_left()


def ancestors(process):
    """Ids of the processes above one."""
    processes = []
    while process > 1:
        processes.append(process)
        text = Path(f"/proc/{process}/stat").read_text()
        process = int(text.rpartition(")")[2].split()[1])
    return processes


def end_task(process):
    """Ends the task of a run as the loss of its machine would."""
    for each in ancestors(process):
        name = Path(f"/proc/{each}/cmdline").read_text()
        if name.startswith("ray::"):
            os.kill(each, signal.SIGKILL)
            return


def test_another_version_on_a_node_is_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_nodes, "package", lambda: ("0.0.1", "other"))
    with pytest.raises(InputError, match=r"node .* has uedp-bench .*, and this machine 0\.0\.1"):
        run_all(cluster, runs(USER_DP), tmp_path)
    assert not list(tmp_path.glob("*/result.json"))


def test_data_that_changed_since_they_were_checked_are_refused(cluster, tmp_path):
    (job,) = jobs_of(runs(USER_DP), tmp_path)
    moved = replace(job, identity=job.identity.on("other"))
    ((_, result),) = run_jobs(
        [moved], Execution(tmp_path, "cpu"), workers=1, executor=OnRay(cluster.address)
    )
    assert "embedded" in result.error.message


def test_ctrl_c_ends_the_cluster_of_the_command_which_then_resumes(tmp_path):
    line = on_cluster("ray", tmp_path, "--plugin", str(SPIES), "--mechanism", "spy-training",
                      "--seeds", "1,2", "--set", "mechanism.seed=2", "--set",
                      "mechanism.does=wait")  # fmt: skip
    # A shell has what it starts in the background ignore Ctrl-C, and so would the command.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "uedp_bench", *line]
    environment = {**os.environ, "SPY_SECONDS": "300", "HOME": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment,
                          start_new_session=True) as running:  # fmt: skip
        lines = []
        for row in running.stderr:
            lines.append(row)
            text = "".join(lines)
            if "finished: spy-training, seed 1" in text and "spy-training, seed 2: train" in text:
                running.send_signal(signal.SIGINT)
                break
        rest = running.stderr.read()
    assert running.returncode == 130, rest
    assert "same command" in rest
    assert len(numbers(tmp_path)) == 1
    assert nothing_left()
    assert not [name for name in commands() if str(tmp_path) in name or "SpyTraining" in name]
    assert not (tmp_path / ".ray").exists()  # a token there would change every `ray start`
    done = subprocess.run(command, env={**environment, "SPY_SECONDS": "0"}, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 of 2 runs to do" in done.stderr
    assert len(numbers(tmp_path)) == 2


def test_too_large_a_run_for_a_cluster_of_this_machine_is_refused(tmp_path):
    line = on_cluster("ray", tmp_path, "--mechanism", "noiseless", "--cpus-per-run", "500")
    command = [sys.executable, "-m", "uedp_bench", *line]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "500 CPUs" in ended.stderr
