"""`uedp-bench leaderboard`: folders, filters and formats."""

from __future__ import annotations

import csv
import io
import json

import pytest
from board_results import plain_spec

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Estimate, Result
from uedp_bench.one_run.private_data import keep_result


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A working directory with two finished runs of different sources in ./runs."""
    monkeypatch.chdir(tmp_path)
    for source in ("embedded", "conll2003"):
        result = Result(
            id=source, group=source, status="finished", spec=plain_spec(source=source),
            utility={"perplexity": Estimate(value=12.5)},
        )  # fmt: skip
        keep_result(result, tmp_path / "runs")
    return tmp_path / "runs"


def test_default_folder_is_runs_then_the_reference_results(runs, capsys):
    assert run_cli(["leaderboard", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    (runs.parent / "leaderboard" / "results").mkdir(parents=True)
    assert run_cli(["leaderboard"]) == 2
    assert "leaderboard/results" in capsys.readouterr().err


def test_table_fits_a_pipe_and_filters(runs, capsys):
    assert run_cli(["leaderboard", "--results", str(runs), "--source", "conll2003"]) == 0
    out = capsys.readouterr().out
    assert "next-word on conll2003" in out
    assert "embedded" not in out
    assert "12.5" in out
    assert run_cli(["leaderboard", "--source", "conl2003"]) == 2
    assert "'conll2003'" in capsys.readouterr().err


def test_the_same_folder_twice_counts_once(runs, capsys):
    assert run_cli(["leaderboard", "--results", str(runs), "--results", str(runs), "--json"]) == 0
    assert [row["n"] for row in json.loads(capsys.readouterr().out)] == [1, 1]


def test_formats_and_files(runs, capsys, tmp_path):
    assert run_cli(["leaderboard", "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["source"] for line in lines] == ["conll2003", "embedded"]
    assert run_cli(["leaderboard", "--markdown", "--out", str(tmp_path / "t.md")]) == 0
    assert "| noiseless | 1 | 12.5 |" in (tmp_path / "t.md").read_text(encoding="utf-8")
    assert run_cli(["leaderboard", "--out", str(tmp_path / "t.txt")]) == 0
    assert "next-word on embedded" in (tmp_path / "t.txt").read_text(encoding="utf-8")
    capsys.readouterr()
    assert run_cli(["leaderboard", "--csv", "--out", str(tmp_path / "no" / "t.csv")]) == 2
    assert "No such file or directory" in capsys.readouterr().err
