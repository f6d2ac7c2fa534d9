"""Ids of rows: the same in every part of a corpus, and never shared with a planted row."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from uedp_bench.cli.main import app
from uedp_bench.corpus import SPLITS, Corpus, concatenate, row_ids
from uedp_bench.corpus.row_ids import write_rows
from uedp_bench.errors import InputError

TRAIN, HELD_OUT = SPLITS.index("train"), SPLITS.index("held_out")


def corpus(**columns: Any) -> Corpus:
    split = np.array([TRAIN, TRAIN, HELD_OUT, TRAIN, TRAIN])
    texts = ("one", "a secret", "a secret", "a secret", "five")
    origin = np.array([0, -1, -1, -1, 4])
    return Corpus(texts, {"user": np.array([0, 1, 2, 1, 3])}, split, origin=origin, **columns)


def test_rows_have_their_number_or_what_the_source_calls_them() -> None:
    numbered, named = row_ids(corpus()), row_ids(corpus(ids=("a", "b", "c", "d", "e")))
    assert (numbered[0], numbered[4]) == ("0", "4")
    assert (named[0], named[4]) == ("a", "e")
    # A planted row says something else than the row that it replaced: it is not called "b".
    assert numbered[1:4] == named[1:4]
    assert all(name.startswith("planted-") for name in named[1:4])
    assert len({*named}) == 5


def test_ids_are_the_same_in_a_part_of_the_corpus() -> None:
    whole = corpus()
    kept = np.flatnonzero(whole.where("train"))
    assert row_ids(whole.only("train")) == [row_ids(whole)[row] for row in kept]


def test_another_text_or_user_has_another_id() -> None:
    first = row_ids(corpus())
    assert first[1] != first[2]  # of another user
    assert first[3] == f"{first[1]}-1"  # the same user said it twice


def test_ids_follow_rows_and_enter_fingerprints() -> None:
    named = corpus(ids=("a", "b", "c", "d", "e"))
    assert named.take(np.array([4, 0])).ids == ("e", "a")
    assert concatenate(named, named).ids == (*"abcde", *"abcde")
    assert concatenate(named, corpus()).ids is None
    # Public choices are keyed by them: other ids are another run.
    assert named.fingerprint != corpus().fingerprint


TEXTS = ('a "quoted",\ntext', "planted", "public", "test ß")


def planted_corpus() -> Corpus:
    split = np.array([SPLITS.index(name) for name in ("train", "held_out", "public", "test")])
    return Corpus(TEXTS, {"user": np.array([0, 1, 2, -1])}, split, origin=np.array([0, -1, 2, 3]))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_private_rows_are_written_with_their_ids(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    assert write_rows(planted_corpus(), file) == 3
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [*csv.DictReader(lines)] if kind == "csv" else [json.loads(x) for x in lines]
    assert [row["text"] for row in rows] == [TEXTS[0], TEXTS[1], TEXTS[3]]
    assert [row["id"] for row in rows] == [row_ids(planted_corpus())[at] for at in (0, 1, 3)]
    assert [row["split"] for row in rows] == ["train", "held_out", "test"]
    assert [int(row["user"]) for row in rows] == [0, 1, -1]


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("mine")
    with pytest.raises(InputError, match=r"--out.*rows\.csv"):
        write_rows(planted_corpus(), file)
    assert file.read_text() == "mine"
    with pytest.raises(InputError, match=r"--out.*rows\.xlsx"):
        write_rows(planted_corpus(), tmp_path / "rows.xlsx")


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
