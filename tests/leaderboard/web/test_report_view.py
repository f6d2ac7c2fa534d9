"""A report opens from disk on any screen, asks for nothing, and prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from board_results import seeds
from playwright.sync_api import Page
from whole_results import HOSTILE

from uedp_bench.cli.main import run_cli
from uedp_bench.leaderboard.sources import write_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    failed = [{"name": HOSTILE, "type": "OSError", "message": HOSTILE * 5}]
    write_bundle(seeds("user-dp", 80.0, 3.0, failed_attacks=failed), tmp_path / "all.jsonl.gz")
    return tmp_path / "all.jsonl.gz"


def test_reports_are_accessible_and_fit_phones(
    bundle: Path, tmp_path: Path, visit: Callable[..., Page], accessible: Callable[..., None]
) -> None:
    out = tmp_path / "report.html"
    assert run_cli(["report", str(bundle), "--out", str(out)]) == 0
    page = visit(out, viewport={"width": 320, "height": 800}, bypass_csp=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    accessible(page)


@pytest.mark.usefixtures("browser")
def test_chromium_prints_a_report(bundle: Path, tmp_path: Path) -> None:
    assert run_cli(["report", str(bundle), "--out", str(tmp_path / "report.pdf")]) == 0
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
