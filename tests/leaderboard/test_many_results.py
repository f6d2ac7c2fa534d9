"""Many results: an index of what was read, pages that are made once, and the same site as ever."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.errors import InputError
from uedp_bench.leaderboard import folder_index, former_pages, sources
from uedp_bench.leaderboard import site as sites
from uedp_bench.leaderboard.folder_index import FolderIndex
from uedp_bench.leaderboard.loading import Loaded, Loader, load_results
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.serve import LiveSite
from uedp_bench.leaderboard.short_results import as_text, of_text, short
from uedp_bench.leaderboard.site import build
from uedp_bench.leaderboard.sources import Folder
from uedp_bench.results import Cost, read_result, write_result

STORED = Path(__file__).parents[2] / "leaderboard" / "results"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six results, in a folder that is large enough for an index."""
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    for module in (sources, former_pages):
        monkeypatch.setattr(module, "LEAST", 2)
    folder = tmp_path / "runs"
    for result in load_results([STORED / "quickstart"]):
        if result.label in ("user-dp", "uedp"):
            (folder / result.id).mkdir(parents=True)
            write_result(result, folder / result.id / "result.json")
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Files that are read, by the id of their result."""
    files: list[str] = []
    original = sources.stored_result
    monkeypatch.setattr(
        sources, "stored_result", lambda path: files.append(path.parent.name) or original(path)
    )
    yield files


def load(runs: Path) -> Loaded:
    return Loader([Folder(runs)], short=True).load()


def made_again(file: Path, **changes: Any) -> None:
    write_result(read_result(file).model_copy(update=changes), file)


def test_files_are_read_once(runs: Path, read: list[str]) -> None:
    before = {path for path in runs.rglob("*") if path.is_file()}
    first = load(runs)
    assert len(read) == 6
    assert {path for path in runs.rglob("*") if path.is_file()} == before  # nothing beside them
    read.clear()
    again = load(runs)
    assert (read, again.results) == ([], first.results)
    one, other, *_ = sorted(before)
    made_again(one, utility={})
    shutil.rmtree(other.parent)
    changed = load(runs)
    assert read == [one.parent.name]
    assert changed.copies[one.parent.name].result.utility == {}
    assert other.parent.name not in changed.copies
    with sqlite3.connect(FolderIndex(runs, "results").path) as index:
        (kept,) = index.execute("SELECT count(*) FROM files").fetchone()
    assert kept == 5


@pytest.mark.parametrize("how", ["missing", "damaged", "cut", "of other code", "no folder"])
def test_an_index_that_cannot_be_used_is_made_again(
    runs: Path, read: list[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    first = load(runs).results
    path = FolderIndex(runs, "results").path
    if how == "missing":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(b"no database" * 1000)
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "of other code":
        monkeypatch.setattr(folder_index, "package_digest", lambda: "other")
    else:
        shutil.rmtree(path.parent)
        path.parent.write_text("a file")
    read.clear()
    assert load(runs).results == first
    assert len(read) == 6
    read.clear()
    assert load(runs).results == first
    assert len(read) == (6 if how == "no folder" else 0)


def test_another_process_that_writes_an_index_stops_nobody(
    runs: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_index, "_PATIENCE_SECONDS", 0.01)
    first = load(runs).results
    path = FolderIndex(runs, "results").path
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM files")  # and does not commit
        assert load(runs).results == first
        other.rollback()
    read.clear()
    assert load(runs).results == first
    assert read == []  # it was not thrown away


def test_files_that_are_no_results_are_refused_with_an_index_too(
    runs: Path, read: list[str]
) -> None:
    first, *_ = sorted(runs.iterdir())
    load(runs)
    (first / "result.json").write_text('{"id": NaN}')
    for _ in range(2):  # it is not in the index, and read every time
        loaded = load(runs)
        assert len(loaded.copies) == 5
        assert len(loaded.problems) == 1
        assert str(first) in loaded.problems[0]


def test_tables_show_the_same_of_short_results() -> None:
    folders = ("quickstart", "audits")
    whole = load_results([STORED / name for name in folders if (STORED / name).is_dir()])
    assert len(whole) > 30
    brief = [short(result) for result in whole]
    rows = [row.model_dump_json() for row in aggregate(whole)]
    assert [row.model_dump_json() for row in aggregate(brief)] == rows
    kept = [of_text(as_text(result)) for result in brief]
    assert kept == brief
    size = sum(len(result.model_dump_json()) for result in whole)
    assert sum(len(as_text(result)) for result in brief) < size / 2


def test_the_site_is_the_same_and_pages_are_made_once(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[str] = []
    original = sites._run
    monkeypatch.setattr(
        sites, "_run", lambda result, *rest: rendered.append(result.id) or original(result, *rest)
    )

    def built(out: str) -> sites.Built:
        rendered.clear()
        loaded = load(runs)
        return build(loaded.results, tmp_path / out, copies=loaded.copies)

    def contents(out: str) -> dict[str, bytes]:
        files = (path for path in (tmp_path / out).rglob("*") if path.is_file())
        return {str(path.relative_to(tmp_path / out)): path.read_bytes() for path in files}

    first = built("site")
    build(load_results([runs]), tmp_path / "whole")
    assert contents("site") == contents("whole")
    assert built("site").written == ()
    assert rendered == []

    page = next(tmp_path / "site" / name for name in first.files if name.startswith("runs/"))
    page.write_text("somebody's")
    assert built("site").written == (f"runs/{page.name}",)

    group = json.loads((runs / page.stem / "result.json").read_text())["group"]
    row = {result.id for result in load_results([runs]) if result.group == group}
    made_again(runs / page.stem / "result.json", details={"new": {"value": 1}})
    assert built("site").written == (f"runs/{page.name}",)  # no table shows details
    made_again(runs / page.stem / "result.json", cost=Cost(train_seconds=77.0))
    built("site")
    assert {*rendered} == row  # all seeds of a row say what the row is
    assert contents("site") != contents("whole")


def test_a_live_site_reads_the_rest_of_a_result_when_its_page_is_made(
    runs: Path, tmp_path: Path, read: list[str]
) -> None:
    live = LiveSite(Loader([Folder(runs)], short=True), tmp_path / "live")
    live.refresh()
    versions = {name: live.version(name) for name in live._site.versions}
    read.clear()
    first = sorted(runs.iterdir())[0]
    made_again(first / "result.json", details={"new": {"value": 123454321}})
    live.refresh()
    assert {*read} == {first.name}
    after = live._site.versions
    assert {name for name in after if after[name] != versions[name]} == {f"runs/{first.name}.html"}
    assert "123454321" in (tmp_path / "live" / "runs" / f"{first.name}.html").read_text()


def test_a_result_that_changes_under_the_builder_is_said(runs: Path, tmp_path: Path) -> None:
    loaded = load(runs)
    first = sorted(runs.iterdir())[0]
    made_again(first / "result.json", utility={})
    with pytest.raises(InputError, match="has changed since it was read"):
        partial(build, copies=loaded.copies)(loaded.results, tmp_path / "site")
