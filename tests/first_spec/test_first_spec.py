"""What is found in files of anybody, what is guessed of them, and the spec that follows."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest
from own_files import chat, mail, reviews, tokens

from uedp_bench.errors import InputError
from uedp_bench.first_spec.column_roles import roles_of
from uedp_bench.first_spec.file_facts import look_at
from uedp_bench.first_spec.first_spec import first_spec
from uedp_bench.first_spec.sizes import languages
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec


def spec_of(
    file: Path, *, task: str | None = None, epsilons: tuple[float, ...] = (8.0,), **settings: str
):
    draft = first_spec(file, settings, task=task, public=(), epsilons=epsilons)
    return draft, load_yaml(draft.text(("s.yaml", "runs/s")))


def test_a_mailbox_with_semicolons_becomes_a_spec(tmp_path: Path) -> None:
    proposal, data = spec_of(mail(tmp_path))
    params = data["source"]["params"]
    wanted = {"encoding": "cp1252", "delimiter": ";", "text_column": "Mail Body",
              "user_column": "Sent From", "skip_blank": True}  # fmt: skip
    assert {name: params[name] for name in wanted} == wanted
    assert data["task"]["name"] == "next-word"
    sentences = "\n".join((*proposal.facts, *proposal.guesses))
    for line in ("semicolons, cp1252", "source.encoding", "160 rows of 50 users",
                 "English", "--user COLUMN", "1 row whose 'Mail Body' or 'Sent From' is blank",
                 "--public FILE", "dp-sgd"):  # fmt: skip
        assert line in sentences, line
    titles = [part.title for part in proposal.suggestion.mechanisms]
    assert titles == ["public-only", "noiseless", "deidentify + noiseless", "dp-sgd"]
    # Privacy looks free beside a row that is trained at one guessed rate.
    assert len(data["mechanisms"][1]["params"]["learning_rate_factors"]) > 1
    # Every run passes all checks before training.
    assert len(jobs_of(expand(parse_spec(data)), tmp_path / "out")) == 12


def test_a_crowd_gets_a_mechanism_for_users_at_each_target(tmp_path: Path) -> None:
    draft, data = spec_of(chat(tmp_path, 1050, 700), epsilons=(1.0, 8.0))
    assert data["source"]["params"]["text_column"] == "message.body"
    assert data["source"]["params"]["user_column"] == "from.id"
    record, user = data["mechanisms"][-2:]
    assert (record["name"], user["name"]) == ("dp-sgd", "user-dp")
    assert user["params"]["users"] == draft.suggestion.sizes.users
    for part in (record, user):
        assert part["params"]["epsilon"] == [1.0, 8.0]
        assert "noise_multiplier" not in part["params"]
    assert data["delta"] == 1e-5
    assert len(expand(parse_spec(data))) == 21


def test_tags_and_classes_choose_the_task(tmp_path: Path) -> None:
    _, data = spec_of(tokens(tmp_path))
    assert data["task"]["name"] == "tagging"
    assert data["source"]["params"]["file_format"] == "conll"
    assert data["source"]["params"]["entity_types"] == ["PER"]
    draft, data = spec_of(reviews(tmp_path))
    assert data["task"]["name"] == "text-classification"
    assert data["source"]["params"]["label_names"] == ["bad", "good"]
    assert "user" in "\n".join(draft.guesses)
    _, data = spec_of(reviews(tmp_path), label="none")
    assert data["task"]["name"] == "next-word"


def test_what_the_user_says_counts(tmp_path: Path) -> None:
    file = mail(tmp_path)
    _, data = spec_of(file, user="none")
    assert "user_column" not in data["source"]["params"]
    with pytest.raises(InputError, match=r"column \(--user\) named 'Sent Frm'.*'Sent From'"):
        spec_of(file, user="Sent Frm")
    for task, message in (
        ("tagging", "--task tagging: .*--spans"),
        ("text-classification", "--label COLUMN"),
        ("translation", "--task translation: .*next-word"),
    ):
        with pytest.raises(InputError, match=message):
            spec_of(file, task=task)


def test_few_users_are_said_and_rows_are_the_unit(tmp_path: Path) -> None:
    draft, data = spec_of(mail(tmp_path, users=5))
    assert "user_column" not in data["source"]["params"]
    assert "only 5 users" in "\n".join(draft.guesses)
    assert "(--user 'Sent From' insists)" in "\n".join(draft.guesses)
    assert not [line for line in draft.guesses if line.startswith("user: the column")]
    assert "users" not in draft.facts[2]  # as many as rows, and none of the file's


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "who,text\n", "no row below its header"),
        ("a.csv", "text\n" + "Ann saw a dog\n" * 70, "'text' is not taken: it has one value"),
        ("a.csv", "text\n" + "".join(f"{row}\n" for row in range(70)), "'text'.*numbers"),
        ("a.jsonl", '{"text": ["Ann", "came"]}\n' * 70, "'text'.*holds no texts"),
        ("a.jsonl", '{"text": null, "n": 1}\n' * 70, "'text'.*no value"),
        ("a.csv", "who,text\n" + "".join(f"w{row % 9},{f'a word {row}' if row % 2 else ''}\n"
                                         for row in range(80)), "40 rows with text and user"),
        ("a.conll", "Ann B-PER\ncame\n\n" * 70, r"a\.conll, line 2"),
    ],
)  # fmt: skip
def test_a_refused_file_hears_why(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=reason):
        spec_of(tmp_path / name)


def test_text_without_words_for_secrets_has_a_spec_without_them(tmp_path: Path) -> None:
    file = tmp_path / "chat.csv"
    file.write_text("text\n" + "".join(f"你好 我 去 {row} 了 吗\n" for row in range(90)))
    draft, data = spec_of(file)
    assert [part["name"] for part in data["attacks"]] == ["membership"]
    assert "secret-sharer" in "\n".join(draft.guesses)


def test_too_little_or_nothing_readable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"10 rows.* 60"):
        spec_of(reviews(tmp_path, rows=10))
    for name, content, message in (
        ("empty.csv", b"  \n", r"empty\.csv"),
        ("sheet.csv", b"PK\x03\x04\0\0\0", r"sheet\.csv"),
        ("image.csv", b"GIF89a\0\x01\0\0", r"image\.csv"),
        ("short.csv.gz", gzip.compress(b"text,user\n" * 99, mtime=0)[:-12], r"short\.csv\.gz"),
        ("numbers.csv", b"a,b\n1,2\n3,4\n", "columns: a, b.*--text"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            spec_of(tmp_path / name)
    with pytest.raises(InputError, match=r"missing\.csv"):
        spec_of(tmp_path / "missing.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"folder.*train\.\*"):
        spec_of(tmp_path / "folder")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b"x,y\n1,2\n3,4\n", ("csv", "utf-8", ",", True)),
        ("a.csv", "x\ty\n1\té\n".encode(), ("csv", "utf-8", "\t", True)),
        ("a.dat", "x;y\n1;é\n2;z\n".encode("cp1252"), ("csv", "cp1252", ";", False)),
        ("a.csv", "x;y\n1;a\u2028b\n2;c\x85d\n3;e\n".encode(), ("csv", "utf-8", ";", True)),
        ("a.csv", "x,y\n1,é\n".encode("utf-16"), ("csv", "utf-16", ",", True)),
        ("a.csv", b"x,y\n1,\x81\xe9\n", ("csv", "latin-1", ",", True)),
        ("a.json", b'[{"a": 1}]', ("json", "utf-8", None, True)),
        ("a.log", b'{"a": 1}\n', ("jsonl", "utf-8", None, False)),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n', mtime=0), ("jsonl", "utf-8", None, True)),
        ("a.txt", b"One, two.\nThree, four.\n", ("lines", "utf-8", None, True)),
        ("a.txt", b"Ann B-PER\ncame O\n\nBo B-PER\nsat O\n", ("conll", "utf-8", None, False)),
        ("a.tsv", b"Ann\tB-PER\ncame\tO\n\nBo\tB-PER\nsat\tO\n", ("conll", "utf-8", None, False)),
        ("a.txt", b"Ann PER\ncame O\n\nBo PER\nsat O\n\n" * 3, ("conll", "utf-8", None, False)),
        ("a.txt", b"Ann S-PER\ncame -\nin O\n\n" * 3, ("conll", "utf-8", None, False)),
        ("a.txt", b"# id = 1\n1 Ann B-P\n\n1 Bo O\n2 a O\n", ("conll", "utf-8", None, False)),
        ("a.txt", b"[1/03/21] Ann: one\n[2/03/21] Bo: two\n", ("lines", "utf-8", None, True)),
        ("a.txt", b"{12:30} one\n{12:31} two\n", ("lines", "utf-8", None, True)),
        ("a.csv", b'x;y\n1;a\n2;b\n3;"c\nd,e"\n', ("csv", "utf-8", ";", True)),
        ("a.csv", b"when;a, b;who\n1;a, b;c\n2;d, e;f\n", ("csv", "utf-8", ";", True)),
        ("a.txt", b"[{x}] one\n[{y}] two\n", ("lines", "utf-8", None, True)),
        ("a.txt", b"user|text\nu1|one, two\nu2|two\n", ("csv", "utf-8", "|", False)),
        ("a.jsonl", b'["Ann, you", {"x": 1}]\n' * 3, ("jsonl", "utf-8", None, True)),
        ("a.jsonl", b'[\n{"a": 1}\n]', ("json", "utf-8", None, False)),
        ("a.csv", b"x,y\n" + b"1,23456789\n" * 20 + b"4,\0a\n", ("csv", "utf-8", ",", True)),
        ("a.csv", "x,y\n1,two\n".encode("utf-16-be"), ("csv", "utf-16-be", ",", True)),
        ("a.csv", "x,y\n1,two\n".encode("utf-32"), ("csv", "utf-32", ",", True)),
        ("a.csv", "x,y\n1,two\n".encode("utf-32-le"), ("csv", "utf-32-le", ",", True)),
        ("a.txt", b"12|t|A title\n12|a|Words.\n", ("pubtator", "utf-8", None, False)),
        ("a.bio", b"-DOCSTART- O\n\nAnn B-PER\ncame O\n\nBo O\n", ("conll", "utf-8", None, True)),
    ],
)
def test_how_a_file_is_written(tmp_path: Path, name: str, content: bytes, expected) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    layout = look_at(file)
    assert (layout.file_format, layout.encoding, layout.delimiter, layout.by_ending) == expected


def table(**columns: list[object]) -> dict[str, list[object]]:
    texts: list[object] = [f"some words of a text {row}" for row in range(40)]
    return {"text": texts, **columns}


def test_who_wrote_is_no_property_of_a_person() -> None:
    handles = [f"h{row % 25}" for row in range(40)]
    zones = ["Paris" if row % 2 else "Rome" for row in range(40)]
    roles, _ = roles_of(table(user_timezone=zones, name=handles), {})
    assert (roles.columns["user"], roles.others["user"]) == ("name", ("user_timezone",))
    roles, _ = roles_of(table(product_name=zones, user_location=zones), {})
    assert roles.columns["user"] == "user_location"  # of no other is more known
    assert "user" not in roles_of(table(product_name=zones), {})[0].columns


def test_no_row_is_dropped_for_a_guessed_user() -> None:
    ids = [f"h{row % 9}" for row in range(40)]
    gaps = [None if row % 3 else f"h{row % 9}" for row in range(40)]
    roles, _ = roles_of(table(author=[*gaps[:1], None, *ids[2:]], handle=ids), {})
    assert (roles.columns["user"], roles.others["user"]) == ("handle", ("author",))
    for missing in (None, "", float("nan")):
        roles, _ = roles_of(table(author=[missing, *ids[1:]]), {})
        assert "user" not in roles.columns
        assert roles.refused["user"] == ("author", "1 row with text has no value there")
    blank_too = table(author=[None, *ids[1:]])
    blank_too["text"][0] = " "  # which is left out for its text
    assert roles_of(blank_too, {})[0].columns["user"] == "author"


def test_a_column_that_was_not_taken_is_named() -> None:
    for name, values, reason in (
        ("user", ["me"] * 40, "it has one value"),
        ("user", list(range(40)), "no value stands there twice"),
        ("label", ["a", "b"] * 19 + ["a", "c"], "'c'"),
        ("label", list(range(40)), "40 values"),
    ):
        roles, _ = roles_of(table(**{name: values}), {})
        assert name not in roles.columns
        assert reason in roles.refused[name][1]  # type: ignore[index]


def test_lists_that_python_printed_are_named() -> None:
    spans = [str([{"start": 0, "end": 3, "type": "PERSON"}])] * 40
    roles, _ = roles_of(table(spans=spans), {})
    assert roles.refused["entities"][0] == "spans"
    assert "json.dumps" in roles.refused["entities"][1]
    with pytest.raises(InputError, match=r"'tokens'.*JSON.*json\.dumps"):
        roles_of({"tokens": [str(["Ann", "came"])] * 40, "tags": [str(["B-PER", "O"])] * 40}, {})


def test_decimals_and_dates_are_values() -> None:
    users = [Decimal(row % 9) for row in range(40)]
    assert roles_of(table(user=users), {})[0].columns["user"] == "user"


@pytest.mark.parametrize(
    "span",
    [
        {"start": 0, "end": 3, "entity_type": "PERSON", "score": 1.0},
        {"start_position": 0, "end_position": 3, "entity_type": "PERSON"},
        {"start": 0, "end": 3, "label": "PERSON"},
        [0, 3, "PERSON"],
    ],
)
def test_spans_of_other_tools_are_seen(span: object) -> None:
    roles, _ = roles_of(table(found=[[span], [], *[None] * 38]), {})
    assert roles.columns["entities"] == "found"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0\tfirst of all texts\n1\tthe second text\n", r"a\.tsv.*header.*'0'"),
        ("a text of more than six words it is\tx\nsome text\ty\n", r"a\.tsv.*header.*'a text"),
        ("good\tone\nbad\ttwo\ngood\tone more\ngood\tthree\nbad\tx\nbad\ty\n", " 2 rows"),
        ("user\ttext\nu1\tone\nuser\ttext\nu2\ttwo\n", r"a\.tsv.*row 2"),
    ],
)
def test_a_first_row_of_data_is_no_header(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(InputError, match=message):
        spec_of(tmp_path / "a.tsv")


def test_quotes_that_are_text_are_proposed(tmp_path: Path) -> None:
    rows = [f"u{row % 60}\tthe words of row {row}" for row in range(120)]
    rows[10], rows[20] = 'u1\t"I came', 'u2\tI left"'
    (tmp_path / "a.tsv").write_text("\n".join(["user\ttext", *rows]) + "\n")
    draft, data = spec_of(tmp_path / "a.tsv")
    assert data["source"]["params"]["quoting"] == "none"
    assert "120 rows" in "\n".join(draft.facts)
    assert "source.quoting" in "\n".join(draft.guesses)


@pytest.mark.parametrize(
    ("content", "quoting"),
    [
        ('text\n"one\ntwo"\n', "standard"),
        ('user,text\nu1,"one \\"two\\" three"\nu2,"four"\n', None),
        ('user,text\nu1,"one\nu2,two"\nu3,x\n', "none"),
        ('user,text\nu1,"one\ntwo"\nu3,x\n', None),
    ],
)
def test_quoting_is_proposed_where_a_file_does_not_show_it(
    tmp_path: Path, content: str, quoting: str | None
) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert look_at(tmp_path / "a.csv").quoting == quoting


def test_a_named_text_says_that_there_is_a_header(tmp_path: Path) -> None:
    name = "What did you like best about it all"
    rows = "".join(f"this is what person {row} liked\n" for row in range(90))
    (tmp_path / "a.tsv").write_text(f"{name}\n{rows}")
    with pytest.raises(InputError, match=r"a\.tsv.*header.*'What did"):
        spec_of(tmp_path / "a.tsv")
    _, data = spec_of(tmp_path / "a.tsv", text=name)
    assert data["source"]["params"]["text_column"] == name


def test_entities_bring_a_row_without_them(tmp_path: Path) -> None:
    spans = [{"start": 0, "end": 3, "entity_type": "PERSON"}]
    file = tmp_path / "a.jsonl"
    lines = ({"text": f"Ann came home on day {row}", "names": spans} for row in range(120))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, data = spec_of(file, task="next-word")
    runs = expand(parse_spec(data))
    assert len(runs) == 12
    without = [run for run in runs if run.mechanism[0].name == "deidentify"]
    assert [part.name for part in without[0].mechanism] == ["deidentify", "noiseless"]
    assert len(jobs_of(without, tmp_path / "out")) == 3


def test_columns_of_lists_and_spans_are_known() -> None:
    spans = [{"start": 0, "end": 3, "type": "PER"}]
    columns = {"body": ["Ann came home late again", "Bo came home late", "and Kim too today"],
               "spans": [json.dumps(spans), "[]", None],
               "part": ["train", "dev", "test"]}  # fmt: skip
    roles, _ = roles_of(columns, {})
    assert dict(roles.columns) == {"text": "body", "entities": "spans", "split": "part"}
    lists = {"tokens": [["Ann", "came"], ["Bo"]], "ner_tags": [["B-PER", "O"], ["B-PER"]],
             "id": ["1", "2"]}  # fmt: skip
    roles, _ = roles_of(lists, {})
    assert dict(roles.columns) == {"tokens": "tokens", "tags": "ner_tags"}


def test_languages_are_told_by_frequent_words() -> None:
    texts = ("the cat is on the mat and it is old",) * 3 + ("der Hund ist nicht das was die Katze",)
    assert languages(texts) == {"English": 0.75, "German": 0.25}
    assert languages(("qwe rty",)) == {}


def test_a_named_delimiter_and_quoting_count(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    rows = "".join(f"u{row % 45}^'t is, \"the {row}. text of a person\n" for row in range(120))
    file.write_text(f"author^text\n{rows}")
    layout = {"delimiter": "^", "quoting": "none"}
    draft = first_spec(file, {}, task=None, public=(), epsilons=(8.0,), layout=layout)
    params = draft.origin.params
    assert (params["file_format"], params["delimiter"], params["quoting"]) == ("csv", "^", "none")
    assert (params["text_column"], params["user_column"]) == ("text", "author")
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    with pytest.raises(InputError, match=r"--delimiter.*jsonl"):
        look_at(tmp_path / "a.jsonl", layout)


@pytest.mark.parametrize("documents", [1, 3])
def test_a_few_documents_are_no_users(tmp_path: Path, documents: int) -> None:
    sentences = "Ann B-PER\ncame O\n\n" * 80
    (tmp_path / "a.bio").write_text(f"-DOCSTART- O\n\n{sentences}" * documents)
    draft, data = spec_of(tmp_path / "a.bio")
    assert "user_column" not in data["source"]["params"]
    assert f"only {documents} users" in "\n".join(draft.guesses)


def test_a_folder_of_brat_is_tagged_text(tmp_path: Path) -> None:
    for number in range(70):
        (tmp_path / f"d{number}.txt").write_text(f"Ann Lee came on day {number}")
        (tmp_path / f"d{number}.ann").write_text("T1\tPerson 0 7\tAnn Lee\n")
    _, data = spec_of(tmp_path)
    assert data["task"]["name"] == "tagging"
    assert data["source"]["params"]["file_format"] == "brat"
