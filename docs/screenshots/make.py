"""Takes the screenshots of the docs: the site of the reference results, in Chromium.

    python docs/screenshots/make.py [--out docs/screenshots]

Needs the test extra and the system's Chromium (`UEDP_BENCH_CHROMIUM` names another browser).
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from uedp_bench.leaderboard.boards import boards, identity
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.site import build

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"


@dataclass(frozen=True)
class Shot:
    """A picture: what is opened, how large the window is, and which theme it has.

    Attributes:
        below: a selector that is scrolled to the top of the window first.
    """

    name: str
    page: str
    theme: str = "light"
    width: int = 1280
    height: int = 860
    below: str = ""


def shots() -> tuple[Shot, ...]:
    """What is shown: links are made of the stored results, so that they follow them."""
    bloggers, entities = _rows("bloggers"), _rows("user-entity/embedded")
    by_label = {row.label: row for row in bloggers}
    table = f"table.html#{_set(bloggers)}&metric=utility.perplexity"
    compared = ",".join(by_label[label].group for label in ("user-dp", "uedp-group"))
    return (
        Shot("front", "index.html", height=1000),
        Shot("front-phone", "index.html", width=390),
        Shot("table", table, height=800),
        Shot("table-dark", table, "dark", height=800),
        Shot("table-phone", f"table.html#{_set(bloggers)}", width=390),
        Shot("plots", f"table.html#view=plots&{_set(entities)}", height=1000, below="#view-plots"),
        Shot("run", f"runs/{by_label['user-dp'].runs[0].id}.html", height=1000),
        Shot("curves", f"runs/{by_label['noiseless'].runs[0].id}.html", height=1000,
             below="#leakage"),
        Shot("compare", f"table.html#view=compare&rows={compared}", height=1000),
    )  # fmt: skip


def _rows(folder: str) -> list[Row]:
    return aggregate(load_results([RESULTS / folder]))


def _set(rows: list[Row]) -> str:
    """The part of a link that names the largest set of rows that compare."""
    board = max(boards(rows), key=len)
    spec = board[0].spec
    return f"task={spec.task.name}&source={spec.source.name}&set={identity(board)}"


def take(browser: Browser, site: Path, shot: Shot, out: Path) -> None:
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.theme
    )
    page = context.new_page()
    path, _, link = shot.page.partition("#")
    page.goto((site / path).as_uri() + (f"#{link}" if link else ""))
    page.wait_for_load_state("load")
    if shot.below:
        page.locator(shot.below).first.evaluate("one => one.scrollIntoView()")
    # Figures are drawn when they come into sight.
    page.wait_for_timeout(2500)
    page.screenshot(path=out / f"{shot.name}.png")
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screenshots")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        build(load_results([RESULTS]), Path(folder) / "site")
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("UEDP_BENCH_CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox"],
        )
        for shot in shots():
            take(browser, Path(folder) / "site", shot, out)
        browser.close()


if __name__ == "__main__":
    main()
