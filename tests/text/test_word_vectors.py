"""Word vectors of text files: the formats, and one clear line for each thing that is wrong."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from uedp_bench.errors import InputError
from uedp_bench.text.word_vectors import read_embedding

GLOVE = "the 0.5 1 -2\ncat 1e-1 0 3\n"


def test_formats_agree(tmp_path):
    texts = {"a.txt": GLOVE, "b.vec": "2 3\n" + GLOVE.replace("\n", " \n"), "c.txt.gz": GLOVE}
    for name, text in texts.items():
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        embedding = read_embedding(tmp_path / name, "m.embedding")
        assert embedding.words == ("the", "cat")
        assert embedding.dimension == 3
        expected = np.array([[0.5, 1, -2], [0.1, 0, 3]], dtype=np.float32)
        assert np.array_equal(embedding.vectors, expected)


def test_words_are_found_as_written_then_in_lower_case(tmp_path):
    (tmp_path / "a").write_text("us 1 2\nUS 3 4\n")
    embedding = read_embedding(tmp_path / "a", "m.embedding")
    assert [embedding.find(word) for word in ("us", "US", "Us", "them")] == [0, 1, 0, -1]


def test_a_file_written_anew_is_read_anew(tmp_path):
    (tmp_path / "a").write_text("us 1 2\n")
    assert read_embedding(tmp_path / "a", "f").dimension == 2
    (tmp_path / "a").write_text("us 1 2 3\n")
    assert read_embedding(tmp_path / "a", "f").dimension == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1\n", "line 2: .*1 numbers.* 2"),
        ("2 3\na 1 2 3\nb 1 2\n", "line 3: .*2 numbers.* 3"),
        ("a 1 2\nb 1 2\na 3 4\n", "line 3.*'a'.*line 1"),
        ("a 1 x\n", "line 1: .*'x'"),
        ("a 1 nan\n", "line 1: .*finite"),
        ("a 1 2\n\nb 1 2\n", "line 2: .*vector"),
        ("3 2\na 1 2\n", "declares 3 words; 1 follow"),
        ("", r"bad\.txt: .*words"),
        ("2 3\n", "declares 2 words; 0 follow"),
    ],
)
def test_bad_files(tmp_path, text, message):
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_embedding(tmp_path / "bad.txt", "m.embedding")
    assert str(error.value).startswith("m.embedding: ")
    assert "\n" not in str(error.value)


def test_unreadable_files(tmp_path):
    with pytest.raises(InputError, match=r"none.*No such file"):
        read_embedding(tmp_path / "none", "m.embedding")
    (tmp_path / "latin").write_bytes("é 1 2\n".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        read_embedding(tmp_path / "latin", "m.embedding")
    (tmp_path / "x.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"x\.gz.*gzip"):
        read_embedding(tmp_path / "x.gz", "m.embedding")
    packed = bytearray(gzip.compress(GLOVE.encode() * 50))
    packed[10] ^= 0xFF  # the head of the compressed stream
    (tmp_path / "z.gz").write_bytes(packed)
    with pytest.raises(InputError, match=r"z\.gz.*-3"):
        read_embedding(tmp_path / "z.gz", "m.embedding")
    (tmp_path / "y.gz").write_bytes(gzip.compress(GLOVE.encode())[:-8])
    with pytest.raises(InputError, match=r"y\.gz.*end-of-stream"):
        read_embedding(tmp_path / "y.gz", "m.embedding")
