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

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.site import build

ROOT = Path(__file__).parents[2]
QUICKSTART = "task=next-word&source=embedded&set=7b2eea61ca"
USER_ENTITY = "task=next-word&source=embedded&set=665c4176f9"


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


SHOTS = (
    Shot("table", f"index.html#{QUICKSTART}&metric=utility.perplexity", height=800),
    Shot("table-dark", f"index.html#{QUICKSTART}&metric=utility.perplexity", "dark", height=800),
    Shot("table-phone", f"index.html#{QUICKSTART}", width=390),
    Shot("plots", f"index.html#view=plots&{USER_ENTITY}",
         height=1000, below="#view-plots"),
    Shot("run", "runs/e506935de68b406e.html", height=1000),
    Shot("curves", "runs/7816d185b168bfdd.html", height=1000, below="#leakage"),
    Shot("compare", "index.html#view=compare&rows=6b8cb297601d8bc1,a39a698cba9c662e",
         height=1000),
)  # fmt: skip


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
        build(load_results([ROOT / "leaderboard" / "results"]), Path(folder) / "site")
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("UEDP_BENCH_CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox"],
        )
        for shot in SHOTS:
            take(browser, Path(folder) / "site", shot, out)
        browser.close()


if __name__ == "__main__":
    main()
