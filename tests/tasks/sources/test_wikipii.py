from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError

PAGE = """Anna O
Lind O
( O
born O
4 B-BD
May I-BD
1961 I-BD
) O

\u200e
She O
was O
born O
in O
Oslo B-BP

She O
married O
José B_SP
Núñez I_SP
and O
Bo B-SP
Berg I-SP
"""


def write(folder: Path) -> Path:
    pages = {
        "training/Anna Lind/annot_csv_12.csv.txt": PAGE,
        "training/Bo Berg/annot_csv_7.csv.txt": "Malia B-CH\nsang O\n",
        "eval/Cy Dahl/annot_csv_3.csv.txt": "Harvard B-ED\nwon O\n",
        "test/Di Ek/annot_csv_4.csv.txt": "Ek B-PR\nsang O\n",
        "training/Bo Berg/summary_df_7.csv.txt": "no page",
    }
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "dataset_txt")


def load(path: Path, **params: object) -> Corpus:
    return sources.create("wikipii", {"path": path, **params}).load()


def test_pages_are_users_and_their_tags_a_layer(folder: Path) -> None:
    corpus = load(folder)
    assert corpus.texts == (
        "Malia sang", "Anna Lind ( born 4 May 1961 )", "She married José Núñez and Bo Berg",
        "Harvard won", "Ek sang",
    )  # fmt: skip
    assert corpus.users.tolist() == [0, 1, 1, 2, 3]
    assert [int(corpus.where(name).sum()) for name in ("train", "valid", "test")] == [3, 1, 1]
    layer = corpus.layer("automatic")
    named = [(corpus.texts[row][start:end], layer.types[kind])
             for row, start, end, kind in layer.spans.mentions()]  # fmt: skip
    assert named == [("Malia", "CH"), ("4 May 1961", "BD"), ("José Núñez", "SP"),
                     ("Bo Berg", "SP"), ("Harvard", "ED"), ("Ek", "PR")]  # fmt: skip
    assert layer.rows.all()


def test_birth_places_and_sentences_without_a_mark_can_be_kept(folder: Path) -> None:
    assert len(load(folder, types=["BD", "BP"]).texts) == 2
    everything = load(folder, only_marked_rows=False)
    assert len(everything) == 6
    assert everything.sensitive.tolist() == [True, True, False, True, True, True]


def test_the_archive_is_read_as_the_folder(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "wikiner_dataset_txt.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, arcname="dataset_txt")
        archive.addfile(tarfile.TarInfo("../outside.txt"))
    assert load(path).fingerprint == load(folder).fingerprint


def test_what_is_no_wikipii_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Anna Lind.*annot"):
        load(folder / "training" / "Anna Lind")
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"x\.tar\.gz"):
        load(tmp_path / "x.tar.gz")
    (folder / "test" / "Di Ek" / "annot_csv_4.csv.txt").write_text("Ek O\nsang B-XX\n")
    with pytest.raises(InputError, match=r"annot_csv_4\.csv\.txt.*line 2.*'B-XX'"):
        load(folder)
    with pytest.raises(InputError, match=r"source\.annotate"):
        load(write(tmp_path / "again"), annotate={})
