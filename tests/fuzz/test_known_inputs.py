"""Inputs that once ended a command with a traceback, in silence, or never; and their kin."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from hostile import answer

pytestmark = pytest.mark.long

DEEP = "[" * 100_000
WHOLE = "9" * 4_400

SPECS = {
    "a date that is none": "seeds: [2001-13-45]",
    "a date": "description: 2001-01-01",
    "a number that is none": "seeds: [!!int x]",
    "4,400 digits": f"seeds: [{WHOLE}]",
    "30 digits": f"seeds: [{'9' * 30}]",
    "1,500 lists": "seeds: " + "[" * 1_500,
    "1,500 mappings": "{a: " * 1_500,
    "50,000 dashes": "- " * 50_000,
    "aliases of aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "merges of merges": "a: &a {x: 1, y: 2}\n"
    + "".join(
        f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "an alias of itself": "mechanisms: &m [*m]",
    "a key that is there twice": "seeds: [1]\nseeds: [2]",
    "a key that is a list": "? [a]\n: 1",
    "a mapping that is none": "!!map x",
    "a truth that is none": "!!bool maybe",
    "an object of Python": "!!python/object/apply:os.system [ls]",
    "bytes": "description: !!binary aGVsbG8=",
    "a set": "seeds: !!set {1}",
    "half of a character": 'description: "\\ud800"',
    "a null character": 'source: {name: text, params: {path: "a\\0b"}}',
    "an escape": 'task: "\\x1b[31mred"',
    "a part of 256 characters": f"source: {{name: text, params: {{path: {'a' * 256}}}}}",
    "a path of 10,000 characters": f"source: {{name: text, params: {{path: {'a/' * 5_000}}}}}",
    "a million runs": "mechanisms: [{name: user-dp, params: {rounds: &r "
    f"{list(range(1, 101))}, clip: *r, local_learning_rate: *r}}}}]",
    "a million seeds": f"mechanisms: [noiseless]\nseeds: {list(range(20_000))}",
    "a million trials": "mechanisms: [user-dp]\nselection: {tried: {mechanism.user-dp.rounds: &r "
    f"{list(range(1, 1001))}, mechanism.user-dp.clip: *r}}}}",
    "a text of a mebibyte": "description: '" + "x" * 2**20 + "'",
    "a mebibyte of spaces": " " * 2**20,
    "not text": "description: \x07",
}


@pytest.fixture(autouse=True, scope="module")
def imported():
    """What is imported once does not count."""
    answer(["list"])


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch, tmp_path):
    from uedp_bench.spec.grid import expand, tried_runs
    from uedp_bench.spec.spec import parse_spec

    def counted(data, options, as_json):
        for run in expand(parse_spec(data), options.max_runs):
            tried_runs(run)

    monkeypatch.setattr("uedp_bench.cli.run.benchmark", counted)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("what", SPECS)
def test_specs_are_refused_in_one_line_and_soon(tmp_path, what):
    (tmp_path / "spec.yaml").write_text(SPECS[what])
    answer(["run", "spec.yaml"], codes=(2,), seconds=4.0)


@pytest.mark.parametrize(
    "value",
    [
        DEEP[:1_500],
        DEEP,
        WHOLE,
        "2001-13-45",
        "!!int x",
        "{a: " * 500,
        "&a [*a]",
        "a" * 10**6,
        '"\\ud800"',
        '"\\0"',
        "!!binary x",
        "'",
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["run", "--mechanism", "user-dp", "--set", "mechanism.rounds="],
        ["account", "user-dp", "--set", "rounds="],
        ["data", "describe", "embedded", "--set", "users="],
    ],
)
def test_settings_are_refused_in_one_line_and_soon(command, value):
    _, _, error_text = answer([*command[:-1], command[-1] + value], codes=(2,), seconds=4.0)
    assert "--set" in error_text or "rounds" in error_text or "users" in error_text


def test_more_runs_than_usual_are_allowed_where_asked_for(tmp_path):
    command = ["run", "--mechanism", "noiseless", "--seeds", "1,2,3"]
    answer([*command, "--max-runs", "3"], codes=(0,))
    _, _, error_text = answer([*command, "--max-runs", "2"], codes=(2,))
    assert "3 runs" in error_text
    assert "--max-runs" in error_text


def places(tmp_path: Path) -> dict[str, str]:
    """Names of what is no regular file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "not there")
    return {name: name for name in ("pipe", "folder", "endless", "loop", "nowhere")} | {
        "a part of 256 characters": "a" * 256,
        "5,000 characters": "a/" * 2_500,
        "not there": "b/c",
        "below a file": "file/b",
        "a terminal": "/dev/tty",
    }


@pytest.mark.parametrize(
    "command",
    [
        "run {}",
        "account --events {}",
        "list --plugin {}",
        "data describe conll2003 --path {}",
        "data describe text --path {}.csv",
        "data describe text --path {}.jsonl",
        "data describe text --path {}.parquet",
        "data describe embedded --set public=[{}]",
        "bound --members {}.txt --nonmembers {}.txt",
        "bound --members {}.npy --nonmembers {}.npy",
        "leaderboard --results {}",
        "report {} --out report.md",
    ],
)
def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path, command):
    ending = next((part[2:] for part in command.split() if part.startswith("{}.")), "")
    (tmp_path / "file").write_text("x")
    for name in places(tmp_path).values():
        if ending and Path(name).parent == Path() and len(name) < 250:
            Path(name + ending).symlink_to(tmp_path / name)
        _, _, error_text = answer([part.format(name) for part in command.split()], codes=(2,))
        assert len(error_text) < 1_000


