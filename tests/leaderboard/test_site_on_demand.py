"""A live site makes a file when it is asked for, and again when what it shows has changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from references import REFERENCE

from uedp_bench.contracts.results import Result, read_result, write_result
from uedp_bench.leaderboard import site_files
from uedp_bench.leaderboard.loading import Loader, load_results
from uedp_bench.leaderboard.serve import LiveSite
from uedp_bench.leaderboard.sources import Folder, write_bundle
from uedp_bench.one_run.private_data import keep_result

OF_ALL = {"index.html", "table.html", "glossary.html", "results.json", "results.csv"}


@pytest.fixture
def six() -> list[Result]:
    results = load_results([REFERENCE / "quickstart"])
    return [result for result in results if result.label in ("user-dp", "uedp")]


@pytest.fixture
def runs(tmp_path: Path, six: list[Result]) -> Path:
    """Six results, each in the folder of its id."""
    folder = tmp_path / "runs"
    for result in six:
        keep_result(result, folder)
    return folder


@pytest.fixture
def file_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pages that are made: of runs by id, of all rows by their file."""
    pages: list[str] = []
    original, of_all = site_files._run, site_files.files_of_all

    def counted(name: str, make: Any) -> Any:
        return lambda: pages.append(name) or make()

    monkeypatch.setattr(
        site_files, "_run", lambda result, *rest: pages.append(result.id) or original(result, *rest)
    )
    monkeypatch.setattr(
        site_files,
        "files_of_all",
        lambda *arguments: {name: counted(name, make) for name, make in of_all(*arguments).items()},
    )
    return pages


def change(file: Path, **changes: Any) -> None:
    write_result(read_result(file).model_copy(update=changes), file)


def test_a_file_is_made_when_asked_for(runs: Path, tmp_path: Path, file_log: list[str]) -> None:
    live = LiveSite(Loader([Folder(runs)]), tmp_path / "live")
    live.refresh()
    assert len([name for name in live.names if name.startswith("runs/")]) == 6
    assert (file_log, list((tmp_path / "live").rglob("*.html"))) == ([], [])
    assert live.read("index.html") == live.read("index.html")
    assert file_log == ["index.html"]
    first, other, *_ = sorted(runs.iterdir())
    file_log.clear()
    for _ in range(2):
        assert live.read(f"runs/{first.name}.html")
    assert file_log == [first.name]

    versions = {name: live.version(name) for name in live.names}
    change(first / "result.json", details={"new": {"value": 123454321}})
    file_log.clear()
    live.refresh()
    assert file_log == []
    group = json.loads((first / "result.json").read_text())["group"]
    row = {one.id for one in load_results([runs]) if one.group == group}
    after = {name for name in live.names if live.version(name) != versions[name]}
    assert after == OF_ALL | {f"runs/{name}.html" for name in row}
    assert b"123454321" in (live.read(f"runs/{first.name}.html") or b"")
    assert file_log == [first.name]
    shutil.rmtree(first)
    live.refresh()
    assert live.read(f"runs/{first.name}.html") is None
    assert not (tmp_path / "live" / "runs" / f"{first.name}.html").exists()
    assert live.read(f"runs/{other.name}.html")
    assert file_log[1:] == [other.name]


def test_a_changed_line_changes_the_pages_of_its_row_alone(
    six: list[Result], tmp_path: Path
) -> None:
    bundle = tmp_path / "six.jsonl.gz"
    write_bundle(six, bundle)
    live = LiveSite(Loader([Folder(tmp_path)]), tmp_path / "live")
    live.refresh()
    versions = {name: live.version(name) for name in live.names}
    changed = six[0].model_copy(update={"details": {"new": {"value": 123454321}}})
    write_bundle([changed, *six[1:]], bundle)
    live.refresh()
    row = {f"runs/{one.id}.html" for one in six if one.group == changed.group}
    assert {name for name in live.names if live.version(name) != versions[name]} == OF_ALL | row
    assert b"123454321" in (live.read(f"runs/{changed.id}.html") or b"")
