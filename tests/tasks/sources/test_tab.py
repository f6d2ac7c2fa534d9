from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError

TEXT = (
    "PROCEDURE\n\n  Mrs Anna Lind, a Swede, came on 4 May 1999.\n\n"
    "The Kingdom of Sweden (SEKx)paid."
)


def mention(surface: str, kind: str, of: str = "QUASI", text: str = TEXT) -> dict[str, Any]:
    start = text.index(surface)
    return {"start_offset": start, "end_offset": start + len(surface), "entity_type": kind,
            "identifier_type": of, "span_text": surface}  # fmt: skip


MENTIONS = [
    mention("Mrs Anna Lind", "PERSON", "DIRECT"),
    mention("Swede", "DEM"),
    mention("Sweden", "LOC"),  # inside of the next
    mention("Kingdom of Sweden", "ORG", "NO_MASK"),
    mention("4 May 1999", "DATETIME"),
    mention("(SEK", "QUANTITY"),  # cuts the word SEKx
]


def case(split: str = "train", **meta: Any) -> dict[str, Any]:
    metadata = {"applicant": "Anna Lind", "year": 1999, "countries": "SWE", **meta}
    return {"text": TEXT, "entities": MENTIONS,
            "metadata": {"provenance": {"dataset_type": split, **metadata}}}  # fmt: skip


def load(path: Path, **params: object) -> Corpus:
    return sources.create("tab", {"path": path, **params}).load()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [json.dumps(case(split)) for split in ("train", "dev", "test")]
    path = tmp_path / "tab_cases.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def spans_of(corpus: Corpus, name: str, user: int = 0) -> list[tuple[str, str]]:
    layer = corpus.layer(name)
    return [
        (corpus.texts[row][start:end], layer.types[kind])
        for row, start, end, kind in layer.spans.mentions()
        if corpus.users[row] == user
    ]


def test_paragraphs_cases_and_layers(file: Path) -> None:
    corpus = load(file)
    assert corpus.texts[:3] == ("PROCEDURE", "Mrs Anna Lind, a Swede, came on 4 May 1999.",
                                "The Kingdom of Sweden (SEKx)paid.")  # fmt: skip
    assert corpus.users.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert [int(corpus.where(name).sum()) for name in ("train", "valid", "test")] == [3, 3, 3]
    gold = [("Mrs Anna Lind", "PERSON"), ("Swede", "DEM"), ("4 May 1999", "DATETIME"),
            ("Kingdom of Sweden", "ORG"), ("(SEKx", "QUANTITY")]  # fmt: skip
    assert spans_of(corpus, "gold") == gold
    assert spans_of(corpus, "identifier")[::3] == [("Mrs Anna Lind", "DIRECT"),
                                                   ("Kingdom of Sweden", "NO_MASK")]  # fmt: skip
    # What tells nobody who it is does not count as an entity.
    assert len(corpus.entities) == 3 * (len(gold) - 1)


def test_the_register_annotates(file: Path) -> None:
    corpus = load(file.parent)
    assert corpus.records is not None
    assert corpus.records[0] == {"applicant": ("Anna Lind",), "year": ("1999",),
                                 "country": ("Sweden",)}  # fmt: skip
    assert spans_of(corpus, "automatic") == [
        ("Mrs Anna Lind", "PERSON"),
        ("Swede", "LOC"),  # close to the country
        ("4 May 1999", "DATETIME"),
        ("Sweden", "LOC"),
    ]
    assert set(load(file, annotate=None).layers) == {"gold", "identifier"}


def test_the_benchmarks_own_files(tmp_path: Path) -> None:
    whole = {
        "text": TEXT,
        "annotations": {"annotator2": {"entity_mentions": []},
                        "annotator1": {"entity_mentions": MENTIONS[:1]}},
        "meta": {"applicant": "Anna Lind", "year": 1999, "countries": "SWE,XXX"},
    }  # fmt: skip
    for split in ("train", "dev", "test"):
        (tmp_path / f"echr_{split}.json").write_text(json.dumps([{**whole, "dataset_type": split}]))
    corpus = load(tmp_path)
    assert [int(corpus.where(name).sum()) for name in ("train", "valid", "test")] == [3, 3, 3]
    assert spans_of(corpus, "gold", 2) == [("Mrs Anna Lind", "PERSON")]
    assert corpus.records is not None
    assert corpus.records[1]["country"] == ("Sweden",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"tab\.path.*x\.jsonl.*JSON"),
        ("", r"tab\.path.*list of cases"),
        (json.dumps({"text": "a"}), r"x\.jsonl, case 1.*KeyError\('entities'\)"),
        (json.dumps(case("trian")), "case 1: 'trian'"),
        (json.dumps({**case(), "text": "short"}), r"\(13, 26\).*'PERSON'"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(line)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "x.jsonl")


def test_the_copy_of_144_cases(shared_data: Path) -> None:
    corpus = load(shared_data / "tab_echr")
    assert (corpus.user_count, len(corpus.layer("gold").spans)) == (144, 6_601)  # 12 overlap others
    # Precise where it speaks of people, and most of the people are not the applicant.
    gold, automatic = (set(corpus.layer(name).spans.mentions()) for name in ("gold", "automatic"))
    kinds = corpus.layer("automatic").types
    persons = {mark[:3] for mark in automatic if kinds[mark[3]] == "PERSON"}
    true = {mark[:3] for mark in gold if corpus.layer("gold").types[mark[3]] == "PERSON"}
    assert len(persons & true) / len(persons) > 0.95
    assert 0.3 < len(persons & true) / len(true) < 0.5
