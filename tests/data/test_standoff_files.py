"""PubTator's files and BRAT's folders: texts with the mentions that stand beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from uedp_bench.data.standoff_files import read_brat, read_pubtator
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.text import TextFile

TITLE = "7|t|Ann saw aspirin\n7|a|It hurt Bo.\n"


def pubtator(folder: Path, content: str) -> Path:
    file = folder / "a.pubtator"
    file.write_text(content)
    return file


def brat(folder: Path, text: str, annotations: str) -> Path:
    (folder / "a.txt").write_bytes(text.encode())
    (folder / "a.ann").write_text(annotations)
    return folder


def test_offsets_of_pubtator_count_title_space_and_abstract(tmp_path: Path) -> None:
    mentions = (
        "7\t8\t15\taspirin\tChemical\tD1\n7\t24\t26\tBo\tPerson\n7\tCID\tD1\tD2\n\n8|t|Next\n"
    )
    columns, lines = read_pubtator(pubtator(tmp_path, TITLE + mentions), "path", "utf-8")
    assert columns["id"] == ["7", "8"]
    assert columns["text"] == ["Ann saw aspirin It hurt Bo.", "Next"]
    assert columns["entities"] == [
        [{"start": 8, "end": 15, "type": "Chemical"}, {"start": 24, "end": 26, "type": "Person"}],
        [],
    ]
    assert lines == [1, 7]


@pytest.mark.parametrize(
    "line",
    ["7\t8\t15\tAspirin\tChemical", "7\t8\tx\taspirin\tChemical", "7\t8", "8\t8\t15\taspirin\tC",
     f"7\t8\t{'9' * 5000}\taspirin\tC", "no document"],
)  # fmt: skip
def test_a_mention_that_does_not_fit_names_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"a\.pubtator, line 3"):
        read_pubtator(pubtator(tmp_path, f"{TITLE}{line}\n"), "path", "utf-8")


def test_offsets_of_brat_count_each_character_of_line_ends(tmp_path: Path) -> None:
    annotations = (
        "T1\tPerson 6 8\tBo\nT2\tTown 9 13;14 18\tNew York\nR1\tIn Arg1:T1 Arg2:T2\n#1\tx\n"
    )
    folder = brat(tmp_path, "Ann,\r\nBo New\r\nYork", annotations)
    columns, _ = read_brat(folder, "path", "utf-8")
    (entities,) = columns["entities"]
    assert [one["type"] for one in entities] == ["Person", "Town"]
    assert columns["text"][0][entities[0]["start"] : entities[0]["end"]] == "Bo"


@pytest.mark.parametrize("line", ["T1\tPerson 0 2\tBo", "T1\tPerson 0\tAnn", "T1 Person 0 3 Ann"])
def test_annotations_of_brat_that_do_not_fit_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"a\.ann, line 1"):
        read_brat(brat(tmp_path, "Ann came", line), "path", "utf-8")
    (tmp_path / "a.txt").unlink()
    with pytest.raises(InputError, match=r"a\.txt"):
        read_brat(tmp_path, "path", "utf-8")


def test_the_source_takes_both(tmp_path: Path) -> None:
    params = {"text_column": "text", "entities_column": "entities", "valid": 0, "test": 0}
    file = pubtator(tmp_path, TITLE + "7\t8\t15\taspirin\tChemical\tD1\n")
    (tmp_path / "brat").mkdir()
    folder = brat(tmp_path / "brat", "Ann came", "T1\tPerson 0 3\tAnn\n")
    corpus = TextFile.create({**params, "path": file}).load()
    assert corpus.entity_types == ("Chemical",)
    corpus = TextFile.create({**params, "path": folder, "file_format": "brat"}).load()
    assert (list(corpus.texts), corpus.entity_types) == (["Ann came"], ("Person",))
