"""Serves the site on this machine alone, and follows results as they arrive.

A file is made when somebody asks for it, into a temporary folder, and made again when what it
shows has changed: thousands of runs are served as soon as they are read. Pages ask for their own
version (`static/live.js`), an HTTP ETag, and load themselves again when it changes.
"""

from __future__ import annotations

import errno
import re
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, RLock, Thread
from time import monotonic
from typing import Any

from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError, UedpBenchError, plain
from uedp_bench.io.folders import scratch_folder
from uedp_bench.leaderboard.loading import Loaded, Loader, Progress
from uedp_bench.leaderboard.site import SiteFolder, reason_line, trouble, without_culprits
from uedp_bench.leaderboard.site_files import Contents, Files
from uedp_bench.leaderboard.sources import Copy

_VERSION = '<meta name="version" content="">'


class SiteOnDemand:
    """A site whose results come and go, and whose files are made when they are asked for.

    Args:
        folder: empty folder for the pages that are made.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._contents = folder, Contents(live=True)
        self._site = Files(0, 0, {})
        self._folder = SiteFolder(folder, ())
        self._versions: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All files of the site."""
        return tuple(self._site.files)

    def version(self, name: str) -> str | None:
        """A version that changes when the file does; None if the site has no such file."""
        file = self._site.files.get(name)
        return None if file is None else file.key[:16]

    def update(self, results: Sequence[Result]) -> Files:
        """Shows these results from now on, and makes no file of them; see `Contents.files`."""
        self._site = self._contents.files(results, lambda name: self.version(name) or "")
        for name in self._versions.keys() - self._site.files.keys():
            del self._versions[name]
            (self._path / name).unlink(missing_ok=True)
        return self._site

    def is_made(self, name: str) -> bool:
        """True if a file need not be made to be read."""
        # One look: `update` may remove the name meanwhile, in the thread that follows results.
        return self._versions.get(name, "")[:16] == self.version(name)

    def make(self, name: str) -> None:
        """Makes a file of the site, unless it is made already."""
        file = self._site.files.get(name)
        if file is None or self.is_made(name):
            return
        text = file.make()
        if isinstance(text, str) and name.endswith(".html"):
            # The first is ours: in values of results, "<" is escaped.
            text = text.replace(_VERSION, _VERSION.replace('""', f'"{file.key[:16]}"'), 1)
        self._folder.write(name, text)
        self._versions[name] = file.key


HOST = "127.0.0.1"
NAMES = {HOST, "localhost"}
"""Pages of other names that resolve to this machine (DNS rebinding) get nothing."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
}


class LiveSite:
    """A site that follows its results, and makes a file when somebody asks for it.

    Args:
        loader: loader of the results.
        folder: empty folder for the pages that are made.
    """

    def __init__(self, loader: Loader, folder: Path) -> None:
        self.folder = folder
        self._loader, self._site = loader, SiteOnDemand(folder)
        self._loaded: Loaded | None = None
        self._culprits: dict[str, tuple[Copy, str]] = {}
        self._shown_lines: set[str] = set()
        self._new: list[str] = []
        self._one_at_a_time = RLock()

    @property
    def names(self) -> tuple[str, ...]:
        """All files of the site."""
        return self._site.names

    def version(self, name: str) -> str | None:
        """A version that changes when the file does; None if the site has no such file."""
        return self._site.version(name)

    def refresh(self, progress: Progress | None = None) -> list[str]:
        """Reads what has changed, and says so.

        Files that are no results are said once, and read again once they change.

        Args:
            progress: receiver of the number of results that are read.

        Returns:
            Lines for the user, with those of results that could not be shown since the last call.

        Raises:
            InputError: if a folder, a store or an experiment does not exist.
            TrackingError: if a server cannot be reached.
        """
        loaded = self._loader.load(progress)
        with self._one_at_a_time:
            if loaded is not self._loaded:
                self._show(loaded)
            lines, self._new = self._new, []
        return lines

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if the site has no such file.

        A result that makes a page fail is left out from then on.

        Raises:
            InputError: if results cannot be shown together.
        """
        if not self._site.is_made(name):
            with self._one_at_a_time:
                try:
                    self._site.make(name)
                except UedpBenchError:
                    raise
                except Exception as reason:
                    self._leave_out(name, reason)
        try:
            return None if self.version(name) is None else (self.folder / name).read_bytes()
        except FileNotFoundError:  # its run has just gone
            return None

    def close(self) -> None:
        """Make no more files; the one that is being made is finished first."""
        with self._one_at_a_time:
            self._site = SiteOnDemand(self.folder)

    def _show(self, loaded: Loaded) -> None:
        """Shows these results, but those that cannot be shown."""
        self._culprits = {
            name: (copy, line)
            for name, (copy, line) in self._culprits.items()
            if loaded.copies.get(name) is copy
        }
        copies = {n: copy for n, copy in loaded.copies.items() if n not in self._culprits}
        before = self.version("results.json")
        shown, left_out = without_culprits(replace(loaded, copies=copies), self._site.update)
        self._loaded = loaded
        left_out += [line for _, line in self._culprits.values()]
        lines = [f"left out: {line}" for line in (*loaded.problems, *loaded.clashes, *left_out)]
        lines += [f"note: {note}" for note in loaded.notes]
        self._new += [line for line in lines if line not in self._shown_lines]
        self._shown_lines = set(lines)
        if self.version("results.json") == before:
            return
        self._new.append(
            f"{shown.rows} rows of {shown.runs} runs" if shown.runs
            else f"no results yet in {self._loader.name}: waiting for them"
        )  # fmt: skip

    def _leave_out(self, name: str, reason: Exception) -> None:
        """Finds the results that make a file fail, and makes it without them."""
        loaded = self._loaded
        assert loaded is not None  # noqa: S101  # it has files
        run = Path(name).stem if name.startswith("runs/") else None
        suspects = [run] if run else [one for one in loaded.copies if one not in self._culprits]
        trouble_of = {one: trouble(loaded.copies[one]) for one in suspects}
        lines = {one: line for one, line in trouble_of.items() if line}
        if not lines:
            raise InputError(f"{name} cannot be made: {reason_line(reason)}") from None
        self._culprits |= {one: (loaded.copies[one], line) for one, line in lines.items()}
        self._show(loaded)
        self._site.make(name)


