"""Parallel text in plain files: lines, documents, and pairs that are no translations."""

from __future__ import annotations

from pathlib import Path

import pytest

from uedp_bench.contracts.source import SourceParams, add_public
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.parallel_text import ParallelText, ParallelTextParams
from uedp_bench.text.comparison import holds_text
from uedp_bench.text.describe_data import describe


def written(folder: Path, **files: str) -> Path:
    for name, lines in files.items():
        (folder / name.replace("_", ".")).write_text(lines, encoding="utf-8")
    return folder


def read(folder: Path, **params: object) -> Corpus:
    return ParallelText(ParallelTextParams(path=folder, **params)).load()


TRAIN = {
    "train_de": "ein  Haus\nzwei gute alte Häuser\nkein Haus\n\n",
    "train_en": "a house\nzwei gute alte Häuser two good old houses\nno house\nnothing\n",
}


def test_lines_are_pairs_and_blank_sides_are_left_out(tmp_path: Path) -> None:
    corpus = read(written(tmp_path, **TRAIN, dev_de="ja\n", dev_en="yes\n", public_de="x\n",
                          public_en="y\n"))  # fmt: skip
    assert corpus.texts == ("ein Haus", "zwei gute alte Häuser", "kein Haus", "ja", "x")
    assert corpus.targets == (
        "a house", "zwei gute alte Häuser two good old houses", "no house", "yes", "y",
    )  # fmt: skip
    assert corpus.users.tolist() == [-1] * 5
    assert [len(corpus.only(split)) for split in ("train", "valid", "test", "public")] == [
        3, 1, 0, 1,
    ]  # fmt: skip


def test_documents_are_users_across_splits(tmp_path: Path) -> None:
    folder = written(tmp_path, **TRAIN, train_doc="b\na\nb\nc\n", test_de="x\ny\n",
                     test_en="x\ny\n", test_doc="d\n\n")  # fmt: skip
    assert read(folder).users.tolist() == [0, 1, 0, 3, 4]


def test_clean_leaves_out_translations_that_hold_the_text(tmp_path: Path) -> None:
    folder = written(tmp_path, **TRAIN)
    assert len(read(folder, clean=True)) == len(read(folder)) - 1
    described = describe(read(folder), "parallel-text").splits["train"]
    assert (described.targets, described.distinct_pairs, described.targets_with_text) == (3, 3, 1)
    assert holds_text(("a b c", "a b c d"))
    assert not holds_text(("a b c", "a b c"))
    assert not holds_text(("a b", "a b c"))


def test_public_text_of_one_language_keeps_translations(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("eine Zeile .\n", encoding="utf-8")
    corpus = read(written(tmp_path, **TRAIN))
    more = add_public(corpus, SourceParams(public=(tmp_path / "more.txt",)))
    assert corpus.targets is not None
    assert more.targets == (*corpus.targets, "")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train_de": "a\n"}, "/train.de .* train.en "),
        ({"train_de": "a\nb\n", "train_en": "a\n"}, "2 lines.*/train.en 1"),
        ({"test_de": "a\n", "test_en": "a\n"}, "train.de and train.en$"),
        ({"train_de": "\n", "train_en": "a\n"}, "training pair"),
        ({"train_de": "a\n", "train_en": "b\n", "train_doc": "x\ny\n"}, "train.doc.* 2 lines"),
    ],
)
def test_files_that_do_not_fit_are_named(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"parallel-text\.path: .*{message}"):
        read(written(tmp_path, **files))
