"""Word vectors of text files: the formats, and one clear line for each thing that is wrong."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.errors import InputError
from uedp_bench.text import word_vectors as _nearest
from uedp_bench.text.word_vectors import Nearest, read_embedding

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


def brute_force(queries, points, k, excluded=None):
    squared = ((queries[:, None, :] - np.asarray(points, dtype=np.float64)) ** 2).sum(axis=2)
    if excluded is not None:
        squared[np.arange(len(queries)), excluded] = np.inf
    nearest = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return nearest, np.sqrt(np.take_along_axis(squared, nearest, axis=1))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dimension=st.integers(1, 40),
    points=st.integers(5, 60),
    k=st.integers(1, 4),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    shift=st.sampled_from([0.0, 100.0]),
    leave_out=st.booleans(),
)
def test_as_brute_force(seed, dimension, points, k, scale, shift, leave_out):
    rng = np.random.default_rng(seed)
    table = (rng.normal(size=(points, dimension)) + shift).astype(np.float32)
    queries = table[rng.integers(points, size=30)] + scale * rng.normal(size=(30, dimension))
    excluded = rng.integers(points, size=30) if leave_out else None
    expected, far = brute_force(queries, table, k, excluded)
    for grouped in (1, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_nearest, "_GROUPED", grouped)
            neighbours, distance = Nearest(table)(queries, k, excluded)
        assert np.array_equal(neighbours, expected)
        assert np.array_equal(distance, far)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_near_ties_that_float32_cannot_tell(k):
    """Far from the origin float32 scores of these points are equal or in the wrong order."""
    rng = np.random.default_rng(5)
    table = 50.0 + 1e-4 * rng.normal(size=(300, 20)).astype(np.float32)
    queries = 50.0 + 1e-4 * rng.normal(size=(200, 20))
    scores = (table**2).sum(axis=1, dtype=np.float32) / 2 - queries.astype(np.float32) @ table.T
    expected, _ = brute_force(queries, table, k)
    assert (scores.argmin(axis=1) != expected[:, 0]).mean() > 0.5
    assert np.array_equal(Nearest(table)(queries, k)[0], expected)


@pytest.mark.parametrize("k", [1, 2])
def test_rings_of_equal_distances_and_copies_of_points(monkeypatch, k):
    monkeypatch.setattr(_nearest, "_GROUPED", 1)
    rng = np.random.default_rng(7)
    direction = rng.normal(size=(400, 12))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    ring = (1 + 1e-6 * rng.normal(size=(400, 1))) * direction
    table = np.concatenate([ring, ring[:50], 10 + rng.normal(size=(100, 12))])
    queries = 1e-6 * rng.normal(size=(60, 12))
    search = Nearest(table)
    expected, _ = brute_force(queries, table, k)
    scores, _ = search._scores(queries)
    assert (scores.argmin(1).numpy() != expected[:, 0]).mean() > 0.3
    assert np.array_equal(search(queries, k)[0], expected)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 50.0])
def test_bound_covers_the_error_of_every_score(scale):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(500, 64)) * rng.gamma(2.0, 1.0, size=(500, 1)) + 3.0
    queries = points[:100] + scale * rng.normal(size=(100, 64))
    scores, error = Nearest(points)._scores(queries)
    mean = points.mean(axis=0)
    x, y = queries - mean, points - mean
    true = (y**2).sum(axis=1) / 2 - x @ y.T
    approximate = scores.double().numpy()
    assert (
        np.abs(approximate - true) <= error[:, None] + _nearest._UNIT * np.abs(approximate)
    ).all()
    assert np.median(error) < 1e-3 * np.ptp(true)  # it is no vacuous bound either


def test_points_that_are_all_one():
    assert Nearest(np.ones((40, 5)))(np.zeros((3, 5)), 2)[0].tolist() == [[0, 1]] * 3


def test_ties_go_to_the_smaller_index():
    table = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    origin = np.zeros((1, 2))
    assert Nearest(table)(origin, 4)[0].tolist() == [[0, 1, 2, 3]]
    assert Nearest(table)(origin, 3, np.array([0]))[0].tolist() == [[1, 2, 3]]


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    table, queries = rng.normal(size=(50, 6)), rng.normal(size=(40, 6))
    whole = Nearest(table)(queries, 3)
    monkeypatch.setattr(_nearest, "_BLOCK_ENTRIES", 150)
    monkeypatch.setattr(_nearest, "_PAIR_ENTRIES", 13)
    parts = Nearest(table)(queries, 3)
    assert np.array_equal(whole[0], parts[0])
    assert np.array_equal(whole[1], parts[1])


def test_more_neighbours_than_points():
    with pytest.raises(ValueError, match="k is 3"):
        Nearest(np.eye(3))(np.zeros((1, 3)), 3, np.array([0]))