class LiveServer:
    """Serves a live site; a context that ends with the server stopped and the folder removed.

    Args:
        loader: loader of the results.
        port: port to listen at; 0 for any that is free.

    Raises:
        InputError: if the port cannot be had.
    """

    def __init__(self, loader: Loader, port: int) -> None:
        self._folder = scratch_folder()
        self.site = LiveSite(loader, Path(self._folder.name))
        try:
            self._server = _Server((HOST, port), partial(_Handler, self.site))
        except OSError as error:
            self._folder.cleanup()
            raise InputError(_refusal(port, error)) from None
        self.url = f"http://{HOST}:{self._server.server_address[1]}/"
        self._stop = Event()

    def __enter__(self) -> LiveServer:
        try:
            Thread(target=self._server.serve_forever, daemon=True).start()
        except RuntimeError:  # the system starts no more
            self._close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._close()

    def _close(self) -> None:
        self._server.server_close()
        self.site.close()
        self._folder.cleanup()

    def follow(self, say: Callable[[str], None], seconds: float = 1.0) -> None:
        """Looks for results until `stop` is called, or an exception such as Ctrl-C comes.

        What cannot be read now is said once, and tried again.

        Args:
            say: receiver of a line for every change.
            seconds: pause between two looks; longer where a look takes long itself.
        """
        trouble, wait = "", seconds
        while not self._stop.wait(wait):
            began = monotonic()
            try:
                lines, problem = self.site.refresh(), ""
            except UedpBenchError as error:
                lines, problem = [], " ".join(str(error).split())
            except Exception as error:  # whatever somebody wrote into a folder, the server goes on
                lines, problem = [], " ".join(f"{type(error).__name__}: {error}".split())
            if problem and problem != trouble:
                lines.append(problem)
            trouble = problem
            for line in lines:
                say(line)
            wait = max(seconds, 5 * (monotonic() - began))

    def stop(self) -> None:
        """Ends `follow`."""
        self._stop.set()


def _refusal(port: int, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"--port {port}: {error.strerror}"
    for other in range(port + 1, min(port + 100, 65536)):
        with socket.socket() as trial:
            if trial.connect_ex((HOST, other)) != 0:
                return f"--port {port}: is in use; --port {other} is free"
    return f"--port {port}: is in use; --port 0 takes one that is free"


class _Server(ThreadingHTTPServer):
    """Keeps many callers waiting: those that the system turns away try again after seconds."""

    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that left before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Gives files of the site by their exact names, and nothing else."""

    # HTTP/1.0: a connection for every request, so that none outlives the server.
    server_version, sys_version = "uedp-bench", ""
    timeout = 60

    def __init__(self, site: LiveSite, *arguments: object) -> None:
        self._site = site
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """A file of the site."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Its version alone."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        host = self.headers.get("Host", "").lower()
        if re.sub(r":\d+$", "", host) not in NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        name = self.path.partition("?")[0].removeprefix("/") or "index.html"
        version = self._site.version(name)
        try:
            content = self._site.read(name) if with_body else b""
        except UedpBenchError as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=plain(str(error)))
            return
        if version is None or content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", TYPES[Path(name).suffix])
        if with_body:
            self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{version}"')
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def end_headers(self) -> None:
        """Sends headers: browsers keep nothing, guess nothing, and show no page within others."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing: pages ask every other second."""
