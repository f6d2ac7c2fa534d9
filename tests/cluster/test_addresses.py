"""Clusters that somebody else started: found, reached with and without a token, and left again."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from ray_grids import commands, nothing_left, numbers, on_cluster
from services import free_port
from tiny import SPIES, flags

from uedp_bench.cli.main import run_cli
from uedp_bench.cluster import address
from uedp_bench.cluster.address import Head, check_member, find, reach
from uedp_bench.cluster.connection import OnCluster
from uedp_bench.errors import InputError

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
def known(head, monkeypatch):
    """This process finds the cluster, and its token."""
    for name, value in head.variables.items():
        monkeypatch.setenv(name, value)
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return head


@pytest.mark.parametrize("way", ["host", "client", "auto"])
def test_runs_are_done_by_a_cluster_that_asks_for_a_token(known, way, alone, tmp_path):
    assert run_cli(on_cluster(known.by[way], tmp_path, *GRID, "--releases")) == 0
    assert numbers(tmp_path) == alone
    assert nothing_left()
    assert "RAY_AUTH_MODE" not in os.environ


def test_a_cluster_without_a_token_is_not_shown_one(cluster, head, alone, tmp_path, monkeypatch):
    """A token lies here, and the mode was set by whoever wrote the script."""
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", head.variables["RAY_AUTH_TOKEN_PATH"])
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert not reach("auto", find("auto")).asks_token
    assert run_cli(on_cluster("auto", tmp_path, *GRID, "--releases")) == 0
    assert numbers(tmp_path) == alone
    assert os.environ["RAY_AUTH_MODE"] == "token"


@pytest.mark.parametrize("way", ["host", "client"])
def test_a_token_that_is_missing_or_wrong_is_said(known, way, monkeypatch, tmp_path):
    on = known.by[way]
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"asks for a token, and this machine has none: copy"):
        reach(on, on)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another")
    with pytest.raises(InputError, match=r"refuses the token of this machine \(RAY_AUTH_TOKEN\)"):
        reach(on, on)


def test_the_two_ports_of_a_head_are_told_apart(known):
    cluster, client = known.by["host"], known.by["client"]
    inside = client.removeprefix("ray://")
    with pytest.raises(InputError, match=f"the Ray Client's: use --on {client}"):
        reach(inside, inside)
    outside = f"ray://{cluster}"
    with pytest.raises(InputError, match=f"the cluster's: use --on {cluster}"):
        reach(outside, outside)


def test_a_closed_address_is_given_up_soon(tmp_path, capsys, monkeypatch):
    """Ray itself tries it for over a minute and a half."""
    on = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    assert run_cli(on_cluster(on, tmp_path, *GRID)) == 2
    assert time.monotonic() - began < 4 * address.TRY_SECONDS
    said = capsys.readouterr().err
    assert f"--on {on}: no cluster of Ray answers within 10 s" in said
    assert "start one with `ray start --head --port" in said
    assert not list(tmp_path.glob("*/result.json"))
    monkeypatch.setenv("RAY_ADDRESS", on)
    with pytest.raises(InputError, match=rf"--on auto \({on}\): no cluster of Ray answers"):
        reach("auto", find("auto"), seconds=1)


def test_what_answers_and_is_no_cluster_is_told_apart():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        on = f"127.0.0.1:{server.server_port}"
        with pytest.raises(InputError, match="no cluster of Ray"):
            reach(on, on, seconds=2)
        server.shutdown()
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        on = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InputError, match="no cluster of Ray answers within 1 s"):
            reach(on, on, seconds=1)


@pytest.fixture
def answering():
    """Starts heads that answer the question of `reach`, as Ray's own processes listen."""
    import grpc
    from ray._common.tls_utils import add_port_to_grpc_server

    started = []

    def start():
        answer = grpc.unary_unary_rpc_method_handler(lambda *_: b"")
        service, _, name = address._HEAD[1:].partition("/")
        server = grpc.server(ThreadPoolExecutor(1))
        handlers = grpc.method_handlers_generic_handler(service, {name: answer})
        server.add_generic_rpc_handlers((handlers,))
        port = add_port_to_grpc_server(server, "localhost:0")
        server.start()
        started.append(server)
        return f"localhost:{port}"

    yield start
    for server in started:
        server.stop(None).wait()


