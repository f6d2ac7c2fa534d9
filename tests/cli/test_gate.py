"""`report` refuses before any work what it cannot write, and prints by a browser alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_results import seeds

from uedp_bench.cli.main import run_cli
from uedp_bench.leaderboard.gate import PACKED
from uedp_bench.leaderboard.sources import write_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write_bundle(seeds("user-dp", 80.0), tmp_path / "all.jsonl.gz")
    return tmp_path / "all.jsonl.gz"


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run_cli(["report", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_unusable_files_are_refused_by_name(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert ".html, .md, .pdf" in refusal(capsys, bundle, "--out", "r.docx")
    assert "gone" in refusal(capsys, tmp_path / "gone", "--out", tmp_path / "r.md")
    assert "no results" in refusal(capsys, empty, "--out", tmp_path / "r.md")
    assert "--out" in refusal(capsys, bundle, "--out", tmp_path / "no" / "r.md")
    assert "userdp" in refusal(capsys, bundle, "--mechanism", "userdp", "--out", tmp_path / "r.md")
    bundle.write_bytes(b"none")
    assert "all.jsonl.gz" in refusal(capsys, bundle, "--out", tmp_path / "r.md")
    assert not (tmp_path / "r.md").exists()


def test_a_report_of_a_bundle_says_that_failed_runs_are_missing(
    bundle: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "runs", tmp_path / "report.md"
    for run in seeds("user-dp", 80.0):
        (folder / run.id).mkdir(parents=True)
        (folder / run.id / "result.json").write_text(run.model_dump_json())
    texts = []
    for target in (bundle, folder):
        assert run_cli(["report", str(target), "--out", str(out)]) == 0
        texts.append(out.read_text())
    assert [f"failed runs in bundles, {PACKED}" in text for text in texts] == [True, False]


def test_a_missing_browser_is_named_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UEDP_BENCH_CHROMIUM", "/no/such/browser")
    message = refusal(capsys, "no-such-folder", "--out", "r.pdf")
    assert "UEDP_BENCH_CHROMIUM" in message
    assert "no-such-folder" not in message


def test_a_browser_prints_the_document_and_finds_no_host(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, log = tmp_path / "browser", tmp_path / "log"
    browser.write_text(
        f'#!/bin/sh\necho "$@" > {log}\nfor last; do :; done\n'
        'for a; do case "$a" in --print-to-pdf=*) cp "${last#file://}" "${a#*=}";; esac; done\n'
    )
    browser.chmod(0o755)
    monkeypatch.setenv("UEDP_BENCH_CHROMIUM", str(browser))
    out = tmp_path / "r.pdf"
    assert run_cli(["report", str(bundle), "--out", str(out)]) == 0
    assert "Privacy evidence" in out.read_text(encoding="utf-8")
    assert "~NOTFOUND" in log.read_text()
    browser.write_text("#!/bin/sh\n")
    assert run_cli(["report", str(bundle), "--out", str(tmp_path / "s.pdf")]) == 1
    assert not (tmp_path / "s.pdf").exists()
