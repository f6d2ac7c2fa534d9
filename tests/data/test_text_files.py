"""Records of csv and tsv: a quote that may be text is never read as quoting without a word."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.data.text_files import Dialect, Quoting, read_brat, read_pubtator, read_records
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.text import TextFile


def records(
    tmp_path: Path, text: str, delimiter: str = "\t", quoting: Quoting | None = None
) -> list[list[str]]:
    file = tmp_path / "x.tsv"
    file.write_text(text, newline="")
    dialect = Dialect(delimiter, quoting, may_guess=True)
    return [record.fields for record in read_records(file, "text.path", dialect)]


def test_each_quoting_reads_what_it_says(tmp_path: Path) -> None:
    text = 'user\ttext\nu1\t"I came\nu2\tI left"\nu3\tnone\n'
    assert len(records(tmp_path, text, quoting="none")) == 4
    assert records(tmp_path, text, quoting="standard")[1] == ["u1", "I came\nu2\tI left"]
    with pytest.raises(InputError, match=r"line 2: .*line 3.*text\.quoting"):
        records(tmp_path, text)
    with pytest.raises(InputError, match=r"line 2: .*line 4.*text\.quoting"):
        records(tmp_path, text.replace("u2", "\nu2"))
    with pytest.raises(InputError, match=r"line 2: .*end of data.*quoting=none"):
        records(tmp_path, text.replace('left"', "left"))
    with pytest.raises(InputError, match=r"line 2: .*quoting=none"):
        records(tmp_path, text.replace('left"', 'left" he said'))


@pytest.mark.parametrize(
    "text",
    [
        'user\ttext\nu1\t"one\ntwo"\nu2\tthree\n',
        'user\ttext\nu1\t"one\nu2\ttwo"\nu2\t"a\tb"\n',
        '"user"\t"text"\n"u1"\t"one\nu2\ttwo"\n',
        'text\n"one\ntwo"\n"a\tb"\n',
        'text\n\n"one\n\ntwo"\n',
    ],
)
def test_quoting_that_shows_itself_is_read(tmp_path: Path, text: str) -> None:
    expected = [row for row in csv.reader(io.StringIO(text), delimiter="\t") if row]
    assert records(tmp_path, text) == expected


def test_many_records_over_lines_show_quoting(tmp_path: Path) -> None:
    rows = [[f"Hi Bob,\nsee you at {hour}", "ann"] for hour in range(10)]
    out = io.StringIO()
    csv.writer(out).writerows([["text", "user"], *rows, *[["ok", "bob"]] * 30])
    assert records(tmp_path, out.getvalue(), ",")[1:11] == rows
    dialogue = "user\ttext\n" + 'u1\t"I came\nu2\tI left"\n' * 10
    with pytest.raises(InputError, match=r"line 2: .*line 3.*text\.quoting"):
        records(tmp_path, dialogue)


@given(
    rows=st.lists(
        st.lists(st.text(st.sampled_from('ab "\t\n\r,'), max_size=6), min_size=2, max_size=2),
        min_size=1,
        max_size=8,
    ),
    every=st.booleans(),
)
def test_what_a_writer_quotes_comes_back_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], every: bool
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    out = io.StringIO()
    kind = csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL
    csv.writer(out, quoting=kind).writerows([["user", "text"], *rows])
    whole = [["user", "text"], *rows]
    assert records(folder, out.getvalue(), ",", "standard") == whole
    try:
        assert records(folder, out.getvalue(), ",") == whole
    except InputError as error:
        assert not every and "text.quoting is standard" in str(error)


@given(
    rows=st.lists(
        st.lists(st.text(st.sampled_from('ab "'), min_size=1, max_size=4), min_size=2, max_size=2),
        min_size=1,
        max_size=8,
    )
)
def test_unquoted_rows_never_merge_without_a_word(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    text = "user\ttext\n" + "".join("\t".join(row) + "\n" for row in rows)
    assert records(folder, text, quoting="none")[1:] == rows
    try:
        assert len(records(folder, text)) == len(rows) + 1
    except InputError as error:
        assert "text.quoting" in str(error)


def test_another_delimiter_is_named(tmp_path: Path) -> None:
    for text in ("Von;Text\nAnn;ja\n", "Von;Text\nAnn;ja, gern\n", "Von;Text\nAnn,ja;nein;doch\n"):
        with pytest.raises(InputError, match=r"'Von;Text'.*text\.delimiter.*';'"):
            records(tmp_path, text, ",")
    assert records(tmp_path, "a;b\nno mark\n", ",") == [["a;b"], ["no mark"]]


def test_the_line_is_that_where_a_record_starts(tmp_path: Path) -> None:
    text = '"a"\t"b"\n\n"1\n2"\t3\n"4\n5"\n'
    with pytest.raises(InputError, match=r"line 5: 1 .* 2 in line 1"):
        records(tmp_path, text)


def test_another_encoding_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes("user,text\nu1,hello\n".encode("utf-16-be"))
    with pytest.raises(InputError, match=r"line 1: null.*UTF-16"):
        list(read_records(file, "text.path", Dialect(",")))
    file.write_bytes("user,text\nu1,hello\n".encode("utf-32"))
    with pytest.raises(InputError, match="utf-32"):
        list(read_records(file, "text.path", Dialect(",")))


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
