"""Open pages refresh by themselves, keep their view, and wait while they are paused."""

from __future__ import annotations

from time import monotonic

import pytest
from board_results import plain_spec

from uedp_bench.contracts.results import Estimate, Result
from uedp_bench.leaderboard import index_page
from uedp_bench.leaderboard.loading import Loader
from uedp_bench.leaderboard.serve import LiveServer
from uedp_bench.leaderboard.sources import Folder
from uedp_bench.one_run.private_data import keep_result


def put(folder, mechanism, seed=1, perplexity=12.5):
    spec = plain_spec(mechanism, seed=seed)
    result = Result(
        id=f"{mechanism}{seed}", group=mechanism, status="finished", spec=spec,
        utility={"perplexity": Estimate(value=perplexity)},
        provenance={"corpus": {"fingerprint": "c"}, "vocabulary": {"fingerprint": "v"}},
    )  # fmt: skip
    keep_result(result, folder)


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def server(runs):
    with LiveServer(Loader([Folder(runs, may_come=True)]), 0) as started:
        started.site.refresh()
        yield started


class Gate:
    """Stands before the server, and keeps a page's question for its version while it is shut.

    Args:
        page: open page; it asks no other question before the last one is answered.
    """

    def __init__(self, page):
        self._page, self._is_open, self._kept = page, True, []
        page.route("**/*", self._pass)

    def _pass(self, route):
        if self._is_open or route.request.method != "HEAD":
            route.continue_()
        else:
            self._kept.append(route)

    def shut(self):
        """Returns when a question is kept."""
        self._is_open = False
        until(self._page, lambda: self._kept)

    def open(self):
        """Passes the question on."""
        self._is_open = True
        self._kept.pop().continue_()


def until(page, condition):
    """Waits until something is true of what Playwright has told."""
    end = monotonic() + 60
    while not condition():
        assert monotonic() < end
        page.wait_for_timeout(20)


def test_an_open_page_follows_results_and_keeps_its_view(
    server, runs, visit, accessible, monkeypatch
):
    # Rows come in scripts of one each, which are made when the page asks for them.
    monkeypatch.setattr(index_page, "MOST_IN_PAGE", 1)
    monkeypatch.setattr(index_page, "ROWS", 1)
    page = visit(server.url + "table.html", "view=table&q=uedp&metric=utility.perplexity")
    page.get_by_role("heading", name="Waiting for results").wait_for()
    accessible(page)
    put(runs, "uedp")
    put(runs, "user-dp")
    server.site.refresh()
    cell = page.locator("#view-table").get_by_role("link", name="uedp", exact=True)
    cell.wait_for()
    assert page.url.endswith("#view=table&q=uedp&metric=utility.perplexity")
    assert page.locator("#q").input_value() == "uedp"
    assert page.evaluate("[uedp.shown().length, uedp.rows.length]") == [1, 2]
    accessible(page, within="#view-table")
    # Somebody types on while a result arrives, and the page loads again at the last key.
    gate = Gate(page)
    gate.shut()
    put(runs, "uedp-group")
    server.site.refresh()
    page.locator("#q").press("End")
    page.evaluate("window.before = true")
    page.keyboard.type("-group")
    gate.open()
    page.wait_for_function("window.before === undefined && window.uedp")
    page.wait_for_function("document.activeElement.id === 'q'")
    page.keyboard.type("s")
    assert page.locator("#q").input_value() == "uedp-groups"
    assert page.evaluate("uedp.rows.length") == 3
    assert not list(server.site.folder.glob("runs/*"))  # nobody asked for one


def test_a_page_loads_again_only_when_it_changes_and_not_while_paused(server, runs, visit):
    put(runs, "uedp")
    put(runs, "user-dp")
    server.site.refresh()
    page = visit(server.url + "table.html")
    page.goto(f"{server.url}runs/uedp1.html")
    page.evaluate("window.before = true")
    gate = Gate(page)
    gate.shut()
    put(runs, "user-dp", perplexity=3.0)
    server.site.refresh()
    questions = []
    page.on("request", lambda request: request.method == "HEAD" and questions.append(request))
    gate.open()
    until(page, lambda: questions)  # the next question: the answer to the one before is in
    assert page.evaluate("window.before") is True  # another run's change
    gate.shut()
    page.get_by_role("button", name="Pause updates").click()
    put(runs, "uedp", perplexity=4.0)
    server.site.refresh()
    gate.open()  # a question from before the pause loads no page either
    questions.clear()
    page.wait_for_timeout(2500)
    assert questions == []
    assert page.evaluate("window.before") is True
    assert page.get_by_text("Updates are paused.").is_visible()
    page.reload()
    assert "4.00" in page.locator("main").inner_text()
    page.evaluate("window.before = true")
    put(runs, "uedp", perplexity=5.0)
    server.site.refresh()
    page.get_by_role("button", name="Resume updates").click()
    page.wait_for_function("window.before === undefined && document.readyState === 'complete'")
    assert "5.00" in page.locator("main").inner_text()


def test_a_page_says_that_its_server_has_stopped(runs, browser):
    put(runs, "uedp")
    page = browser.new_page()
    with LiveServer(Loader([Folder(runs)]), 0) as server:
        server.site.refresh()
        page.goto(server.url + "table.html")
    page.get_by_text("The server does not answer.").wait_for(timeout=60_000)
    assert page.evaluate("uedp.rows.length") == 1
    page.close()
