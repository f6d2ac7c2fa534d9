"""Rows for other tools: every private row once, with the id by which its text is found again."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from uedp_bench.cli.main import app
from uedp_bench.corpus import SPLITS, Corpus, row_ids
from uedp_bench.corpus.row_ids import write_rows
from uedp_bench.errors import InputError

TEXTS = ('a "quoted",\ntext', "planted", "public", "test ß")


def corpus() -> Corpus:
    split = np.array([SPLITS.index(name) for name in ("train", "held_out", "public", "test")])
    return Corpus(TEXTS, {"user": np.array([0, 1, 2, -1])}, split, origin=np.array([0, -1, 2, 3]))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_private_rows_are_written_with_their_ids(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    assert write_rows(corpus(), file) == 3
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [*csv.DictReader(lines)] if kind == "csv" else [json.loads(x) for x in lines]
    assert [row["text"] for row in rows] == [TEXTS[0], TEXTS[1], TEXTS[3]]
    assert [row["id"] for row in rows] == [row_ids(corpus())[at] for at in (0, 1, 3)]
    assert [row["split"] for row in rows] == ["train", "held_out", "test"]
    assert [int(row["user"]) for row in rows] == [0, 1, -1]


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("mine")
    with pytest.raises(InputError, match=r"--out.*rows\.csv"):
        write_rows(corpus(), file)
    assert file.read_text() == "mine"
    with pytest.raises(InputError, match=r"--out.*rows\.xlsx"):
        write_rows(corpus(), tmp_path / "rows.xlsx")


def test_the_command_writes_the_rows_of_a_source(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    sizes = ("users=50", "valid_users=1", "test_users=2", "public_users=3")
    settings = [part for size in sizes for part in ("--set", size)]
    done = CliRunner().invoke(app, ["data", "export", "embedded", *settings, "--out", str(file)])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["split"] for row in rows} == {"train", "valid", "test"}
    assert [row["id"] for row in rows] == [str(at) for at in range(len(rows))]


def test_the_rows_of_a_spec_have_what_its_attacks_plant(tmp_path: Path) -> None:
    sizes = "{users: 60, valid_users: 1, test_users: 2, public_users: 20}"
    spec = tmp_path / "mine.yaml"
    spec.write_text(
        f"task: next-word\nsource: {{name: embedded, params: {sizes}}}\nmodel: lstm-small\n"
        "mechanisms: [{name: sanitized-elsewhere, params: {path: not-there-yet.csv}}]\n"
        "attacks: [{name: secret-sharer, params: {p_u: [0.2], p_e: [0.5], canaries: 2}}]\n"
    )
    planted = []
    for seed in (1, 2):
        file = tmp_path / f"rows{seed}.csv"
        command = ["data", "export", str(spec), "--seed", str(seed), "--out", str(file)]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        ids = [row["id"] for row in csv.DictReader(file.open(encoding="utf-8"))]
        assert len({*ids}) == len(ids)
        planted.append({name for name in ids if name.startswith("planted-")})
    assert all(planted)
    assert planted[0].isdisjoint(planted[1])
