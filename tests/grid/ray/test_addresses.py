"""Clusters that somebody else started: found, reached with and without a token, and left again."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from ray_grids import commands, nothing_left, numbers, on_cluster
from services import free_port
from tiny import SPIES, flags

from uedp_bench.cli.main import run_cli
from uedp_bench.errors import InputError
from uedp_bench.grid import ray_nodes
from uedp_bench.grid.grid_on_ray import OnRay
from uedp_bench.grid.ray_nodes import check_address

pytest.importorskip("ray", reason="needs Ray: install the extra cluster")
START = """import sys
from ray.scripts.scripts import main
sys.argv[0] = "ray"
main()"""
GRID = ("--mechanism", "user-dp", "--set", "mechanism.rounds=2", "--set",
        "mechanism.users_per_round=10", "--quiet")  # fmt: skip


@dataclass(frozen=True)
class Started:
    """A cluster that `ray start --head` made, of one node that does one run at a time.

    Attributes:
        by: ways to name it, as `--on` takes them.
        variables: of the environment, with which Ray finds it and its token.
    """

    by: dict[str, str]
    variables: dict[str, str]


@pytest.fixture(scope="session")
def head(temporary) -> Iterator[Started]:
    """It asks for a token, because there was one when it was started."""
    with tempfile.TemporaryDirectory() as folder:
        held, log = Path(folder) / "token", Path(folder) / "log"
        held.write_text(secrets.token_hex(32))
        variables = {"RAY_AUTH_TOKEN_PATH": str(held), "RAY_TMPDIR": folder}
        port, door = free_port(), free_port()
        command = [
            sys.executable, "-c", START, "start", "--head", "--block", f"--port={port}",
            f"--ray-client-server-port={door}", "--num-cpus=1", "--object-store-memory=100000000",
            "--include-dashboard=false", """--system-config={"worker_niceness": 0}""",
        ]  # fmt: skip
        with log.open("w") as out:
            process = subprocess.Popen(
                command, env={**os.environ, **variables}, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        try:
            deadline = time.monotonic() + 300
            while "will now block forever" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            by = {"host": f"127.0.0.1:{port}", "client": f"ray://127.0.0.1:{door}", "auto": "auto"}
            yield Started(by, variables)
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Numbers of the same grid on this machine without Ray."""
    out = tmp_path_factory.mktemp("alone")
    assert run_cli(flags(out, *GRID)) == 0
    return numbers(out)


@pytest.fixture
def environment(head):
    """Variables with which a command finds the cluster and its token, as Ray documents them."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_A")}
    return {**others, **head.variables, "RAY_AUTH_MODE": "token"}


@pytest.mark.parametrize("way", ["host", "client", "auto"])
def test_runs_are_done_by_a_cluster_that_asks_for_a_token(head, way, alone, tmp_path, environment):
    line = on_cluster(head.by[way], tmp_path, *GRID, "--releases")
    command = [sys.executable, "-m", "uedp_bench", *line]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert numbers(tmp_path) == alone
    assert nothing_left()


def test_a_cluster_without_a_token_is_found(cluster, alone, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    assert run_cli(on_cluster("auto", tmp_path, *GRID, "--releases")) == 0
    assert numbers(tmp_path) == alone


def test_a_token_that_is_missing_is_said(head, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with pytest.raises(InputError, match="AuthenticationError: RAY_AUTH_TOKEN_PATH is set but"):
        check_address(head.by["host"])


@pytest.mark.parametrize("way", ["host", "client"])
def test_a_wrong_token_or_port_is_given_up_soon(head, way, monkeypatch):
    """Ray itself tries for minutes."""
    monkeypatch.setattr(ray_nodes, "TRY_SECONDS", 3)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    on = head.by[way].removeprefix("ray://")
    with pytest.raises(InputError, match=f"--on {on}: no cluster .*RAY_AUTH_MODE=token"):
        check_address(on)


def test_a_closed_address_is_refused_at_once(tmp_path, capsys, monkeypatch):
    on = f"127.0.0.1:{free_port()}"
    assert run_cli(on_cluster(on, tmp_path, *GRID)) == 2
    refused = capsys.readouterr().err
    assert f"--on {on}:" in refused and "Connection refused" in refused
    assert "Traceback" not in refused
    assert not list(tmp_path.glob("*/result.json"))
    monkeypatch.setenv("RAY_ADDRESS", on)
    with pytest.raises(InputError, match=rf"--on auto \({on}\): no cluster of Ray"):
        check_address("auto")


@pytest.fixture(params=["another program", "nobody"])
def port(request):
    """A port that is open, and leads to no cluster."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        if request.param == "another program":
            threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        if request.param == "another program":
            server.shutdown()


def test_what_answers_and_is_no_cluster_is_given_up(port, monkeypatch):
    monkeypatch.setattr(ray_nodes, "TRY_SECONDS", 3)
    with pytest.raises(InputError, match=r"no cluster of Ray .*no answer within 3 s"):
        check_address(f"127.0.0.1:{port}")


def test_what_answers_and_is_no_ray_client_is_given_up(port, tmp_path):
    on = f"ray://127.0.0.1:{port}"
    command = [sys.executable, "-m", "uedp_bench", *on_cluster(on, tmp_path, *GRID)]
    sooner = {**os.environ, "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "1"}
    ended = subprocess.run(command, env=sooner, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"--on {on}:" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_address_of_the_environment_is_checked(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("RAY_ADDRESS", "http://there:8265")
    OnRay("auto").check("cpu")
    assert run_cli(on_cluster("auto", tmp_path, *GRID)) == 2
    assert "RAY_ADDRESS is 'http://there:8265'" in capsys.readouterr().err


def test_sigterm_leaves_the_cluster_and_ends_the_command_by_the_signal(head, tmp_path, environment):
    """The same command goes on afterwards, as after Ctrl-C; the cluster of others stays."""
    line = on_cluster(head.by["host"], tmp_path, "--plugin", str(SPIES), "--mechanism",
                      "spy-training", "--set", "mechanism.does=hang")  # fmt: skip
    with subprocess.Popen([sys.executable, "-m", "uedp_bench", *line], stderr=subprocess.PIPE,
                          text=True, env=environment) as running:  # fmt: skip
        output = ""
        for row in running.stderr:
            output += row
            if "spy-training, seed 1: train" in row:
                running.send_signal(signal.SIGTERM)
                break
        output += running.stderr.read()
    assert running.returncode == -signal.SIGTERM, output
    assert "sys.exit" not in output
    assert "Traceback" not in output
    assert "error" not in output
    assert not list(tmp_path.glob("*/result.json"))
    assert nothing_left()
    assert not [name for name in commands() if str(tmp_path) in name or "SpyTraining" in name]
