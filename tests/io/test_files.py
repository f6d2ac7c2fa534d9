"""JSON files of anybody: what is read of them is limited before it is looked at."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from uedp_bench.io.files import (
    MOST_BYTES,
    MOST_DEPTH,
    FormError,
    faults,
    file_text,
    parse,
)


def test_a_regular_file_and_a_link_to_it_are_read(tmp_path):
    (tmp_path / "a").write_text("ä", encoding="utf-8")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert file_text(tmp_path / "a") == file_text(tmp_path / "b") == "ä"


def test_nothing_else_is_and_nothing_waits(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, message in {
        "pipe": "is a pipe, a device or a socket, not a file",
        "endless": "is a pipe, a device or a socket, not a file",
        ".": "is a folder, not a file",
        "round": "cannot be read: Too many levels of symbolic links",
        "bytes": "is no text in UTF-8, so no JSON",
        "none": "there is no such file",
        "nu\0ll": "is no name of a file: it holds a null character",
    }.items():
        with pytest.raises(FormError) as caught:
            file_text(tmp_path / name)
        assert str(caught.value) == message


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**40)  # takes no room, and no reader has as much memory
    with pytest.raises(FormError, match="16 MiB"):
        file_text(path)
    with path.open("wb") as file:
        file.truncate(MOST_BYTES)
    assert len(file_text(path)) == MOST_BYTES


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs Linux: a file without a size")
def test_a_file_that_says_no_size_is_read_whole():
    path = Path("/proc/version")
    assert path.stat().st_size == 0
    assert file_text(path) == path.read_text() != ""


def test_json_is_limited_in_depth_and_size_of_numbers():
    assert parse("[" * MOST_DEPTH + "]" * MOST_DEPTH).value
    for text in ("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "[" * 100_000, '{"a":' * 5000):
        with pytest.raises(FormError, match="100"):
            parse(text)
    for text in ("{", "", "1" * 5000, "[1,]", '"' + "[" * 200, '["' + '\\"' * 200_000 + "[" * 200):
        with pytest.raises(FormError, match="JSON"):
            parse(text)


def test_names_that_are_there_twice_are_found_in_time_that_grows_with_the_file():
    many = ",".join(f'"n{i}":0,"n{i}":1' for i in range(50_000))
    began = time.process_time()
    parsed = parse(f'{{"a":{{{many}}},"b":1,"b":2,"b":3}}')
    assert time.process_time() - began < 5.0  # pairs of names would be 5 billion
    assert len(parsed.twice) == 50_001
    assert parsed.twice[-1] == "b"
    assert parsed.value["b"] == 3
    assert parse('{"a":1,"c":{"a":1}}').twice == ()


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ('{"a":1,"a":2,"b" :3}', ("a",)),
        ('{"a" : 1, "a" : 2}', ("a",)),
        ('{"a":":::","a":2}', ("a",)),
        (r'{"a":1,"a":"\u003a"}', ("a",)),
        (r'{"a":1,"a":"\u003A"}', ("a",)),
        ('{"a":{"b:":":","b:":1},"a":[]}', ("b:", "a")),
        ('{"a":":","b":{"c:":"d:"}}', ()),
    ],
)
def test_no_colon_hides_a_name_that_is_there_twice(text, twice):
    parsed = parse(text)
    assert (parsed.twice, parsed.value) == (twice, json.loads(text))
    assert not (parsed.sound and twice)


def test_only_a_value_without_faults_is_called_sound():
    for text in (
        "1e400",
        "[NaN]",
        '{"a": Infinity}',
        '"\\ud800"',
        '{"Infinity": 1}',
        '{"a":1,"a":1}',
    ):
        assert not parse(text).sound, text
    for text in ("1e30", '{"a": [1, -0.0, "ε", "\\ud83d\\ude00", 12345678901234567890]}'):
        parsed = parse(text)
        assert parsed.sound, text
        assert repr(parsed.value) == repr(json.loads(text))


def test_what_json_libraries_let_pass_is_found_at_its_place():
    value = json.loads('{"a":[1,NaN,{"b":-1e999}],"c":"\\ud83d","\\udc00":1,"d":"\\ud83d\\ude00"}')
    fault_messages = dict(faults(value))
    assert fault_messages == {
        ("a", 1): 'nan is no number of JSON; infinity is the text "inf"',
        ("a", 2, "b"): '-inf is no number of JSON; infinity is the text "inf"',
        ("c",): "'\\ud83d' has half of a character",
        (): "the name '\\udc00' has half of a character",
    }
    assert not list(faults({"a": [1.5, "ä", None, True, {}], "ü": {"x": "inf"}}))


def test_no_path_of_a_file_reaches_a_terminal_through_a_message(tmp_path: Path):
    with pytest.raises(FormError) as caught:
        parse('{"\x1b[31m": 1}')
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1e400", "1E+0400", "1" + "0" * 250 + "e99", "1" + "0" * 310 + ".5",
     '"\\ud800"', '"\\uDfff"', '"\ud800"'],
)  # fmt: skip
def test_a_text_with_faults_is_always_looked_into(value: str) -> None:
    text = f'{{"a": [{value}]}}'
    assert list(faults(parse(text).value))


def test_usual_texts_have_no_faults() -> None:
    text = '{"a": 1.5e-300, "b": "x \u00e4 inf", "c": 123456789012345678901234567890, "d": 1e99}'
    assert not list(faults(parse(text).value))
