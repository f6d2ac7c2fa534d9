"""Public numbers: uniform, of one name alone, and others for every use."""

from __future__ import annotations

import csv
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from uedp_bench.cli.main import app
from uedp_bench.corpus import (
    SPLITS,
    Corpus,
    concatenate,
    keyed_uniform,
    named_users,
    names_of_ids,
    owner_numbers,
    row_ids,
    row_names,
    row_numbers,
    user_numbers,
    with_documents,
    with_lone_rows,
    with_names,
)
from uedp_bench.corpus.stable_names import write_rows
from uedp_bench.errors import InputError

NAMES = names_of_ids("user", range(20_000)).array
ids = st.lists(st.text(max_size=6), min_size=1, max_size=20)


def corpus_of(texts: list[str], users: list[int] | None = None) -> Corpus:
    rows = len(texts)
    group = np.arange(rows) if users is None else np.array(users)
    return Corpus(tuple(texts), {"user": group}, np.zeros(rows, dtype=np.int64))


def test_numbers_are_uniform() -> None:
    numbers = np.sort(keyed_uniform(NAMES, 0, "split"))
    assert 0.0 <= numbers[0] < numbers[-1] < 1.0
    assert len(np.unique(numbers)) == len(numbers)
    steps = np.arange(len(numbers)) / len(numbers)
    # Kolmogorov-Smirnov at 1e-6: 2.69 / sqrt(n).
    assert np.abs(numbers - steps).max() < 2.69 / len(numbers) ** 0.5


@pytest.mark.parametrize(
    "other", [(1, "split"), (0, "client"), (0, "split", 1), (0,), (0, "spli", "t")]
)
def test_numbers_of_other_uses_are_independent(other: tuple[int | str, ...]) -> None:
    one = keyed_uniform(NAMES, 0, "split")
    two = keyed_uniform(NAMES, int(other[0]), *other[1:])
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / len(NAMES) ** 0.5
    both = ((one < 0.1) & (two < 0.1)).mean()
    assert both == pytest.approx(0.01, abs=5 * 0.1 / len(NAMES) ** 0.5)


def test_a_seed_is_not_mistaken_for_a_use() -> None:
    assert (keyed_uniform(NAMES[:9], 1, "2") != keyed_uniform(NAMES[:9], 1, 2)).all()


@given(ids, st.data())
def test_a_number_depends_on_no_other_name(names: list[str], data: st.DataObject) -> None:
    array = names_of_ids("row", names).array
    kept = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1))
    whole = keyed_uniform(array, 3, "use")
    assert np.array_equal(keyed_uniform(array[kept], 3, "use"), whole[kept])


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=12), st.data())
def test_rows_of_equal_content_are_named_by_their_occurrence(
    texts: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, len(texts) - 1))
    fewer = [text for at, text in enumerate(texts) if at != gone]
    before, after = (
        sorted(row_names(corpus_of(some, [0] * len(some))).array.tolist())
        for some in (texts, fewer)
    )
    assert len({*map(tuple, before)}) == len(texts)
    assert len(before) - len(after) == 1
    assert {*map(tuple, after)} < {*map(tuple, before)}


def test_rows_that_differ_anywhere_do_not_count_for_each_other() -> None:
    corpus = Corpus(
        ("same",) * 3, {"user": np.array([0, 0, 0])}, np.array([0, 0, 2]),
        labels=np.array([0, 1, 1]), label_names=("x", "y"),
    )  # fmt: skip
    names = row_names(corpus).array
    for row in range(3):
        assert np.array_equal(row_names(corpus.take(np.array([row]))).array[0], names[row])
    # A class that appears, or that nobody has any more, renames nobody.
    fewer = replace(corpus, labels=np.array([1, 2, 2]), label_names=("w", "x", "y"))
    assert np.array_equal(row_names(fewer).array, names)


def test_names_stay_whatever_is_done_to_the_rows() -> None:
    corpus = with_names(corpus_of(["a", "b", "b", "c"], [0, 0, 1, 1]))
    numbers = row_numbers(corpus, 0, "x")
    kept = np.array([3, 1])
    assert np.array_equal(row_numbers(corpus.take(kept), 0, "x"), numbers[kept])
    written = replace(corpus.with_texts(["", "", "", ""]), origin=np.full(4, -1))
    assert np.array_equal(row_numbers(written, 0, "x"), numbers)
    sent = pickle.loads(pickle.dumps(corpus))  # noqa: S301 - of this test
    assert np.array_equal(row_numbers(sent, 0, "x"), numbers)
    both = concatenate(corpus, corpus)
    assert np.array_equal(row_numbers(both, 0, "x"), np.tile(numbers, 2))
    assert np.array_equal(user_numbers(both, 0, "x"), user_numbers(corpus, 0, "x"))


def test_a_row_without_a_user_has_a_number_of_its_own() -> None:
    corpus = corpus_of(["a", "b", "c"], [-1, 0, 0])
    numbers = owner_numbers(corpus, 0, "x")
    assert numbers[1] == numbers[2] == user_numbers(corpus, 0, "x")[0]
    alone = owner_numbers(corpus.take(np.array([0])), 0, "x")
    assert alone[0] == numbers[0] != numbers[1]


def test_no_text_with_nul_passes_for_another_row() -> None:
    pairs = [("a\0b", ""), ("a", "b\0"), ("a\1\2b", ""), ("a\1b", "\0")]
    corpus = replace(corpus_of([text for text, _ in pairs]), targets=tuple(to for _, to in pairs))
    names = row_names(replace(corpus, groups={"user": np.full(len(pairs), -1)})).array
    first_gone = corpus.take(np.arange(1, len(pairs)))
    assert len(np.unique(names, axis=0)) == len(pairs)
    assert np.array_equal(
        row_names(replace(first_gone, groups={"user": np.full(3, -1)})).array, names[1:]
    )


def test_users_of_one_normal_form_are_one() -> None:
    numbers, names = named_users(["7", "Jose\u0301", "7.0", None, "Jos\u00e9", "007"])
    assert numbers.tolist() == [0, 1, 0, -1, 1, 2]
    assert len(names.array) == 3


def test_lone_rows_and_documents_are_named_by_what_they_say() -> None:
    lone = with_lone_rows(corpus_of(["a", "b", "b"]))
    assert np.array_equal(user_numbers(lone, 0, "x"), owner_numbers(lone, 0, "x"))
    documents = with_documents(corpus_of(["a", "b", "c", "c"], [0, 0, 1, 2]))
    names = documents.user_names.array
    assert len(np.unique(names, axis=0)) == 3
    fewer = with_documents(corpus_of(["c", "c"], [0, 1]))
    assert np.array_equal(fewer.user_names.array, names[1:])
    rows = with_documents(corpus_of(["a", "c", "c"], [0, 1, 2]))
    kept = row_names(documents).array[[0, 2, 3]]
    assert np.array_equal(row_names(rows).array, kept)  # whatever became of their documents


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
