"""`leaderboard pack`: what it validates, leaves out and writes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from references import REFERENCE

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Result, RunError
from uedp_bench.leaderboard import validate
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.sources import read_lines
from uedp_bench.one_run.private_data import keep_result


@pytest.fixture(autouse=True)
def _checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest results need no process of their own, which takes seconds to start."""
    monkeypatch.setattr(validate, "Guard", lambda check, *_: nullcontext(check))


@pytest.fixture
def stored() -> list[Result]:
    """Results whose validation takes no time."""
    results = load_results([REFERENCE / "translation" / "parallel-embedded"])
    return [one for one in results if one.label == "public-only"][:2]


@pytest.fixture
def runs(stored: list[Result], tmp_path: Path) -> Path:
    for result in stored:
        keep_result(
            result.model_copy(update={"tracking": {"mlflow_run_id": "7"}}), tmp_path / "runs"
        )
    return tmp_path / "runs"


def pack(*arguments: object) -> int:
    return run_cli(["leaderboard", "pack", *map(str, arguments)])


def test_packing_unpacked_results_makes_the_same_bytes(
    runs: Path, stored: list[Result], tmp_path: Path
) -> None:
    first, second = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    assert pack(runs, "--out", first) == 0
    assert load_results([first]) == stored  # without places in MLflow
    for line in read_lines(first):
        folder = tmp_path / "unpacked" / line.id
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(line.text)
    assert pack(first, tmp_path / "unpacked", "--out", second) == 0  # each id once
    assert first.read_bytes() == second.read_bytes()


def test_failed_runs_stay_at_home(
    runs: Path, stored: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = RunError(type="ValueError", message="no rows", phase="train")
    empty = Result(id="f" * 16, group="0" * 16, status="failed", error=error, spec=stored[-1].spec)
    last = stored[-1]
    kept = {name: getattr(last, name) for name in ("id", "group", "provenance")}
    keep_result(empty.model_copy(update=kept), tmp_path / "failed")
    out = tmp_path / "a.jsonl.gz"
    (runs / last.id / "result.json").unlink()
    assert pack(runs, tmp_path / "failed", "--out", out) == 0
    assert [one.id for one in load_results([out])] == [one.id for one in stored[:-1]]
    assert last.id in capsys.readouterr().err


def test_a_result_with_an_error_is_packed_nowhere(
    runs: Path, stored: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = runs / stored[0].id / "result.json"
    data = json.loads(file.read_text())
    data["floors"] = {"unigrams": -1.0}
    file.write_text(json.dumps(data))
    out = tmp_path / "a.jsonl.gz"
    out.write_text("as before")
    assert pack(runs, "--out", out) == 1
    assert out.read_text() == "as before"
    assert stored[0].id in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.json", ".jsonl.gz", "no/folder/a.jsonl.gz"])
def test_bundles_have_names_that_are_found_again(runs: Path, tmp_path: Path, name: str) -> None:
    assert pack(runs, "--out", tmp_path / name) == 2


def test_nothing_to_pack_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    assert pack(tmp_path / "runs", "--out", tmp_path / "a.jsonl.gz") == 2
    assert not (tmp_path / "a.jsonl.gz").exists()


def test_a_published_result_is_shown_by_the_beginning_of_its_id(
    stored: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    one = stored[0]
    assert run_cli(["show", one.id[:12], "--out", str(REFERENCE), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == one.model_dump(mode="json")
    assert run_cli(["show", "0", "--out", str(REFERENCE)]) == 2
    assert "several" in capsys.readouterr().err
    assert run_cli(["show", "zzzz", "--out", str(REFERENCE / "quickstart")]) == 2
    assert "18 runs" in capsys.readouterr().err


def test_the_text_says_what_was_computed_and_no_name_acts_in_it(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = next(runs.iterdir()) / "result.json"
    record = json.loads(one.read_text())
    record["provenance"]["libraries"]["`](x)\n# no"] = "1"
    one.write_text(json.dumps(record))
    text = tmp_path / "pull-request.md"
    assert pack(runs, "--out", tmp_path / "a.jsonl.gz", "--text", text) == 0
    written = text.read_text()
    heads = {line for line in written.splitlines() if line.startswith("#")}
    assert {"## Table", "## Computed with", "## Data", "## Who can compute it again"} <= heads
    assert not any("no" in head.split() for head in heads)
    assert "| public-only |" in written
    assert "parallel-embedded" in written
    assert pack(runs, "--out", tmp_path / "b.jsonl.gz", "--text", tmp_path / "none" / "x.md") == 2
    assert "none/x.md" in capsys.readouterr().err
