from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from tests.support import checkpoints
from uedp_bench.components.registry import models
from uedp_bench.corpus import FeatureArray
from uedp_bench.errors import InputError
from uedp_bench.io.sealed_files import load_arrays, save_arrays
from uedp_bench.text import pretrained
from uedp_bench.text.pretrained import cached_vectors, full_batches


@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.sampled_from(["cpu", "cuda:1"]))
def test_each_row_comes_once_in_a_full_batch_of_its_length(lengths: list[int], device: str) -> None:
    counts = np.array(lengths)
    wanted: list[int] = []
    for rows, count in full_batches(counts, device):
        assert len(rows) == (8 if device == "cpu" else 64) >= count > 0
        assert len(set(counts[rows].tolist())) == 1
        wanted += rows[:count].tolist()
        assert set(rows.tolist()) == set(rows[:count].tolist())  # filled with its own rows
    assert sorted(wanted) == list(range(len(lengths)))


@given(st.lists(st.integers(0, 12), max_size=80))
def test_rows_that_may_have_neighbours_come_once_and_fill_nothing(lengths: list[int]) -> None:
    batches = list(full_batches(np.array(lengths, dtype=np.int64), "cpu", alone=False))
    rows = np.concatenate([rows for rows, _ in batches] or [np.empty(0, dtype=np.int64)])
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // 8)
    assert all(len(rows) == count for rows, count in batches)


class Counting:
    """The vector of a text is its length and its number of letters a."""

    def __init__(self) -> None:
        self.computed: list[str] = []

    def __call__(self, texts: list[str]) -> FeatureArray:
        self.computed += texts
        return np.array([[len(t), t.count("a")] for t in texts], dtype=np.float32)


@pytest.fixture
def compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path))
    return Counting()


def test_only_new_texts_are_computed(compute: Counting) -> None:
    first = cached_vectors(["k"], ["b", "aa", "b"], compute, cache=True)
    assert first.tolist() == [[1, 0], [2, 2], [1, 0]]
    assert compute.computed == ["aa", "b"]
    again = cached_vectors(["k"], ["ca", "aa"], compute, cache=True)
    assert again.tolist() == [[2, 1], [2, 2]]
    assert compute.computed == ["aa", "b", "ca"]


def test_what_was_computed_before_a_stop_is_there(
    compute: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained, "_PART", 2)

    def stops(texts: list[str]) -> FeatureArray:
        if "e" in texts:
            raise KeyboardInterrupt
        return compute(texts)

    with pytest.raises(KeyboardInterrupt):
        cached_vectors(["k"], list("abcdef"), stops, cache=True)
    assert compute.computed == list("abcd")
    cached_vectors(["k"], list("abcdef"), compute, cache=True)
    assert compute.computed == list("abcdef")


def test_without_the_cache_nothing_is_read_or_written(compute: Counting, tmp_path: Path) -> None:
    for _ in range(2):
        cached_vectors(["k"], ["a"], compute, cache=False)
    assert compute.computed == ["a", "a"]
    assert not list(tmp_path.rglob("*"))


def test_a_folder_that_cannot_be_made_is_no_error(
    compute: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "file"))
    assert cached_vectors(["k"], ["a"], compute, cache=True).tolist() == [[1, 1]]


def test_a_file_with_any_byte_changed_is_read_or_made_again(tmp_path: Path) -> None:
    """Broken compression and flags that nobody set are damage like any other."""
    file = tmp_path / "part.npz"
    save_arrays(file, "numbers", numbers=np.arange(40))
    good = file.read_bytes()
    arrays = []
    for at in range(0, len(good), 3):
        for flip in (0xFF, 0x01):
            file.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            arrays.append(load_arrays(file, lambda data: data["numbers"]))
    assert any(each is None for each in arrays)
    assert all(each is None or np.array_equal(each, np.arange(40)) for each in arrays)


def test_what_others_compute_meanwhile_is_taken(compute: Counting) -> None:
    def slow(texts: list[str]) -> FeatureArray:
        # Another process finishes the second part while this one computes the first.
        if texts == ["a"]:
            cached = compute(["b"])
            (folder,) = pretrained.cache_folder().glob("vectors/*")
            pretrained._write(folder, np.array([pretrained._name("b")], np.uint64), cached)
        return compute(texts)

    vector_cache_part = pretrained._PART
    try:
        pretrained._PART = 1
        vectors = cached_vectors(["k"], ["b", "a"], slow, cache=True)
    finally:
        pretrained._PART = vector_cache_part
    assert vectors.tolist() == [[1, 0], [1, 1]]
    assert sorted(compute.computed) == ["a", "b"]


def test_a_part_is_read_while_another_is_computed(compute: Counting) -> None:
    cached_vectors(["k"], ["a"], compute, cache=True)
    (folder,) = pretrained.cache_folder().glob("vectors/*")
    held = pretrained._digest(np.array([pretrained._name("a")], np.uint64))
    with FileLock(folder / "locks" / held[:2]):  # somebody computes something else
        assert cached_vectors(["k"], ["a"], compute, cache=True).tolist() == [[1, 1]]


def test_names_of_a_part_are_read_once(
    compute: Counting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A learner asks for the vectors of a few rows at a time, and there may be many parts."""
    for text in "abcd":
        cached_vectors(["k"], [text], compute, cache=True)
    opened: list[str] = []

    def counted(file: Path, read: Any) -> Any:
        opened.append(file.name)
        return load_arrays(file, read)

    monkeypatch.setattr(pretrained, "load_arrays", counted)
    cached_vectors(["k"], ["e"], compute, cache=True)
    assert len(opened) == 1  # that of the text before, which nobody read yet
    assert cached_vectors(["k"], ["b", "e"], compute, cache=True).tolist() == [[1, 0], [1, 0]]
    assert compute.computed == list("abcde")
    assert len(opened) == 4  # names of the newest part, and the vectors of two


@pytest.mark.parametrize(
    ("model", "kind"), [("gpt2", ""), ("checkpoint", ""), ("bert", "MaskedLM"),
                        ("checkpoint", "MaskedLM"), ("checkpoint", "SequenceClassification")],
)  # fmt: skip
def test_a_model_without_its_tokenizer_is_refused(model: str, kind: str, tmp_path: Path) -> None:
    if kind:
        checkpoints.encoder(tmp_path, kind)
    else:
        checkpoints.causal(tmp_path)
    for file in tmp_path.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(InputError, match=rf"^{model}\.pretrained .*tokenizer"):
        models.create(model, {"pretrained": str(tmp_path)}).vocabulary((), origin="", private=False)