def test_a_head_is_reached_past_a_proxy(answering, monkeypatch):
    """Ray's own connections do not ask it, unless RAY_grpc_enable_http_proxy says so."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    on = answering()
    assert reach(on, on) == Head(on, asks_token=False)


def test_a_head_with_tls_is_reached_with_its_certificates(answering, monkeypatch, tmp_path):
    from ray._common.tls_utils import generate_self_signed_tls_certs

    monkeypatch.setenv("RAY_USE_TLS", "1")
    with pytest.raises(InputError, match=r"RAY_USE_TLS is set: .*RAY_TLS_SERVER_CERT"):
        reach("localhost:1", "localhost:1", seconds=1)
    files = {"CERT": tmp_path / "cert", "KEY": tmp_path / "key"}
    for (name, file), text in zip(files.items(), generate_self_signed_tls_certs(), strict=True):
        file.write_text(text)
        monkeypatch.setenv(f"RAY_TLS_SERVER_{name}", str(file))
    monkeypatch.setenv("RAY_TLS_CA_CERT", str(files["CERT"]))
    on = answering()
    assert reach(on, on) == Head(on, asks_token=False)
    monkeypatch.setenv("RAY_USE_TLS", "0")
    with pytest.raises(InputError, match="no cluster of Ray answers"):
        reach(on, on, seconds=1)


def test_a_machine_outside_the_cluster_is_told_the_way_in(monkeypatch):
    from ray._private import services

    monkeypatch.setattr(services, "find_node_ids", set)
    way = r"join it with `ray start --address there:6379`, or .* --on ray://there:10001"
    with pytest.raises(InputError, match=f"is no node of the cluster: {way}"):
        check_member(Head("there:6379", asks_token=False), "there:6379", seconds=0.1)


def test_nothing_to_be_found_is_said(monkeypatch, tmp_path):
    from ray._private import services

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(services, "_cached_find_gcs_addresses", _none)
    with pytest.raises(InputError, match="RAY_ADDRESS is not set, and no cluster of Ray runs"):
        find("auto")


def _none():
    return set()


_none.cache_clear = lambda: None


def test_an_address_of_the_environment_is_checked(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("RAY_ADDRESS", "http://there:8265")
    OnCluster("auto").check("cpu")
    assert run_cli(on_cluster("auto", tmp_path, *GRID)) == 2
    assert "RAY_ADDRESS is 'http://there:8265': allowed is HOST:PORT" in capsys.readouterr().err


def test_sigterm_leaves_the_cluster_and_ends_the_command_by_the_signal(known, tmp_path):
    """The same command goes on afterwards, as after Ctrl-C; the cluster of others stays."""
    line = on_cluster(known.by["host"], tmp_path, "--plugin", str(SPIES), "--mechanism",
                      "spy-training", "--set", "mechanism.does=hang")  # fmt: skip
    with subprocess.Popen([sys.executable, "-m", "uedp_bench", *line], stderr=subprocess.PIPE,
                          text=True) as running:  # fmt: skip
        said = ""
        for row in running.stderr:
            said += row
            if "spy-training, seed 1: train" in row:
                running.send_signal(signal.SIGTERM)
                break
        said += running.stderr.read()
    assert running.returncode == -signal.SIGTERM, said
    assert "sys.exit" not in said
    assert "Traceback" not in said
    assert "error" not in said
    assert not list(tmp_path.glob("*/result.json"))
    assert nothing_left()
    assert not [name for name in commands() if str(tmp_path) in name or "SpyTraining" in name]
    assert reach(known.by["host"], known.by["host"]).asks_token
