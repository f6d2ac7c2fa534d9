"""Postgres and a server of MLflow that tests start, kill and start again, and one that misbehaves.

Postgres runs as an unprivileged user in a temporary folder, on a port of the loopback, and never
waits for the disk.
"""

from __future__ import annotations

import http.client
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import chat_server

PATIENCE = 120.0
STORED = "/api/2.0/mlflow/experiments/search?max_results=1"


def missing() -> str:
    """Why Postgres cannot be started here; empty if it can."""
    if _programs() is None:
        return "Postgres is missing (Debian: apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "Python's driver of Postgres is missing (pip install 'psycopg[binary]')"
    return ""


def _programs() -> Path | None:
    """The folder of Postgres' programs: Debian keeps them off the path."""
    folders = [Path(name).parent for name in [shutil.which("initdb")] if name]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    whole = [folder for folder in folders if (folder / "initdb").exists()]
    return whole[-1] if whole else None


def _unprivileged() -> dict[str, Any]:
    """For `subprocess`: Postgres refuses to run as root."""
    if os.getuid() != 0:
        return {}
    accounts = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in accounts else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


class _Service:
    """A program with all that it starts, in a group of its own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def _run(self, command: list[str], log: Path, **options: Any) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, **options,
            )  # fmt: skip

    def kill(self) -> None:
        """Ends all of it at once, as a loss of power does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class Postgres(_Service):
    """A server of Postgres with an empty database."""

    def __init__(self) -> None:
        super().__init__()
        programs = _programs()
        if programs is None:
            raise FileNotFoundError(missing())
        self._programs, self._port = programs, free_port()
        self._folder, self._who = Path(tempfile.mkdtemp(prefix="postgres-")), _unprivileged()
        if self._who:
            os.chown(self._folder, self._who["user"], self._who["group"])
        subprocess.run(
            [programs / "initdb", "-D", self._folder / "data", "--auth=trust",
             "--username=uedp", "--encoding=UTF8", "--locale=C", "--no-sync"],
            check=True, capture_output=True, cwd=self._folder, **self._who,
        )  # fmt: skip
        self.uri = f"postgresql://uedp@127.0.0.1:{self._port}/postgres"
        self.start()

    def start(self) -> None:
        """Starts it, again too, and waits until it answers."""
        self._begin()
        until(self._started, "Postgres does not start")

    def _begin(self) -> None:
        # A file of one that was killed would stop it, where its number is another program's now.
        (self._folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        command = [self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder,
                   "-h", "127.0.0.1", "-p", str(self._port), "-F"]  # fmt: skip
        # Its processes are each in a group of their own but end with their parent.
        self._run([*map(str, command)], Path(os.devnull), cwd=self._folder, **self._who)

    def _started(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            # The port, or the shared memory of one that was killed, was not free yet.
            self._begin()
        return self._answers()

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.uri, connect_timeout=5).close()
        except psycopg.Error:
            return False
        return True

    def kill(self) -> None:
        super().kill()
        until(lambda: not self._answers(), "Postgres does not end")

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class MlflowServer(_Service):
    """`mlflow server` with two processes, which proxies artifacts."""

    def __init__(self, store: str, folder: Path) -> None:
        super().__init__()
        self._store, self._folder, self._port = store, folder, free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self.start()

    def begin(self) -> None:
        """Starts it, again too."""
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", self._store,
                   "--artifacts-destination", str(self._folder / "artifacts"),
                   "--host", "127.0.0.1", "--port", str(self._port), "--workers", "2"]  # fmt: skip
        # Without what serves language models: that takes six processes more.
        more = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        self._run(command, self._folder / "mlflow.log", env=os.environ | more)

    def start(self) -> None:
        """Starts it and waits until it answers."""
        self.begin()
        until(self.answers, "MLflow does not start")

    def answers(self) -> bool:
        """Each of its processes opens the store at the first question: this is one."""
        try:
            with urllib.request.urlopen(self.uri + STORED, timeout=60) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False


class ChatServer(_Service):
    """A server of chat completions with a real model, without a network.

    Args:
        model: folder of the model.
        folder: of its log.
    """

    def __init__(self, model: Path, folder: Path) -> None:
        super().__init__()
        self._port = free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        offline = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        self._run(chat_server.command(model, self._port), folder / "chat.log",
                  env=os.environ | offline)  # fmt: skip
        until(self._answers, "the language model is not served")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=60) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False


class Misbehaving:
    """Stands between clients and a server of HTTP, and does to requests what it is told.

    Args:
        server: that requests go to, such as `http://127.0.0.1:5000`; none are passed on without.

    Attributes:
        does: `pass`, `hang` (takes a request and never answers), `fail` (answers 500), `lose` (some
            requests are done and their answer is lost, others are lost before), or `slow`.
        requests: that came.
    """

    def __init__(self, server: str | None = None, seed: int = 0) -> None:
        self.does, self.requests = "pass", 0
        self._server = None if server is None else server.removeprefix("http://")
        self._rng, self._lock, self._end = random.Random(seed), threading.Lock(), threading.Event()  # noqa: S311
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return lambda: outer._handle(self)
                raise AttributeError(name)

            def log_message(self, *what: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._end.set()
        self._http.shutdown()
        self._http.server_close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        size = int(request.headers.get("Content-Length") or 0)
        if request.headers.get("Transfer-Encoding", "") == "chunked":
            raise NotImplementedError("chunked requests")
        body = request.rfile.read(size)
        with self._lock:
            self.requests += 1
            chance = self._rng.random()
        if self.does == "hang":
            self._end.wait()
            return
        if self.does == "fail" or self._server is None:
            request.send_error(500)
            return
        if self.does == "slow":
            time.sleep(0.15)
        if self.does == "lose" and chance < 0.1:
            return
        connection = http.client.HTTPConnection(self._server, timeout=60)
        connection.request(request.command, request.path, body, dict(request.headers))
        answer = connection.getresponse()
        content = answer.read()
        if self.does == "lose" and chance < 0.25:
            return
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "server",
                                    "date"):  # fmt: skip
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
