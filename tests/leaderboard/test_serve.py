"""The live server: this machine alone, files of the site alone, and never stopped by a result."""

from __future__ import annotations

import http.client
import shutil
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from time import sleep

import pytest
from board_results import plain_spec

from uedp_bench.contracts.results import Estimate, Result, write_result
from uedp_bench.errors import InputError, TrackingError
from uedp_bench.leaderboard.loading import Loader
from uedp_bench.leaderboard.serve import LiveServer
from uedp_bench.leaderboard.site import SiteFolder
from uedp_bench.leaderboard.sources import Folder


def put(folder, identifier, perplexity=12.5, **more):
    spec = plain_spec(of=identifier)
    values = {"group": f"g-{identifier}", "status": "finished", "spec": spec,
              "utility": {"perplexity": Estimate(value=perplexity)}}  # fmt: skip
    place = folder / identifier.replace("/", "")
    place.mkdir(parents=True, exist_ok=True)
    write_result(Result(id=identifier, **{**values, **more}), place / "result.json")
    return place / "result.json"


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def server(runs):
    with LiveServer(Loader([Folder(runs, may_come=True)]), 0) as started:
        yield started


@pytest.fixture
def ask(server):
    """Status, headers and text of an answer."""

    def ask(path, method="GET", **headers):
        port = int(server.url.rpartition(":")[2].strip("/"))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        response = answer.status, dict(answer.getheaders()), answer.read().decode()
        connection.close()
        return response

    return ask


def test_files_of_the_site_and_nothing_else(server, runs, ask):
    put(runs, "aa01")
    server.site.refresh()
    (server.site.folder / "secret.html").write_text("not of the site")
    for path in (
        "/",
        "/index.html",
        "/table.html",
        "/runs/aa01.html",
        "/assets/core.js",
        "/results.csv",
        "/?x=1",
    ):
        status, headers, text = ask(path)
        assert (status, len(text) > 100) == (200, True), path
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask("/assets/style.css")[1]["Content-Type"].startswith("text/css")
    for path in ("/runs/", "/runs", "/assets/", "/secret.html", "/../runs/aa01/result.json",
                 "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/../../../../etc/passwd",
                 "/runs/..%2findex.html", "/index.html%00", "http://127.0.0.1/"):  # fmt: skip
        status, _, text = ask(path)
        assert status == 404, path
        assert "root:" not in text
    assert ask("/", "POST")[0] == 501


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST:8000", 200), ("127.0.0.1:1", 200), ("evil.example", 421),
     ("evil.example:8000", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example:1", 421),
     ("evil.example:127.0.0.1", 421), ("", 421), (None, 421)],
)  # fmt: skip
def test_other_names_of_this_machine_get_nothing(server, runs, ask, host, status):
    put(runs, "aa01")
    server.site.refresh()
    got, _, text = ask("/runs/aa01.html", Host=host)
    assert got == status
    assert ("noiseless" in text) == (status == 200)


def test_a_page_has_another_version_when_it_changes(server, runs, ask):
    put(runs, "aa01")
    put(runs, "bb02")
    assert server.site.refresh() == ["2 rows of 2 runs"]
    assert server.site.refresh() == []
    names = ("/table.html", "/runs/aa01.html", "/runs/bb02.html")
    before = [ask(name, "HEAD")[1]["ETag"] for name in names]
    assert ask("/table.html", "HEAD")[2] == ""
    put(runs, "bb02", perplexity=7.0)
    server.site.refresh()
    after = [ask(name, "HEAD")[1]["ETag"] for name in names]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, False]
    assert after[2].strip('"') in ask("/runs/bb02.html")[2]
    shutil.rmtree(runs / "bb02")
    server.site.refresh()
    assert ask("/runs/bb02.html", "HEAD")[0] == 404


def test_files_that_are_no_results_are_said_once_and_tried_again(server, runs, ask):
    path = put(runs, "aa01")
    text = path.read_text()
    put(runs, "bb02")
    put(runs, "../../x")
    path.write_text(text[:100])
    climbing, broken, rows = server.site.refresh()
    assert broken.startswith("left out: ")
    assert "aa01/result.json" in broken
    assert "'../../x'" in climbing
    assert rows == "1 rows of 1 runs"
    assert server.site.refresh() == []
    path.write_text(text)
    assert server.site.refresh() == ["2 rows of 2 runs"]
    assert ask("/runs/aa01.html")[0] == 200


def test_following_survives_servers_and_folders_that_go_away(server, runs, monkeypatch):
    outcomes = iter(
        [["one"], TrackingError("cannot read"), TrackingError("cannot read"), InputError("a\nb"),
         ["two"], TrackingError("cannot read")]
    )  # fmt: skip

    def refresh():
        outcome = next(outcomes, None)
        if outcome is None:
            server.stop()
            return []
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(server.site, "refresh", refresh)
    notes = []
    follower = Thread(target=server.follow, args=(notes.append, 0.01), daemon=True)
    follower.start()
    follower.join(timeout=120)
    assert not follower.is_alive()
    assert notes == ["one", "cannot read", "a b", "two", "cannot read"]


def test_two_hundred_callers_at_once_are_all_answered(server, runs, ask):
    put(runs, "aa01")
    server.site.refresh()
    together = Barrier(200)

    def answer(_):
        together.wait()
        return ask("/table.html")

    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(answer, range(200)))
    assert {status for status, _, _ in answers} == {200}
    assert len({text for _, _, text in answers}) == 1


def test_a_browser_that_leaves_is_not_reported(server, runs, ask, capfd):
    put(runs, "aa01")
    server.site.refresh()
    port = int(server.url.rpartition(":")[2].strip("/"))
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as browser:
            at_once = struct.pack("ii", 1, 0)  # closing resets the connection
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            browser.sendall(b"GET /table.html HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert ask("/")[0] == 200
    assert capfd.readouterr().err == ""


def test_nothing_is_left_behind(runs):
    with LiveServer(Loader([Folder(runs, may_come=True)]), 0) as server:
        server.site.refresh()
        folder = server.site.folder
        assert server.site.read("index.html")
        assert (folder / "index.html").is_file()
    assert not folder.exists()
    port = int(server.url.rpartition(":")[2].strip("/"))
    with LiveServer(Loader([]), port) as again:
        assert again.url == server.url
        with pytest.raises(InputError, match=rf"--port {port}: .*--port \d+"):
            LiveServer(Loader([]), port)


def test_a_page_in_the_making_is_finished_before_its_folder_goes(runs, monkeypatch):
    put(runs, "aa01")
    begun, write = Event(), SiteFolder.write

    def slow(folder, name, text):
        begun.set()
        sleep(0.5)
        return write(folder, name, text)

    with LiveServer(Loader([Folder(runs)]), 0) as server:
        server.site.refresh()
        monkeypatch.setattr(SiteFolder, "write", slow)
        with ThreadPoolExecutor() as pool:
            first = pool.submit(server.site.read, "index.html")
            assert begun.wait(60)
            later = pool.submit(server.site.read, "table.html")
            server.__exit__(None, None, None)
            assert (first.exception(), later.exception()) == (None, None)
            assert server.site.read("table.html") is None
    assert not server.site.folder.exists()


def test_a_server_whose_thread_cannot_start_leaves_nothing(runs, monkeypatch):
    server = LiveServer(Loader([Folder(runs, may_come=True)]), 0)
    port = int(server.url.rpartition(":")[2].strip("/"))

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(Thread, "start", refuse)
        with server:
            pass
    assert not server.site.folder.exists()
    with LiveServer(Loader([]), port) as again:
        assert again.url == server.url
