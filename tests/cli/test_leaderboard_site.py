"""`uedp-bench leaderboard build` and `serve`: what they take, say and refuse."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from board_results import plain_spec

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Estimate, Result, write_result
from uedp_bench.tracking.runs import log_result


def run_result(identifier, source="embedded", **more):
    spec = plain_spec(source=source)
    values = {"utility": {"perplexity": Estimate(value=12.5)}, "group": f"group-of-{identifier}"}
    return Result(id=identifier, status="finished", spec=spec, **{**values, **more})


def put(result, folder):
    folder.mkdir(parents=True)
    write_result(result, folder / "result.json")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A working directory with two runs of different sources in ./runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for source in ("embedded", "conll2003"):
        put(run_result(source, source), tmp_path / "runs" / source)
    return tmp_path / "runs"


# ------------------------------------------------------------------------------------------- build


def test_build_says_where_to_look_and_what_was_written(runs, capsys):
    assert run_cli(["leaderboard", "build", "--out", "site"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("2 rows of 2 runs: ")
    assert printed.out.endswith("\nopen site/index.html\n")
    assert printed.err == ""
    assert Path("site/index.html").is_file()
    assert run_cli(["leaderboard", "build", "--out", "site", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["runs"], summary["written"], summary["removed"]) == (
        2,
        2,
        [],
        [],
    )
    assert "runs/embedded.html" in summary["files"]
    assert summary["index"] == "site/index.html"


@pytest.mark.parametrize("command", [["leaderboard"], ["leaderboard", "build", "--out", "site"]])
def test_one_id_for_two_utilities_is_refused(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for folder, score in (("a", 60.3), ("b", 54.2)):
        utility = {"perplexity": Estimate(value=score)}
        put(run_result("one", utility=utility), tmp_path / "results" / folder / "one")
    assert run_cli([*command, "--results", "results"]) == 2
    assert not (tmp_path / "site").exists()


def test_build_filters_and_names_what_is_not_there(runs, capsys):
    assert run_cli(["leaderboard", "build", "--out", "site", "--source", "conll2003"]) == 0
    assert [path.name for path in Path("site/runs").iterdir()] == ["conll2003.html"]
    capsys.readouterr()
    assert run_cli(["leaderboard", "build", "--out", "site", "--source", "conl2003"]) == 2
    assert "'conll2003'" in capsys.readouterr().err
    assert run_cli(["leaderboard", "build", "--out", "site", "--task", "none"]) == 2


@pytest.mark.parametrize("command", [["build", "--out", "site"], ["--csv"]])
def test_what_is_no_result_is_named_in_a_line_and_left_out(runs, capsys, command):
    (runs / "broken").mkdir()
    (runs / "broken" / "result.json").write_text("{")
    put(run_result("../../x"), runs / "climbing")
    (runs / "pipe").mkdir()
    os.mkfifo(runs / "pipe" / "result.json")
    (runs / "endless").mkdir()
    (runs / "endless" / "result.json").symlink_to("/dev/zero")
    assert run_cli(["leaderboard", *command]) == 0
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert [line.partition("result.json")[0] for line in lines] == [
        f"left out: runs/{name}/" for name in ("broken", "climbing", "endless", "pipe")
    ]
    assert "JSON" in lines[0]
    assert "'../../x'" in lines[1]
    assert all("socket" in line for line in lines[2:])
    assert "embedded" in printed.out or Path("site/runs/embedded.html").is_file()
    assert not Path("../x.html").exists()


@pytest.mark.parametrize("place", ["", "runs"])
def test_build_without_results_or_into_a_folder_of_others(runs, capsys, place):
    (runs.parent / "empty").mkdir()
    assert run_cli(["leaderboard", "build", "--results", "empty", "--out", "site"]) == 2
    assert "empty" in capsys.readouterr().err
    assert run_cli(["leaderboard", "build", "--out", place or "."]) == 2
    assert "--force" in capsys.readouterr().err
    assert (runs / "embedded" / "result.json").is_file()
    assert not (runs / "index.html").exists()


def test_options_belong_behind_the_name_of_a_command(runs, capsys):
    assert run_cli(["leaderboard", "--results", "runs", "build", "--out", "site"]) == 2
    err = capsys.readouterr().err
    assert "--results" in err
    assert "build" in err
    assert run_cli(["leaderboard", "build"]) == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.long
def test_folders_and_mlflow_together(runs, capsys, tmp_path):
    uri = f"sqlite:///{runs}/mlflow.db"
    for one in ("aa01", "embedded"):
        log_result(run_result(one), runs / one, uri=uri, experiment="uedp-bench")
    command = ["leaderboard", "build", "--experiment", "uedp-bench", "--json", "--out"]
    # The store beside ./runs is what `uedp-bench run` makes.
    assert run_cli([*command, "site"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2
    assert run_cli([*command, "both", "--results", "runs", "--tracking-uri", uri]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 3
    assert run_cli(["leaderboard", "--experiment", "uedp-bench", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert str(tmp_path) not in "".join(
        path.read_text() for path in (tmp_path / "both").rglob("*") if path.is_file()
    )
    assert run_cli([*command, "site", "--experiment", "other"]) == 2
    assert "Default, uedp-bench" in capsys.readouterr().err
    assert run_cli(["leaderboard", "build", "--tracking-uri", uri, "--out", "site"]) == 2
    assert "--experiment" in capsys.readouterr().err
    assert run_cli([*command, "site", "--tracking-uri", "sqlite:///none.db"]) == 2
    assert "none.db" in capsys.readouterr().err
    assert not Path("none.db").exists()


# ------------------------------------------------------------------------------------------- serve


@pytest.fixture
def serve(tmp_path):
    """Starts the command in a folder of its own; gives the process and its address."""
    started = []
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(*options):
        command = [sys.executable, "-m", "uedp_bench", "leaderboard", "serve", *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(temporary)},
            # A shell lets its background jobs ignore Ctrl-C, and their children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        started.append(process)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if match := re.search(r"serving (http://127\.0\.0\.1:\d+/)", line):
                return process, match.group(1), lines
        raise AssertionError("".join(lines))

    yield start
    for process in started:
        process.kill()
        process.communicate()


def page(url):
    with urllib.request.urlopen(url) as answer:  # noqa: S310 (a server of ours)
        return answer.read().decode()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_serve_starts_without_results_follows_them_and_cleans_up(serve, tmp_path, end):
    process, url, lines = serve("--results", "runs/mine", "--port", "0")
    assert lines[0] == "no results yet in runs/mine: waiting for them\n"
    assert "Waiting for results" in page(url)
    put(run_result("aa01"), tmp_path / "runs" / "mine" / "aa01")
    assert process.stdout.readline().endswith("  1 rows of 1 runs\n")
    assert "noiseless" in page(f"{url}runs/aa01.html")
    assert list((tmp_path / "temporary").iterdir())
    process.send_signal(end)
    assert process.communicate(timeout=120)[0] == "stopped\n"
    assert process.returncode == 0
    assert not list((tmp_path / "temporary").iterdir())


def test_serve_refuses_a_port_in_one_line(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["leaderboard", "serve", "--results", str(tmp_path), "--port"]
        assert run_cli([*arguments, str(port)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    free = re.fullmatch(rf"error: --port {port}: is in use; --port (\d+) is free", line)
    assert int(free.group(1)) > port
    assert run_cli([*arguments, "70000"]) == 2
