from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError
from uedp_bench.tasks.tagging.targets import WordTable, annotation_of, label_names, word_labels
from uedp_bench.text.describe_data import describe

DOC = "-DOCSTART- -X- O O\n\n"
TRAIN = (
    DOC
    + "Anna NNP I-NP I-PER\nLind NNP I-NP I-PER\nleft VBD I-VP O\nBonn NNP I-NP I-LOC\n. . O O\n\n"
    "ANNA NNP I-NP I-PER\nLIND NNP I-NP I-PER\n\n"
    # IOB1: B- starts a second place beside the first; ORG after LOC starts without it.
     + DOC + "Bonn NNP I-NP I-LOC\nRiga NNP I-NP B-LOC\nFC NNP I-NP I-ORG\n\n" + "so RB O O\n"
)
VALID = DOC + "Riga NNP I-NP I-LOC\n\n"
TEST = DOC + "Oslo NNP I-NP I-LOC\n\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "eng.train").write_text(TRAIN)
    (tmp_path / "eng.testa.gz").write_bytes(gzip.compress(VALID.encode()))
    (tmp_path / "eng.testb").write_text(TEST)
    return tmp_path


def load(folder: Path, **params: object):
    return sources.create("conll2003", {"path": folder, **params}).load()


def test_rows_users_and_spans_of_a_small_file(folder: Path) -> None:
    corpus = load(folder)
    assert corpus.texts == (
        "Anna Lind left Bonn .", "ANNA LIND", "Bonn Riga FC", "so", "Riga", "Oslo",
    )  # fmt: skip
    assert corpus.users.tolist() == [0, 0, 1, 1, 2, 3]
    assert np.array_equal(corpus.groups["document"], corpus.users)
    assert [corpus.where(s).sum() for s in ("train", "public", "test")] == [4, 1, 1]
    named = [
        (corpus.entity_types[kind], corpus.surface(i))
        for i, kind in enumerate(corpus.entities.type)
    ]
    assert named == [
        ("PER", "Anna Lind"), ("LOC", "Bonn"), ("PER", "ANNA LIND"), ("LOC", "Bonn"),
        ("LOC", "Riga"), ("ORG", "FC"), ("LOC", "Riga"), ("LOC", "Oslo"),
    ]  # fmt: skip
    # One entity: same type, same surface but for case.
    assert corpus.entities.entity[0] == corpus.entities.entity[2]


def test_labels_of_words_are_bio2_and_no_row_marks_a_document(folder: Path) -> None:
    corpus = load(folder)
    annotation = annotation_of(corpus, "entities")
    words = WordTable.from_texts(corpus.texts, "spaces")
    names = label_names(annotation.types)
    tags = [names[label] for label in word_labels(corpus.origin, annotation, words)]
    assert " ".join(tags) == ("B-PER I-PER O B-LOC O B-PER I-PER B-LOC B-LOC B-ORG O B-LOC B-LOC")
    assert not any("DOCSTART" in text for text in corpus.texts)


def test_describe_counts_by_hand(folder: Path) -> None:
    train = describe(load(folder), "conll2003").splits["train"]
    assert (train.rows, train.users, train.mentions, train.entities) == (4, 2, 6, 4)
    assert train.sensitive_rows == {"LOC": 2, "MISC": 0, "ORG": 1, "PER": 2, "any": 3}
    assert train.reach is not None
    assert train.reach.widest == 2  # Bonn
    assert train.reach.one_user == 0.75


def test_other_types_become_plain_text(folder: Path) -> None:
    corpus = load(folder, entity_types=["LOC"])
    assert corpus.entity_types == ("LOC",)
    assert {corpus.surface(i) for i in range(len(corpus.entities))} == {"Bonn", "Riga", "Oslo"}


def test_part_of_the_files_has_no_documented_sizes(folder: Path) -> None:
    assert sources.create("conll2003", {"path": folder}).documented() is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DOC + "Anna NNP I-NP PER\n", "line 3.*'PER'.*IOB"),
        (DOC + "Anna NNP I-NP I-GPE\n", "'I-GPE'.*IOB"),
        (DOC + "Anna\n", "'Anna'.*IOB"),
        ("Anna NNP I-NP I-PER\n", "line 1.*DOCSTART"),
    ],
)
def test_malformed_files_are_refused_with_the_line(folder: Path, text: str, message: str) -> None:
    (folder / "eng.train").write_text(text)
    with pytest.raises(InputError, match=message):
        load(folder)


def test_missing_files_are_named(folder: Path) -> None:
    (folder / "eng.testb").unlink()
    with pytest.raises(InputError, match=r"eng\.testb"):
        load(folder)
    with pytest.raises(InputError, match=r"conll2003\.path.*elsewhere"):
        load(folder / "elsewhere")


def test_published_numbers(shared_data: Path) -> None:
    source = sources.create("conll2003", {"path": shared_data / "conll2003"})
    corpus = source.load()
    train = describe(corpus, "conll2003").splits["train"]
    assert (train.users, train.rows, train.entities) == (946, 14_041, 7_747)
    assert train.sensitive_rows == {
        "LOC": 5_127, "ORG": 4_587, "PER": 4_373, "MISC": 2_698, "any": 11_132,
    }  # fmt: skip
    assert train.reach is not None
    assert round(train.reach.one_user, 2) == 0.70
    assert train.reach.widest == 112
    stats = source.documented()
    assert (stats.users, stats.rows, stats.sensitive_rows, stats.entities, stats.public) == (
        946, 14_041, 11_132, 7_747, True,
    )  # fmt: skip


@pytest.mark.parametrize("types", [["LOC"], ["MISC"], ["PER", "LOC"], ["ORG", "PER", "MISC"]])
def test_documented_sizes_are_what_the_file_holds(shared_data: Path, types: list[str]) -> None:
    source = sources.create("conll2003", {"path": shared_data / "conll2003", "entity_types": types})
    train = describe(source.load(), "conll2003").splits["train"]
    stats = source.documented()
    assert (stats.sensitive_rows, stats.entities) == (train.sensitive_rows["any"], train.entities)
