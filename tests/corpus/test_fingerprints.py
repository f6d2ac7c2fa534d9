"""Fingerprints stand in the identity of results: what made one once makes the same one for ever."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.attacks._planting import replace_rows
from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus, Spans

CONLL = """-DOCSTART- -X- O O

Ann NNP I-NP I-PER
met VBD I-VP O
Bo NNP I-NP I-PER

Rome NNP I-NP I-LOC
rains VBZ I-VP O

"""


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A file with every column that sources knew when the literals were taken."""
    lines = []
    for i in range(40):
        name = ("Mary", "Bo")[i % 2]
        lines.append(
            {
                "text": f"today {name} came to the house number {i % 7}",
                "who": f"u{i % 10}",
                "spans": [{"start": 6, "end": 6 + len(name), "type": "PER"}],
                "topic": ("home", "away")[i % 3 == 0],
                "age": ("young", "old", None)[i % 10 % 3],
            }
        )
    file = tmp_path / "labelled.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def text(path: Path, **params: object) -> Corpus:
    corpus: Corpus = sources.create(
        "text", {"path": path, "user_column": "who", "label_column": "topic", **params}
    ).load()
    return corpus


def test_of_sources(tmp_path: Path, labelled: Path) -> None:
    sizes = {"users": 50, "valid_users": 5, "test_users": 5, "public_users": 5}
    embedded = sources.create("embedded", sizes).load()
    assert embedded.fingerprint == "5e1436df32eabe10"
    assert embedded.only("train", "public").fingerprint == "04243bc2af893480"
    for name in ("eng.train", "eng.testa", "eng.testb"):
        (tmp_path / name).write_text(CONLL)
    conll = sources.create("conll2003", {"path": tmp_path}).load()
    assert conll.fingerprint == "1349e8c96ba30111"
    (tmp_path / "public.txt").write_text("the sky is blue\nso is the sea\n")
    public = {"public": [str(tmp_path / "public.txt")]}
    assert text(labelled).fingerprint == "51b43853ec1a9913"
    columns = {"entities_column": "spans", "attribute_columns": ["age"]}
    assert text(labelled, **columns, **public).fingerprint == "61f759e47ef6c5a2"


def test_of_gold_labels_beside_a_detector(labelled: Path) -> None:
    corpus = text(labelled, entities_column="spans", detector="names")
    assert len(corpus.entities) == 20  # of the names, one is on the list
    assert corpus.fingerprint == "7356ce68689bb164"
    assert corpus.take(np.arange(7)[::-1]).fingerprint == "3650dae6e5d48b15"
    planted = replace_rows(corpus, np.array([1]), ["old Mary"], [(1, 4, 8, 0)])
    assert planted.fingerprint == "7abc670988bba6a9"


def test_of_columns_that_no_source_fills(labelled: Path) -> None:
    corpus = text(labelled, entities_column="spans")
    corpus = replace(corpus, targets=tuple(f"to {row}" for row in range(len(corpus))))
    assert corpus.fingerprint == "690fcb7a17a39d06"
    shown = replace(corpus, entities=Spans.none(), vectors=np.arange(80.0).reshape(40, 2))
    assert shown.fingerprint == "69cfffda5d37c795"
