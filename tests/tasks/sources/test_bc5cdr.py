from __future__ import annotations

from pathlib import Path

import pytest

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError

SENTENCE = "Vitamin\tB-Chemical\nD\tI-Chemical\nPTH\tB-Chemical\ncures\tO\ngout\tB-Disease\n\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.tsv").write_text(SENTENCE * 5)
    (tmp_path / "devel.tsv").write_text(SENTENCE)
    (tmp_path / "test.tsv").write_text(f"-DOCSTART-\n\n{SENTENCE * 2}-DOCSTART-\n\n{SENTENCE}")
    return tmp_path


def load(path: Path, **params: object) -> Corpus:
    return sources.create("bc5cdr", {"path": path, **params}).load()


def test_users_are_documents_or_runs_of_sentences(folder: Path) -> None:
    corpus = load(folder, sentences_per_user=2)
    assert corpus.texts[0] == "Vitamin D PTH cures gout"
    assert corpus.users.tolist() == [0, 0, 1, 1, 2, 3, 4, 4, 5]
    assert [int(corpus.where(name).sum()) for name in ("train", "public", "test")] == [5, 1, 3]
    named = [(corpus.surface(at), corpus.entity_types[corpus.entities.type[at]]) for at in range(3)]
    assert named == [("Vitamin D", "Chemical"), ("PTH", "Chemical"), ("gout", "Disease")]


def test_the_development_sentences_may_be_those_to_train_on(folder: Path) -> None:
    corpus = load(folder, train_on="devel", valid_is_public=False)
    assert [int(corpus.where(name).sum()) for name in ("train", "valid", "test")] == [1, 5, 3]


def test_other_tags_are_refused_with_their_line(folder: Path) -> None:
    (folder / "train.tsv").write_text(f"{SENTENCE}gout\tO\nis\tB-Gene\n")
    with pytest.raises(InputError, match=r"train\.tsv.*line 8.*'B-Gene'"):
        load(folder)
    (folder / "train.tsv").write_text("\n")
    with pytest.raises(InputError, match=r"train\.tsv.*sentence"):
        load(folder)


def test_sizes_of_the_published_files(shared_data: Path) -> None:
    corpus = load(shared_data / "bc5cdr_iob")
    sizes = [int(corpus.where(name).sum()) for name in ("train", "public", "test")]
    assert sizes == [4_560, 4_581, 4_797]
    train = corpus.only("train")
    counts = [int((train.entities.type == at).sum()) for at in range(2)]
    assert counts == [5_203, 4_182]  # lines with B-
    assert int(train.users.max()) + 1 == 507
