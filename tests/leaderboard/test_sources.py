"""Bundles of results: the same bytes every time, every digit, and safe to read from anybody."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from board_results import seeds
from references import REFERENCE, bundle_lines, bundle_names, bundle_results

from uedp_bench.contracts.results import Result, parse_result, write_result
from uedp_bench.errors import InputError
from uedp_bench.leaderboard import sources
from uedp_bench.leaderboard.loading import Loader, load_results
from uedp_bench.leaderboard.sources import (
    HEADER,
    MOST_FAULTY,
    MOST_RESULTS,
    Folder,
    line_of,
    write_bundle,
)
from uedp_bench.leaderboard.validate import check, find, without_twins
from uedp_bench.leaderboard.validation.report import Report

START = '{"schema_version":2,"id":"aa",'


@pytest.fixture
def results() -> list[Result]:
    return [*bundle_results("quickstart")]


def packed(path: Path, text: str | bytes) -> Path:
    """A packed file that begins as bundles do."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as lines:
        lines.write(text.encode() if isinstance(text, str) else text)
    return path


# --------------------------------------------------------------------------------------- writing


def test_the_same_results_make_the_same_bytes(results: list[Result], tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.jsonl.gz" for name in "abc")
    write_bundle(results, first)
    write_bundle(reversed(results), second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(HEADER)
    for result in load_results([first]):
        (tmp_path / "runs" / result.id).mkdir(parents=True)
        write_result(result, tmp_path / "runs" / result.id / "result.json")
    write_bundle(load_results([tmp_path / "runs"]), third)
    assert first.read_bytes() == third.read_bytes()


@pytest.mark.parametrize("name", bundle_names())
def test_stored_bundles_are_as_they_are_packed(name: str) -> None:
    lines = bundle_lines(name)
    assert [line.id for line in lines] == sorted({line.id for line in lines})
    for line in lines[::7]:
        assert line_of(parse_result(line.text, line.place)) == line.text


def test_ids_are_unique_over_all_stored_bundles() -> None:
    ids = [line.id for name in bundle_names() for line in bundle_lines(name)]
    assert len(set(ids)) == len(ids) > 1000


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    exact = [0.1 + 0.2, 1e-300, 2.0**53 + 1, 1 / 3, 5e-324, 12345678901234567890]
    result = seeds("uedp", 50.0)[0].model_copy(update={"details": {"audit": {"scores": exact}}})
    write_bundle([result], tmp_path / "one.jsonl.gz")
    (again,) = load_results([tmp_path / "one.jsonl.gz"])
    assert repr(again.details["audit"]["scores"]) == repr(exact)
    assert again == result


def test_metrics_keep_the_order_of_the_run(tmp_path: Path) -> None:
    result = seeds("uedp", 50.0)[0]
    utility = dict.fromkeys(["z", "a", "perplexity"], result.utility["perplexity"])
    write_bundle([result.model_copy(update={"utility": utility})], tmp_path / "one.jsonl.gz")
    assert list(load_results([tmp_path / "one"])[0].utility) == ["z", "a", "perplexity"]


# --------------------------------------------------------------------------------------- reading


def test_a_bundle_is_read_by_name_or_below_a_folder(results: list[Result], tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write_bundle(results, tmp_path / "deep" / "mine.jsonl.gz")
    for place in (tmp_path, tmp_path / "deep" / "mine", tmp_path / "deep" / "mine.jsonl.gz"):
        assert load_results([place]) == results
    with pytest.raises(InputError, match=r"none\.jsonl\.gz"):
        load_results([tmp_path / "none.jsonl.gz"])
    assert Loader([Folder(tmp_path / "none.jsonl.gz", may_come=True)]).load().results == []


def bomb(path: Path) -> None:
    packed(path, START.encode() + b" " * 2**26)


def cut_short(path: Path) -> None:
    write_bundle(load_results([REFERENCE / "quickstart"])[:2], path)
    path.write_bytes(path.read_bytes()[:-9])


BROKEN: dict[str, Callable[[Path], object]] = {
    "a bomb": bomb,
    "a bomb of lines": lambda path: packed(path, f"{START}\n" * 2**21),
    "cut short": cut_short,
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a ring of links": lambda path: path.symlink_to(path.name),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "nothing": lambda path: packed(path, ""),
    "an empty line": lambda path: packed(path, "\n"),
    "a table of data": lambda path: packed(path, '{"id":"aa","text":"Ann is ill"}\n' * 1000),
    "another program": lambda path: path.write_bytes(b"\xfd7zXZ\x00" + bytes(20)),
    "no text": lambda path: packed(path, b"\xff\xfe\n"),
    "nested": lambda path: packed(path, START + '"group":' + "[" * 10**5),
    "a name twice": lambda path: packed(path, START + '"id":"bb"}\n'),
    "half a character": lambda path: packed(path, START + '"group":"\\ud83d"}\n'),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_bundle_is_named_and_the_others_are_read(
    kind: str, results: list[Result], tmp_path: Path
) -> None:
    path = tmp_path / "broken.jsonl.gz"
    BROKEN[kind](path)
    write_bundle(results[:2], tmp_path / "whole.jsonl.gz")
    loaded = Loader([Folder(tmp_path)]).load()
    assert {one.id for one in results[:2]} <= set(loaded.copies)
    if kind == "a folder":  # as any other
        return
    assert 1 <= len(loaded.problems) <= MOST_FAULTY + 1
    assert all("broken.jsonl.gz" in problem for problem in loaded.problems)
    lines = list(find([path]))
    assert len(lines) <= 2 * MOST_RESULTS + 1  # a report on the order of two lines beside each
    few = (*lines[:30], lines[-1])
    reports = [file if isinstance(file, Report) else check(file) for file in few]
    assert not all(report.valid for report in reports)


def test_a_bundle_of_more_than_memory_holds_is_refused_by_its_limit(
    results: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.jsonl.gz"
    write_bundle(results[:3], path)
    size = sum(len(line_of(result)) + 1 for result in results[:3])
    for limit, most in (("MOST_RESULTS", 3), ("MOST_CHARACTERS", size)):
        with monkeypatch.context() as limits:
            limits.setattr(sources, limit, most)
            assert len(Loader([Folder(path)]).load().copies) == 3
            limits.setattr(sources, limit, most - 1)
            (problem,) = Loader([Folder(path)]).load().problems
            *_, last = find([path])
            with pytest.raises(InputError, match=f"{most - 1:,}"):
                write_bundle(results[:3], tmp_path / "packed.jsonl.gz")
            assert not (tmp_path / "packed.jsonl.gz").exists()
        assert f"{most - 1:,}" in problem
        assert isinstance(last, Report)
        assert f"{most - 1:,}" in last.problems[0].what


def test_a_line_that_is_no_result_is_named_with_its_id(
    results: list[Result], tmp_path: Path
) -> None:
    first, second = (line_of(result) for result in results[:2])
    spoilt = second.replace('"status":"finished"', '"status":"fine"')
    packed(tmp_path / "x.jsonl.gz", f"{first}\n{spoilt}\n")
    (problem,) = Loader([Folder(tmp_path)]).load().problems
    assert problem.startswith(f"line 2 ({results[1].id}) of {tmp_path}")
    assert "status" in problem
    forged = second.replace(results[1].id, "f" * 16, 1)
    packed(tmp_path / "x.jsonl.gz", f"{first}\n{forged}\n")
    (problem,) = Loader([Folder(tmp_path)]).load().problems
    assert "provenance.identity" in problem


def test_one_id_with_other_numbers_in_two_bundles_is_refused(tmp_path: Path) -> None:
    one = seeds("uedp", 50.0, exposure=1.0)[0]
    write_bundle([one], tmp_path / "a.jsonl.gz")
    write_bundle([one], tmp_path / "b.jsonl.gz")
    assert load_results([tmp_path]) == [one]
    other = seeds("uedp", 50.0, exposure=2.0)[0]  # another leakage, and the same utility
    write_bundle([other], tmp_path / "b.jsonl.gz")
    with pytest.raises(InputError, match=r"uedp-.*exposure_max_repeats is [12]\.01"):
        load_results([tmp_path])
    reports = [check(line).model_copy(update={"id": one.id}) for line in find([tmp_path])]
    assert without_twins(reports)[1].errors[0].where == "id"


# -------------------------------------------------------------------------------------- validating


def errors(path: Path) -> list[str]:
    reports = [file if isinstance(file, Report) else check(file) for file in find([path])]
    return [problem.what for report in reports for problem in report.errors]


def test_validation_asks_for_the_form_that_is_packed(results: list[Result], tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    lines = [line_of(result) for result in results[:3]]
    whole = "".join(f"{line}\n" for line in lines)
    assert errors(packed(path, whole)) == []
    (dated,) = errors_after(path, gzip.compress(whole.encode(), mtime=7))
    assert "begin" in dated
    (plain,) = errors_after(path, whole.encode())
    assert "begin" in plain
    (order,) = errors(packed(path, "".join(f"{line}\n" for line in reversed(lines[:2]))))
    assert "after" in order
    assert any("after" in what for what in errors(packed(path, f"{lines[0]}\n" * 2)))
    text = lines[0][:-1] + " }"
    (form,) = errors(packed(path, f"{text}\n"))
    assert "packed" in form


def errors_after(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    return errors(path)
