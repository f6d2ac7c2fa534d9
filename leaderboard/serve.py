"""Serves the site on this machine alone, and builds it again as results arrive.

The folder of the site is a temporary one. Pages ask for their own version (`static/live.js`), an
HTTP ETag, and load themselves again when it changes.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic
from types import TracebackType

from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.leaderboard.leaving_out import without_culprits
from uedp_bench.leaderboard.loading import Loaded, Loader, Progress
from uedp_bench.leaderboard.site import Site

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
    """A site that follows its results.

    Args:
        loader: reads the results.
        folder: an empty one.
    """

    def __init__(self, loader: Loader, folder: Path) -> None:
        self.folder = folder
        self._loader, self._site = loader, Site(folder, live=True)
        self._loaded: Loaded | None = None
        self._said: set[str] = set()

    def version(self, name: str) -> str | None:
        """A version that changes when the file does; None if the site has no such file."""
        return self._site.versions.get(name)

    def refresh(self, progress: Progress | None = None) -> list[str]:
        """Reads what has changed, writes the pages that change with it, and says so.

        Files that are no results are said once, and read again once they change.

        Args:
            progress: is told how many results are read.

        Raises:
            InputError: if a folder, a store or an experiment does not exist.
            TrackingError: if a server cannot be reached.
        """
        loaded = self._loader.load(progress)
        if loaded is self._loaded:
            return []
        update = partial(self._site.update, copies=loaded.copies)
        built, left_out = without_culprits(loaded, update)
        self._loaded = loaded
        trouble = [f"left out: {line}" for line in (*loaded.problems, *left_out)]
        trouble += [f"note: {note}" for note in loaded.notes]
        lines = [line for line in trouble if line not in self._said]
        self._said = set(trouble)
        if built.written and built.runs:
            lines.append(f"{built.rows} rows of {built.runs} runs")
        elif built.written:
            lines.append(f"no results yet in {self._loader.name}: waiting for them")
        return lines


class LiveServer:
    """Serves a live site; a context that ends with the server stopped and the folder removed.

    Args:
        loader: reads the results.
        port: 0 for any that is free.

    Raises:
        InputError: if the port cannot be had.
    """

    def __init__(self, loader: Loader, port: int) -> None:
        self._folder = TemporaryDirectory(prefix="uedp-bench-site-")
        self.site = LiveSite(loader, Path(self._folder.name))
        try:
            self._server = ThreadingHTTPServer((HOST, port), partial(_Handler, self.site))
        except OSError as error:
            self._folder.cleanup()
            raise InputError(_refusal(port, error)) from None
        self.url = f"http://{HOST}:{self._server.server_address[1]}/"
        self._stop = Event()

    def __enter__(self) -> LiveServer:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def follow(self, say: Callable[[str], None], seconds: float = 1.0) -> None:
        """Looks for results until `stop` is called, or an exception such as Ctrl-C comes.

        What cannot be read now is said once, and tried again.

        Args:
            say: gets a line for every change.
            seconds: between two looks; longer where a look takes long itself.
        """
        trouble, wait = "", seconds
        while not self._stop.wait(wait):
            began = monotonic()
            try:
                lines, now = self.site.refresh(), ""
            except UedpBenchError as error:
                lines, now = [], " ".join(str(error).split())
            except Exception as error:  # whatever somebody wrote into a folder, the server goes on
                lines, now = [], " ".join(f"{type(error).__name__}: {error}".split())
            if now and now != trouble:
                lines.append(now)
            trouble = now
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
            content = b"" if version is None else (self._site.folder / name).read_bytes()
        except FileNotFoundError:  # its run has just gone
            version = None
        if version is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", TYPES[Path(name).suffix])
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