ROW = json.dumps({"text": "a b", "user": "u"}) + "\n"
ROWS = "".join(json.dumps({"text": "a b", "user": f"u{n}"}) + "\n" for n in range(20))

FILES: dict[str, tuple[str, bytes]] = {
    "nested 100,000 deep": ("jsonl", (ROWS + '{"text": ' + DEEP).encode()),
    "4,400 digits": ("jsonl", f'{ROWS}{{"text": {WHOLE}}}'.encode()),
    "half of a character": ("jsonl", f'{ROWS}{{"text": "a \\ud800", "user": "u"}}'.encode()),
    "half of a user": ("jsonl", f'{ROWS}{{"text": "a", "user": "\\udfff"}}'.encode()),
    "a null character": ("jsonl", f'{ROWS}{{"text": "a \\u0000", "user": "u"}}'.encode()),
    "not a number": ("jsonl", f'{ROWS}{{"text": "a", "user": NaN}}'.encode()),
    "a list in place of a text": ("jsonl", f'{ROWS}{{"text": ["a"], "user": "u"}}'.encode()),
    "a line without end": ("jsonl", b'{"text": "' + b"x" * 2**25),
    "a bomb": ("jsonl.gz", gzip.compress(bytes(2**25))),
    "a quotation without end": ("csv", b'text,user\n"a,u\nb,u\n'),
    "a null byte in csv": ("csv", b"text,user\na\0b,u\n" * 3),
    "one name twice": ("csv", b"text,text\na,b\n"),
    "too few fields": ("csv", b"text,user\na\n"),
    "not UTF-8": ("tsv", b"text\tuser\n\xff\xfe\t1\n"),
    "UTF-16": ("csv", "text,user\na,b\n".encode("utf-16")),
    "nothing": ("csv", b""),
    "parquet cut short": ("parquet", b"PAR1" + bytes(100) + b"PAR1"),
    "no parquet": ("parquet", b"PAR1"),
}


@pytest.mark.parametrize("what", FILES)
def test_data_files_are_refused_in_one_line(tmp_path, what):
    ending, content = FILES[what]
    (tmp_path / f"data.{ending}").write_bytes(content)
    command = ["data", "describe", "text", "--path", f"data.{ending}", "--set", "user_column=user"]
    _, _, error_text = answer(command, codes=(2,))
    assert any(
        why in error_text for why in (f"data.{ending}", "row 21", "row 1 of", "columns: none")
    ), error_text
    assert "too few" not in error_text


def test_half_of_a_character_is_named_by_its_row(tmp_path):
    (tmp_path / "data.jsonl").write_text(ROW * 3 + '{"text": "a \\ud800", "user": "u"}\n' + ROW)
    command = ["data", "describe", "text", "--path", "data.jsonl"]
    _, _, error_text = answer(command, codes=(2,))
    assert "row 4 of 5" in error_text
    assert "half of a character" in error_text
    # Two halves are one character.
    (tmp_path / "data.jsonl").write_text((ROW + '{"text": "\\ud83d\\udca9", "user": "v"}\n') * 20)
    answer(command, codes=(0,))


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    rows = "".join(f"a {n},u{n}\n" for n in range(20))
    (tmp_path / "data.csv").write_text("\ufefftext,user\n" + rows, encoding="utf-8")
    answer(["data", "describe", "text", "--path", "data.csv"], codes=(0,))


@pytest.mark.parametrize(
    "content",
    [
        DEEP,
        f"[{WHOLE}]",
        "[NaN]",
        '[{"unit": "user", "event": {"kind": "gaussian", "noise_multiplier": 1e999}}]',
        '["\\ud800"]',
        "\ufeff[]x",
        "[" + "1," * 10**5 + "1]",
        "null",
        "{}",
        '{"events": 1}',
    ],
)
def test_events_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "events.json").write_text(content)
    answer(["account", "--events", "events.json"], codes=(2,))


def test_numbers_of_very_many_digits_in_options():
    for arguments in (
        ["run", "--mechanism", "noiseless", "--seeds", WHOLE],
        ["account", "user-dp", "--spread", WHOLE],
        ["account", "user-dp", "--delta", WHOLE],
        [
            "bound",
            "one-run",
            "--canaries",
            WHOLE,
            "--guesses",
            "1",
            "--correct",
            "1",
            "--delta",
            "0",
        ],
        ["calibrate", "user-dp", "--epsilon", WHOLE, "--set", "users=10"],
    ):
        answer(arguments)


def test_arguments_that_are_not_utf8():
    _, _, error_text = answer(["run", os.fsdecode(b"\xff.yaml")], codes=(2,))
    assert "UTF-8" in error_text


def test_all_that_is_wrong_is_said_at_once():
    settings = ["rounds=0", "clip=-1", "local_learning_rate=x"]
    _, _, error_text = answer(
        ["account", "user-dp", *(part for one in settings for part in ("--set", one))], codes=(2,)
    )
    assert all(name in error_text for name in ("rounds", "clip", "local_learning_rate"))


def test_a_folder_of_everything_is_no_parameter(tmp_path, monkeypatch):
    monkeypatch.setattr("uedp_bench.spec.identity.MOST_FILES", 3)
    for number in range(4):
        (tmp_path / str(number)).write_text("x")
    from uedp_bench.components.component import MayBePath
    from uedp_bench.errors import InputError
    from uedp_bench.spec.identity import content_of

    with pytest.raises(InputError, match="more than 3 files"):
        content_of(str(tmp_path), MayBePath())
    with pytest.raises(InputError, match="not a file"):
        content_of("/dev/zero", MayBePath())
