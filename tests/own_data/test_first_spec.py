"""What is found in files of anybody, what is guessed of them, and the spec that follows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from own_files import chat, mail, reviews, tokens

from uedp_bench.budget.calibration import Target
from uedp_bench.budget.planned_mechanisms import PlannedMechanism
from uedp_bench.errors import InputError
from uedp_bench.files.yaml_files import load_yaml
from uedp_bench.harness.grid import expand
from uedp_bench.harness.scheduler import jobs_of
from uedp_bench.harness.spec import parse_spec
from uedp_bench.own_data.column_roles import roles_of
from uedp_bench.own_data.file_facts import look_at
from uedp_bench.own_data.first_spec import first_spec
from uedp_bench.own_data.measured import languages


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PlannedMechanism, Target]]:
    """What noise was asked for; finding it takes seconds, and other tests do."""
    found: list[tuple[PlannedMechanism, Target]] = []

    def solve(planned: PlannedMechanism, target: Target) -> SimpleNamespace:
        found.append((planned, target))
        return SimpleNamespace(value=1.25)

    monkeypatch.setattr("uedp_bench.own_data.suggestion.solve", solve)
    return found


def spec_of(file: Path, *, task: str | None = None, **given: str):
    found = first_spec(file, given, task=task, public=(), names=("s.yaml", "runs/s"))
    return found, load_yaml(found.text)


def test_a_mailbox_with_semicolons_becomes_a_spec(tmp_path: Path) -> None:
    found, data = spec_of(mail(tmp_path))
    params = data["source"]["params"]
    wanted = {"encoding": "cp1252", "delimiter": ";", "text_column": "Mail Body",
              "user_column": "Sent From", "skip_blank": True}  # fmt: skip
    assert {name: params[name] for name in wanted} == wanted
    assert data["task"]["name"] == "next-word"
    said = "\n".join((*found.found, *found.guesses))
    for line in ("semicolons, cp1252", "160 rows of 50 users", "English", "--user COLUMN",
                 "1 rows with a blank 'Mail Body'", "--public FILE", "dp-sgd"):  # fmt: skip
        assert line in said, line
    names = [m if isinstance(m, str) else m["name"] for m in data["mechanisms"]]
    assert names == ["public-only", "noiseless", "dp-sgd"]
    # Every run passes all checks before training.
    assert len(jobs_of(expand(parse_spec(data)), tmp_path / "out")) == 9


def test_a_crowd_gets_a_mechanism_for_users_with_the_noise_that_is_needed(
    tmp_path: Path, asked: list[tuple[PlannedMechanism, Target]]
) -> None:
    found, data = spec_of(chat(tmp_path))
    assert data["source"]["params"]["text_column"] == "message.body"
    assert data["source"]["params"]["user_column"] == "from.id"
    record, user = data["mechanisms"][-2:]
    assert (record["name"], user["name"]) == ("dp-sgd", "user-dp")
    assert user["params"]["users"] == found.suggestion.sizes.users
    for part, (planned, target) in zip((record, user), asked, strict=True):
        assert dict(planned.params) | {"noise_multiplier": 1.25} == part["params"]
        assert (planned.name, target) == (part["name"], Target(8.0, 1e-5))
    assert data["delta"] == 1e-5
    assert len(jobs_of(expand(parse_spec(data)), tmp_path / "out")) == 12


def test_tags_and_classes_choose_the_task(tmp_path: Path) -> None:
    _, data = spec_of(tokens(tmp_path))
    assert data["task"]["name"] == "tagging"
    assert data["source"]["params"]["file_format"] == "conll"
    assert data["source"]["params"]["entity_types"] == ["PER"]
    found, data = spec_of(reviews(tmp_path))
    assert data["task"]["name"] == "text-classification"
    assert data["source"]["params"]["label_names"] == ["bad", "good"]
    assert "every row counts as a user of its own" in "\n".join(found.guesses)
    _, data = spec_of(reviews(tmp_path), label="none")
    assert data["task"]["name"] == "next-word"


def test_what_the_user_says_counts(tmp_path: Path) -> None:
    file = mail(tmp_path)
    _, data = spec_of(file, user="none")
    assert "user_column" not in data["source"]["params"]
    with pytest.raises(InputError, match=r"column \(--user\) named 'Sent Frm'.*'Sent From'"):
        spec_of(file, user="Sent Frm")
    for task, message in (
        ("tagging", "--task tagging: nothing marks entities"),
        ("text-classification", "--label COLUMN"),
        ("translation", "a spec is suggested for next-word"),
    ):
        with pytest.raises(InputError, match=message):
            spec_of(file, task=task)


def test_few_users_are_said_and_rows_are_the_unit(tmp_path: Path) -> None:
    found, data = spec_of(mail(tmp_path, users=5))
    assert "user_column" not in data["source"]["params"]
    assert "only 5 users" in "\n".join(found.guesses)
    assert "(--user 'Sent From' insists)" in "\n".join(found.guesses)


def test_text_without_words_for_secrets_has_a_spec_without_them(tmp_path: Path) -> None:
    file = tmp_path / "chat.csv"
    file.write_text("text\n" + "".join(f"你好 我 去 {row} 了 吗\n" for row in range(90)))
    found, data = spec_of(file)
    assert [part["name"] for part in data["attacks"]] == ["membership"]
    assert "left out: secret-sharer: the public split has" in "\n".join(found.guesses)


def test_too_little_or_nothing_readable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="10 rows are too few"):
        spec_of(reviews(tmp_path, rows=10))
    for name, content, message in (
        ("empty.csv", b"  \n", "is empty"),
        ("sheet.csv", b"PK\x03\x04\0\0\0", "is no text"),
        ("short.csv.gz", gzip.compress(b"text,user\n" * 99, mtime=0)[:-12], "damaged or cut short"),
        ("numbers.csv", b"a,b\n1,2\n3,4\n", "no column holds text"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            spec_of(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        spec_of(tmp_path / "missing.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"no file train\.\*"):
        spec_of(tmp_path / "folder")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"x,y\n1,2\n3,4\n", ("csv", "utf-8", ",", True)),
        ("a.csv", "x\ty\n1\té\n".encode(), ("csv", "utf-8", "\t", True)),
        ("a.dat", "x;y\n1;é\n2;z\n".encode("cp1252"), ("csv", "cp1252", ";", False)),
        ("a.csv", "x,y\n1,é\n".encode("utf-16"), ("csv", "utf-16", ",", True)),
        ("a.csv", b"x,y\n1,\x81\xe9\n", ("csv", "latin-1", ",", True)),
        ("a.json", b'[{"a": 1}]', ("json", "utf-8", None, True)),
        ("a.log", b'{"a": 1}\n', ("jsonl", "utf-8", None, False)),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n', mtime=0), ("jsonl", "utf-8", None, True)),
        ("a.txt", b"One, two.\nThree, four.\n", ("lines", "utf-8", None, True)),
        ("a.txt", b"Ann B-PER\ncame O\n\nBo B-PER\nsat O\n", ("conll", "utf-8", None, False)),
        ("a.bio", b"-DOCSTART- O\n\nAnn B-PER\ncame O\n\nBo O\n", ("conll", "utf-8", None, True)),
    ],
)
def test_how_a_file_is_written(tmp_path: Path, name: str, content: bytes, said) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    found = look_at(file)
    assert (found.file_format, found.encoding, found.delimiter, found.by_ending) == said


def test_columns_of_lists_and_spans_are_known() -> None:
    spans = [{"start": 0, "end": 3, "type": "PER"}]
    columns = {"body": ["Ann came home late again", "Bo came home late", "and Kim too today"],
               "spans": [json.dumps(spans), "[]", None],
               "part": ["train", "dev", "test"]}  # fmt: skip
    roles, _ = roles_of(columns, {})
    assert dict(roles.of) == {"text": "body", "entities": "spans", "split": "part"}
    lists = {"tokens": [["Ann", "came"], ["Bo"]], "ner_tags": [["B-PER", "O"], ["B-PER"]],
             "id": ["1", "2"]}  # fmt: skip
    roles, _ = roles_of(lists, {})
    assert dict(roles.of) == {"tokens": "tokens", "tags": "ner_tags"}


def test_languages_are_told_by_frequent_words() -> None:
    texts = ("the cat is on the mat and it is old",) * 3 + ("der Hund ist nicht das was die Katze",)
    assert languages(texts) == {"English": 0.75, "German": 0.25}
    assert languages(("qwe rty",)) == {}
