"""Data files that nobody means well: each is a corpus, or one line says what is wrong with it."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hostile import NAMES, answer, damaged, mutated, rounds

from uedp_bench.errors import InputError
from uedp_bench.mechanisms.deidentification.mentions import PublicList
from uedp_bench.text.sentences import read_public
from uedp_bench.text.word_vectors import read_embedding

pytestmark = pytest.mark.long

ROWS: list[dict[str, Any]] = [
    {
        "body": f"Ann met Bo, in Rome {n}",
        "who": f"u{n % 7}",
        "topic": "ab"[n % 2],
        "age": "old",
        "part": ("train", "train", "dev", "test")[n % 4],
        "spans": [{"start": 0, "end": 3, "type": "PER"}, {"start": 15, "end": 19, "type": "LOC"}],
    }
    for n in range(12)
]
SETTINGS = [
    "--set",
    "text_column=body",
    "--set",
    "user_column=who",
    "--set",
    "label_column=topic",
    "--set",
    "attribute_columns=[age]",
    "--set",
    "entities_column=spans",
    "--set",
    "split_column=part",
]

CONLL = (
    b"-DOCSTART- O\n\nAnn B-PER\nmet O\nRome I-LOC\n\nBo I-PER\nslept O\n\n-DOCSTART- O\n\nHi O\n"
)


def described(source: str, path: Path, *more: str) -> None:
    answer(["data", "describe", source, "--path", str(path), *more], codes=(0, 2))


def contents(kind: str, folder: Path, rows: Any) -> bytes:
    if kind.startswith("jsonl"):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        return gzip.compress(text.encode()) if kind.endswith("gz") else text.encode()
    import pandas as pd

    frame = pd.DataFrame(rows)
    if kind == "parquet":
        frame.to_parquet(folder / "whole.parquet")
        return (folder / "whole.parquet").read_bytes()
    frame["spans"] = [json.dumps(spans) for spans in frame["spans"]]
    return frame.to_csv(index=False, sep="\t" if kind == "tsv" else ",").encode()


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "jsonl.gz", "parquet"])
def test_damaged_tables(tmp_path, kind):
    whole = contents(kind, tmp_path, ROWS)
    for at, rng in rounds(f"damaged {kind}", part=2):
        file = tmp_path / f"{at}.{kind}"
        file.write_bytes(damaged(whole, rng))
        described("text", file, *SETTINGS)


def test_hostile_values(tmp_path):
    for at, rng in rounds("values of rows"):
        file = tmp_path / f"{at}.jsonl"
        rows = mutated(ROWS, rng)
        lines = [json.dumps(row) for row in rows] if isinstance(rows, list) else [json.dumps(rows)]
        file.write_text("\n".join(lines))
        described("text", file, *SETTINGS)


def test_hostile_annotations_and_records(tmp_path):
    tokens = ["Ann", "met", "Bo"]
    rows = [
        {"who": f"u{n % 3}", "tokens": tokens, "tags": ["B-P", "O", "B-P"], "to": "Anna traf Bo",
         "marks": [{"start": 0, "end": 3, "type": "P"}]}
        for n in range(4)
    ]  # fmt: skip
    facts = [{"user": f"u{n}", "facts": {"spouse": ["Bo"], "born": "1961"}} for n in range(3)]
    for at, rng in rounds("annotations"):
        file, people = tmp_path / f"{at}.jsonl", tmp_path / f"{at}-people.jsonl"
        for path, good in ((file, rows), (people, facts)):
            bad = mutated(good, rng) if rng.random() < 0.7 else good
            lines = bad if isinstance(bad, list) else [bad]
            path.write_text("\n".join(map(json.dumps, lines)))
        settings = ("tokens_column=tokens", "layer_columns=[tags,marks]", "target_column=to",
                    "user_column=who", f"records={people}", "valid=0", "test=0")  # fmt: skip
        described("text", file, *(part for each in settings for part in ("--set", each)))


@pytest.mark.parametrize("name", NAMES)
def test_names_of_strangers_in_every_column(tmp_path, name):
    file = tmp_path / "rows.jsonl"
    rows = [
        {
            **row,
            "topic": name,
            "age": name,
            "who": name + row["who"],
            "spans": [{"start": 0, "end": 1, "type": name}],
        }
        for row in ROWS
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    described("text", file, *SETTINGS)


def test_damaged_columns_of_tags(tmp_path):
    for at, rng in rounds("conll", part=2):
        folder = tmp_path / str(at)
        folder.mkdir()
        for name in ("eng.train", "eng.testa", "eng.testb"):
            (folder / name).write_bytes(damaged(CONLL, rng))
        described("conll2003", folder)
        file = folder / "tokens.conll"
        file.write_bytes(damaged(CONLL, rng))
        described("text", file, "--set", "valid=0", "--set", "test=0")


def test_damaged_word_vectors_and_lists(tmp_path):
    for at, rng in rounds("vectors"):
        file = tmp_path / f"{at}.txt"
        file.write_bytes(damaged(b"the 0.1 0.2 0.3\ncat 1 2 3\nsat -1 0 1e-3\n", rng))
        with suppress(InputError):
            embedding = read_embedding(file, "embedding")
            assert embedding.vectors.shape == (len(embedding.words), embedding.dimension)
        with suppress(InputError):
            assert PublicList.read(file, "public_list").surfaces


def test_damaged_public_text(tmp_path):
    for at, rng in rounds("public"):
        file = tmp_path / f"{at}.txt"
        file.write_bytes(damaged(b"One sentence.\nAnother one.\n = Heading = \n", rng))
        with suppress(InputError):
            assert read_public((file,))
