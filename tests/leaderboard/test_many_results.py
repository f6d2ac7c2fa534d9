"""Many results: an index of what was read, pages that are made once, and the same site as ever."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.errors import InputError
from uedp_bench.leaderboard import folder_index, former_files, site_files, sources
from uedp_bench.leaderboard.folder_index import FolderIndex
from uedp_bench.leaderboard.loading import Loaded, Loader, load_results
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.serve import LiveSite
from uedp_bench.leaderboard.short_results import as_text, of_text, short
from uedp_bench.leaderboard.site import Built, build
from uedp_bench.leaderboard.sources import Folder
from uedp_bench.results import Cost, read_result, write_result

STORED = Path(__file__).parents[2] / "leaderboard" / "results"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six results, in a folder that is large enough for an index."""
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    for module in (sources, former_files):
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


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
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
        lambda *given: {name: counted(name, make) for name, make in of_all(*given).items()},
    )
    yield pages


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


OF_ALL = {"index.html", "table.html", "glossary.html", "results.json", "results.csv"}


def contents(site: Path) -> dict[str, bytes]:
    files = (path for path in site.rglob("*") if path.is_file())
    return {str(path.relative_to(site)): path.read_bytes() for path in files}


def test_the_site_is_the_same_and_pages_are_made_once(
    runs: Path, tmp_path: Path, made: list[str]
) -> None:
    def built(out: str) -> Built:
        made.clear()
        loaded = load(runs)
        return build(loaded.results, tmp_path / out, copies=loaded.copies)

    first = built("site")
    build(load_results([runs]), tmp_path / "whole")
    assert contents(tmp_path / "site") == contents(tmp_path / "whole")
    assert built("site").written == ()
    assert made == []
    shutil.copytree(tmp_path / "site", tmp_path / "moved")
    shutil.rmtree(tmp_path / "site")
    shutil.copytree(tmp_path / "moved", tmp_path / "site")
    assert built("site").written == ()  # other files of the same content
    assert made == []
    assert built("site") == replace(first, written=(), removed=())

    page = next(tmp_path / "site" / name for name in first.files if name.startswith("runs/"))
    page.write_text("somebody's")
    assert built("site").written == (f"runs/{page.name}",)
    assert made == [page.stem]

    group = json.loads((runs / page.stem / "result.json").read_text())["group"]
    row = {result.id for result in load_results([runs]) if result.group == group}
    made_again(runs / page.stem / "result.json", details={"new": {"value": 1}})
    assert built("site").written == (f"runs/{page.name}",)  # no table shows details
    made_again(runs / page.stem / "result.json", cost=Cost(train_seconds=77.0))
    built("site")
    assert {*made} == row | OF_ALL  # all seeds of a row say what the row is
    assert contents(tmp_path / "site") != contents(tmp_path / "whole")


def test_a_build_that_was_cut_short_is_not_taken_for_the_one_before(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built() -> Built:
        loaded = load(runs)
        return build(loaded.results, tmp_path / "site", copies=loaded.copies)

    built()
    before = contents(tmp_path / "site")
    first = sorted(runs.iterdir())[0] / "result.json"
    old = first.stat()
    shutil.copy2(first, tmp_path / "kept")
    made_again(first, cost=Cost(train_seconds=77.0))
    with monkeypatch.context() as patch:
        patch.setattr(site_files, "_front", lambda *_: 1 / 0)  # the last file
        with pytest.raises(ZeroDivisionError):
            built()
    # Back comes the very file of before: same time, same size, same content.
    with first.open("rb+") as file:
        file.truncate()
        file.write((tmp_path / "kept").read_bytes())
    os.utime(first, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert contents(tmp_path / "site") != before
    built()
    assert contents(tmp_path / "site") == before


def test_a_live_site_makes_a_file_when_it_is_asked_for(
    runs: Path, tmp_path: Path, read: list[str], made: list[str]
) -> None:
    live = LiveSite(Loader([Folder(runs)], short=True), tmp_path / "live")
    live.refresh()
    assert len([name for name in live.names if name.startswith("runs/")]) == 6
    assert (made, list((tmp_path / "live").rglob("*.html"))) == ([], [])
    assert live.read("index.html") == live.read("index.html")
    assert made == ["index.html"]
    first, other, *_ = sorted(runs.iterdir())
    read.clear()
    made.clear()
    for _ in range(2):
        assert live.read(f"runs/{first.name}.html")
    assert (made, read) == ([first.name], [first.name])

    versions = {name: live.version(name) for name in live.names}
    made_again(first / "result.json", details={"new": {"value": 123454321}})
    made.clear()
    read.clear()
    live.refresh()
    assert (made, read) == ([], [first.name])
    group = json.loads((first / "result.json").read_text())["group"]
    row = {one.id for one in load_results([runs]) if one.group == group}
    after = {name for name in live.names if live.version(name) != versions[name]}
    assert after == OF_ALL | {f"runs/{name}.html" for name in row}
    assert b"123454321" in (live.read(f"runs/{first.name}.html") or b"")
    assert made == [first.name]
    shutil.rmtree(first)
    live.refresh()
    assert live.read(f"runs/{first.name}.html") is None
    assert not (tmp_path / "live" / "runs" / f"{first.name}.html").exists()
    assert live.read(f"runs/{other.name}.html")
    assert made[1:] == [other.name]


def test_a_page_of_a_result_that_has_just_changed_waits_until_it_is_read_again(
    runs: Path, tmp_path: Path
) -> None:
    live = LiveSite(Loader([Folder(runs)], short=True), tmp_path / "live")
    live.refresh()
    first = sorted(runs.iterdir())[0]
    made_again(first / "result.json", details={"new": {"value": 123454321}})
    with pytest.raises(InputError, match="has changed since it was read"):
        live.read(f"runs/{first.name}.html")
    live.refresh()
    assert b"123454321" in (live.read(f"runs/{first.name}.html") or b"")


def test_a_result_that_changes_under_the_builder_is_said(runs: Path, tmp_path: Path) -> None:
    loaded = load(runs)
    first = sorted(runs.iterdir())[0]
    made_again(first / "result.json", utility={})
    with pytest.raises(InputError, match="has changed since it was read"):
        partial(build, copies=loaded.copies)(loaded.results, tmp_path / "site")
