"""The source `text` reads annotations, targets and records, and says what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError

WHOLE = {"valid": 0, "test": 0}
CONLL = """-DOCSTART- -X- O

Ann NNP I-PER
Lee NNP I-PER
met VBD O
Bo NNP I-PER
Li NNP B-PER

Rome NNP I-LOC

-DOCSTART- -X- O
-DOCSTART- -X- O

Rain NN O
"""
ROWS = [
    {"who": "ann", "text": "My son Bo.", "names": [{"start": 7, "end": 9, "type": "CHILD"}]},
    {"who": "ann", "text": "He is well.", "names": []},
    {"who": "cy", "text": "Ann, my wife", "names": ["B-SPOUSE", "O", "O"]},
    {"who": "di", "text": "See you.", "names": None},
]


def write(folder: Path, rows: list | str, name: str = "rows.jsonl") -> Path:
    file = folder / name
    file.write_text(rows if isinstance(rows, str) else "\n".join(map(json.dumps, rows)))
    return file


def read(path: Path, **params: object) -> Corpus:
    corpus: Corpus = sources.create("text", {"path": path, **WHOLE, **params}).load()
    return corpus


def marked(corpus: Corpus, name: str) -> list[tuple[str, str]]:
    layer = corpus.layer(name)
    return [
        (layer.types[kind], corpus.texts[row][start:end])
        for row, start, end, kind in layer.spans.mentions()
    ]


def test_conll_layout_has_documents_tokens_and_tags(tmp_path: Path) -> None:
    path = write(tmp_path, CONLL, "news.conll")
    names = ["token", "pos", "gold"]
    corpus = read(path, token_columns=names, user_column="document", entities_column="gold")
    assert corpus.texts == ("Ann Lee met Bo Li", "Rome", "Rain")
    assert corpus.users.tolist() == [0, 0, 1]  # a document without a sentence is none
    # IOB1: B- where a neighbour of the same type begins.
    marks = [("PER", "Ann Lee"), ("PER", "Bo"), ("PER", "Li"), ("LOC", "Rome")]
    assert marked(corpus, "gold") == marks
    assert [corpus.surface(i) for i in range(len(corpus.entities))] == [name for _, name in marks]
    assert [tag for tag, _ in marked(corpus, "pos")] == ["NNP", "NNP", "VBD", "NNP", "NNP",
                                                         "NNP", "NN"]  # fmt: skip
    assert all(layer.rows.all() for layer in corpus.layers.values())
    second = CONLL.replace("Ann NNP I-", "Ann NNP B-").replace("Bo NNP I-", "Bo NNP B-")
    assert marked(read(write(tmp_path, second, "two.bio")), "gold") == marks  # BIO2
    alone = read(path)
    assert tuple(alone.layers) == ("gold",)
    assert len(alone.entities) == 0  # what counts as sensitive is said, not guessed
    assert alone.user_count == 3


def test_tabs_separate_columns_where_there_are_some(tmp_path: Path) -> None:
    path = write(tmp_path, "Ann\tB-PER\nmet\tO\n\nBo\tB-PER\n", "x.iob2")
    assert marked(read(path), "gold") == [("PER", "Ann"), ("PER", "Bo")]


def test_rows_are_annotated_by_spans_or_tags_or_not_at_all(tmp_path: Path) -> None:
    corpus = read(write(tmp_path, ROWS), layer_columns=["names"], user_column="who")
    assert marked(corpus, "names") == [("CHILD", "Bo"), ("SPOUSE", "Ann,")]
    assert corpus.layer("names").rows.tolist() == [True, True, True, False]
    (tmp_path / "public.txt").write_text("the sky is blue\n")
    more = read(
        tmp_path / "rows.jsonl", layer_columns=["names"], public=[str(tmp_path / "public.txt")]
    )
    # Text that nobody annotated is not text without names.
    assert more.layer("names").rows.tolist() == [True, True, True, False, False]
    assert more.fingerprint != corpus.fingerprint
    none = [{**row, "names": row["names"] or []} for row in ROWS]
    every = read(write(tmp_path, none, "none.jsonl"), layer_columns=["names"], user_column="who")
    assert every.layer("names").rows.all()
    assert every.fingerprint != corpus.fingerprint


def test_tokens_make_the_text(tmp_path: Path) -> None:
    rows = [{"tokens": ["Ann", ",", "Bo"], "tags": ["B-P", "O", "B-P"], "pos": ["N", ",", "N"]}]
    path = write(tmp_path, rows)
    corpus = read(path, tokens_column="tokens", layer_columns=["tags", "pos"],
                  entities_column="tags")  # fmt: skip
    assert corpus.texts == ("Ann , Bo",)
    assert marked(corpus, "tags") == [("P", "Ann"), ("P", "Bo")]
    assert marked(corpus, "pos") == [("N", "Ann"), (",", ","), ("N", "Bo")]
    assert len(corpus.entities) == 2
    csv = 'tokens,tags\n"[""Ann"", ""left""]","[""B-P"", ""O""]"\n'
    same = read(write(tmp_path, csv, "r.csv"), tokens_column="tokens", layer_columns=["tags"])
    assert marked(same, "tags") == [("P", "Ann")]


def test_targets_and_records_stand_beside_their_rows(tmp_path: Path) -> None:
    rows = [{**row, "german": f"auf Deutsch {at}"} for at, row in enumerate(ROWS)]
    facts = [
        {"user": "cy", "facts": {"spouse": "Ann", "children": ["Bo", "Eve"]}},
        {"user": "di", "facts": {}},
    ]
    corpus = read(
        write(tmp_path, rows), user_column="who", target_column="german",
        records=write(tmp_path, facts, "people.jsonl"),
    )  # fmt: skip
    assert corpus.targets == tuple(f"auf Deutsch {at}" for at in range(4))
    assert corpus.records == ({}, {"spouse": ("Ann",), "children": ("Bo", "Eve")}, {})
    assert corpus.take(np.array([0, 3])).records == ({}, {}, {})  # nobody's row, nobody's facts
    plain = read(tmp_path / "rows.jsonl", user_column="who")
    assert len({corpus.fingerprint, plain.fingerprint}) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ann I-PER\nmet X\n", r"bad\.conll.*line 2.*column 'gold'"),
        ("\nAnn B-PER\n\nLi E-PER\n", "line 4.*column 'gold'.*'E-PER'"),
        ("\nAnn B-PER\n\nLi X-PER\n", "line 4.*column 'gold'.*'X-PER'"),
        ("Ann NN B-PER\nmet O\n", r"bad\.conll.*line 2: 2 columns"),
        ("Ann\n", r"bad\.conll.*line 1.*'Ann'"),
        ("Ann\tB-PER\nBo\t\n", r"bad\.conll.*line 2.*column 2"),
        ("-DOCSTART- O\n", "text: .*corpus.*empty"),
    ],
)
def test_what_is_wrong_with_a_file_of_tokens(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, text, "bad.conll"))


def test_columns_of_tokens_are_named_all_or_not(tmp_path: Path) -> None:
    path = write(tmp_path, CONLL, "news.conll")
    with pytest.raises(InputError, match=r"token_columns.*token, gold"):
        read(path, token_columns=["token", "gold"])
    with pytest.raises(InputError, match="column 'pos'"):
        read(path, layer_columns=["pos"])
    with pytest.raises(InputError, match="'document'"):
        read(path, user_column="documents")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"names": ["O"]}, "line 2.*column 'names': 1 tags.*2 words"),
        ({"names": ["O", 3]}, "line 2.*column 'names': tag 2"),
        ({"names": [{"start": 0, "ende": 2, "type": "X"}]}, "'end'.*'ende'"),
        ({"names": [{"start": 0, "end": 99, "type": "X"}]}, r"\(0, 99\).*text"),
        ({"names": [{"start": "0", "end": 2, "type": "X"}]}, "column 'names'.*'start': '0'"),
        ({"names": "x"}, "column 'names': 'x'"),
        ({"names": "[{'start': 0, 'end': 3}]"}, r"json\.dumps"),
        ({"german": " "}, "line 2.*column 'german'.*null"),
    ],
)
def test_what_is_wrong_with_a_row(tmp_path: Path, row: dict, message: str) -> None:
    good = {"text": "Ann left", "names": [], "german": "Ann ging", "who": "ann"}
    path = write(tmp_path, [good, {**good, **row}])
    with pytest.raises(InputError, match=message):
        read(path, layer_columns=["names"], target_column="german")


@pytest.mark.parametrize(
    "span",
    [
        {"start": 0, "end": 3, "entity_type": "PERSON", "score": 0.85},
        {"start_position": 0, "end_position": 3, "entity_type": "PERSON"},
        {"start_char": 0, "end_char": 3, "label": "PERSON", "text": "Ann"},
        {"start_offset": 0, "end_offset": 3, "label": "PERSON", "id": 1},
        {"start": 0, "end": 3, "entity_group": "PERSON", "word": "Ann"},
        {"start": 0, "end": 3, "type": "PERSON", "label": "other"},
        [0, 3, "PERSON"],
    ],
)
def test_spans_of_other_tools_are_read(tmp_path: Path, span: object) -> None:
    path = write(tmp_path, [{"text": "Ann left", "names": [span]}])
    assert marked(read(path, layer_columns=["names"]), "names") == [("PERSON", "Ann")]


def test_two_names_of_a_type_are_refused(tmp_path: Path) -> None:
    span = {"start": 0, "end": 3, "label": "A", "entity_type": "B"}
    with pytest.raises(InputError, match=r"entity_type.*label"):
        read(write(tmp_path, [{"text": "Ann", "names": [span]}]), layer_columns=["names"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"user": "an", "facts": {}}', r"people\.jsonl.*line 2.*user 'an'"),
        ('{"user": "cy", "facts": {}}', "line 2.*'cy'.*line 1"),
        ('{"user": "ann", "fact": {}}', "line 2.*'facts'.*'fact'"),
        ('{"user": "ann", "facts": {"born": 7}}', r"line 2.*facts\.born.*7"),
        ('{"user": "ann", "facts": []}', r"line 2.*facts.*\[\]"),
        ("[", "line 2.*JSON"),
    ],
)
def test_what_is_wrong_with_records(tmp_path: Path, line: str, message: str) -> None:
    people = write(tmp_path, '{"user": "cy", "facts": {}}\n' + line, "people.jsonl")
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, ROWS), user_column="who", records=people)
    with pytest.raises(InputError, match=r"records.*user_column"):
        read(tmp_path / "rows.jsonl", records=people)


def test_gold_is_one_layer_only(tmp_path: Path) -> None:
    rows = [{**row, "gold": []} for row in ROWS]
    with pytest.raises(InputError, match=r"column 'names'.*layer_columns"):
        read(write(tmp_path, rows), detector="names", entities_column="names",
             layer_columns=["gold"])  # fmt: skip
    corpus = read(tmp_path / "rows.jsonl", detector="names", entities_column="names",
                  layer_columns=["names"])  # fmt: skip
    assert marked(corpus, "gold") == marked(corpus, "names")


def test_the_shared_task_reads_as_its_own_source_does(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "conll2003"
    file = tmp_path / "eng.testa.conll.gz"
    file.write_bytes((folder / "eng.testa.gz").read_bytes())
    corpus = read(file, user_column="document", entities_column="gold")
    own = sources.create("conll2003", {"path": folder}).load().only("public")
    assert corpus.texts == own.texts
    assert corpus.users.max() == len(np.unique(own.users)) - 1
    assert corpus.entities.mentions() == own.entities.mentions()
    assert corpus.layer("gold").spans.mentions() == own.entities.mentions()


def test_a_folder_has_a_file_a_split(tmp_path: Path) -> None:
    for name, word in (("train", "Ann"), ("dev", "Bo"), ("test", "Cy")):
        write(tmp_path, CONLL.replace("Rain", word), f"{name}.bio")
    write(tmp_path, "notes", "README.md")
    corpus = read(tmp_path, user_column="document", token_columns=["token", "", "ner"])
    assert tuple(corpus.layers) == ("ner",)
    parts = {split: corpus.only(split) for split in ("train", "valid", "test")}
    assert [part.texts[-1] for part in parts.values()] == ["Ann", "Bo", "Cy"]
    assert [len(part) for part in parts.values()] == [3, 3, 3]
    assert corpus.user_count == 6  # documents of two files are two
    write(tmp_path, CONLL, "valid.conll")
    with pytest.raises(InputError, match=r"dev\.bio.*valid\.conll"):
        read(tmp_path)
    (tmp_path / "valid.conll").unlink()
    write(tmp_path, "Ann X-PER\nBo B-PER\n", "test.bio")
    with pytest.raises(InputError, match=r"test\.bio.*line 1.*column 'gold'.*'X-PER'"):
        read(tmp_path)
    (tmp_path / "train.bio").unlink()
    with pytest.raises(InputError, match=r"train\.\*.*\.bio"):
        read(tmp_path)


def test_a_folder_of_tables_keeps_what_each_has(tmp_path: Path) -> None:
    write(tmp_path, [{"text": "a b", "topic": "x"}, {"text": "c"}], "train.jsonl")
    write(tmp_path, "text\nd\n", "test.csv")
    corpus = read(tmp_path, label_column="topic")
    assert corpus.texts == ("a b", "c", "d")
    assert corpus.labels is not None
    assert corpus.labels.tolist() == [0, -1, -1]
    assert corpus.only("test").texts == ("d",)
