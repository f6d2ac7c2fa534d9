"""A real browser: Playwright drives the system's Chromium on pages that are opened from disk.

Where there is no Chromium, the tests that need one skip and say so; `UEDP_BENCH_CHROMIUM` names
one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic

import pytest
from filelock import FileLock
from playwright.sync_api import Browser, Error, Page, sync_playwright
from references import shown_results

from uedp_bench.leaderboard.site import build

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

SWITCHES = (
    "--no-sandbox",  # it needs privileges that containers lack; pages are our own
    # Nobody watches: fewer processes, none of which gives way to all others of the machine.
    "--no-zygote",
    "--disable-gpu",
    "--in-process-gpu",
)


def chromium() -> str | None:
    path = os.environ.get("UEDP_BENCH_CHROMIUM")
    return path or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = chromium()
    if executable is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=list(SWITCHES))
        yield started
        started.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of stored results; processes of one run of the tests share it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with FileLock(folder / "site.lock"):
        if not (folder / "site").exists():
            whole = tmp_path_factory.mktemp("whole")
            build(shown_results(), whole)
            whole.rename(folder / "site")
    return folder / "site"


def wait_until(page: Page, expression: str, seconds: float = 60.0) -> None:
    """Waits until an expression holds on the page, loading it again included."""
    end = monotonic() + seconds
    while monotonic() < end:
        try:
            if page.evaluate(f"(() => Boolean({expression}))()"):
                return
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
        page.wait_for_timeout(30)
    raise AssertionError(f"does not hold after {seconds} s: {expression}")


class Tab:
    """A page in a context of its own, with what it logs and asks for beyond what it may."""

    # A page takes these on after it was opened; all else is the context's, for good.
    CHANGEABLE = frozenset(("viewport", "color_scheme"))

    def __init__(self, browser: Browser, start: str, options: dict[str, object]) -> None:
        self.context, self.troubles = browser.new_context(**options), []
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        # Playwright's own evaluates text within the page, which the page's policy forbids.
        self.page.wait_for_function = partial(wait_until, self.page)
        self.page.on("console", lambda message: message.type in ("error", "warning")
                     and self.troubles.append(f"console: {message.text}"))  # fmt: skip
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        local = (start, "data:", "blob:")
        self.context.on("request", lambda request: request.url.startswith(local)
                        or self.troubles.append(f"request: {request.url}"))  # fmt: skip

    def change(self, options: dict[str, object]) -> None:
        self.page.set_viewport_size(options["viewport"])
        self.page.emulate_media(color_scheme=options.get("color_scheme", "light"))

    def forget(self) -> None:
        """Leaves nothing of what a test stored, printed, pointed at or went wrong with."""
        self.page.evaluate("localStorage.clear(); sessionStorage.clear();")
        for other in self.context.pages:
            if other != self.page:
                other.close()
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        self.page.emulate_media(media="null")
        self.troubles.clear()


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Iterator[list[Tab]]:
    """The tab that tests of pages on disk share, if there is one now: to open another takes longer
    than most of what is done in it."""
    kept: list[Tab] = []
    yield kept
    for tab in kept:
        tab.context.close()


@pytest.fixture
def visit(browser: Browser, tabs: list[Tab]) -> Iterator[Callable[..., Page]]:
    """Opens pages; the test fails if any logs an error or asks for anything that is not a file.

    Arguments: path or URL, the part after '#', and options of the browser's context, such as
    `color_scheme`, `viewport`, `permissions`.
    """
    used: list[Tab] = []
    shared: list[Tab] = []

    def open_page(where: Path | str, link: str = "", **options: object) -> Page:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        start = where.as_uri() if isinstance(where, Path) else where
        if isinstance(where, Path) and not shared and options.keys() <= Tab.CHANGEABLE:
            if not tabs:
                tabs.append(Tab(browser, "file:", {}))
            tab = tabs[0]
            shared.append(tab)
            tab.change(options)
        else:
            site = "file:" if isinstance(where, Path) else start.rpartition("/")[0] + "/"
            tab = Tab(browser, site, options)
        used.append(tab)
        tab.page.goto(start + (f"#{link}" if link else ""))
        return tab.page

    yield open_page
    troubles = [trouble for tab in used for trouble in tab.troubles]
    if shared:
        tabs.clear()  # until it has forgotten
    for tab in used:
        if tab not in shared or troubles:
            tab.context.close()
        else:
            tab.forget()
            tabs.append(tab)
    assert not troubles, troubles


def serious(page: Page, rules: tuple[str, ...] = (), within: str | None = None) -> list[str]:
    """Issues of impact serious or critical that axe-core reports of a page, one line each.

    Args:
        page: what is checked, as it is now.
        rules: names of rules; empty for all of them.
        within: selector of the part that is checked; None for the whole page.
    """
    from axe_playwright_python.sync_playwright import Axe

    # It would fetch style sheets again, and pages must not fetch. Every rule is checked, but only
    # what breaks one is described: describing the rest takes most of the time.
    options: dict[str, object] = {"preload": False, "resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    violations = Axe().run(page, within, options).response["violations"]
    return [
        f"{one['impact']}: {one['id']}: {one['help']}: {node['html'][:200]}"
        for one in violations
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.fixture
def accessible() -> Callable[..., None]:
    """Asserts that axe-core finds no serious issue on a page as it is now, by some rules or all.

    A theme changes colours alone: where a page was checked in one, the other is checked by
    `color-contrast`. Where only a part of a page is not as it was when it was checked, that part
    is checked `within` its selector.
    """

    def check(page: Page, *rules: str, within: str | None = None) -> None:
        violations = serious(page, rules, within)
        assert not violations, "\n".join(violations)

    return check
