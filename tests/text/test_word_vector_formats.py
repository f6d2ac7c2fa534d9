"""Word vectors in files that gensim and spaCy wrote."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from uedp_bench.errors import InputError, MissingExtraError
from uedp_bench.text.word_vectors import read_embedding

WORDS = ["the", "cat", "Us", "two words"]
VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def keyed():
    from gensim.models import KeyedVectors

    vectors = KeyedVectors(3)
    vectors.add_vectors(WORDS, VECTORS)
    return vectors


def check(embedding):
    # White space separates words: no text has the last one.
    assert dict(zip(embedding.words, embedding.vectors.tolist(), strict=True)) == {
        word: vector.tolist() for word, vector in zip(WORDS[:3], VECTORS, strict=False)
    }
    assert embedding.vectors.dtype == np.float32
    assert embedding.find("THE") == embedding.words.index("the")


def test_keyed_vectors(tmp_path):
    keyed().save(str(tmp_path / "a.kv"))
    check(read_embedding(tmp_path / "a.kv", "m.embedding"))


def test_word2vec_binary(tmp_path):
    vectors = keyed()
    del vectors.key_to_index["two words"]
    vectors.index_to_key = vectors.index_to_key[:3]
    vectors.vectors = vectors.vectors[:3]
    vectors.save_word2vec_format(str(tmp_path / "a.bin"), binary=True)
    check(read_embedding(tmp_path / "a.bin", "m.embedding"))


def test_a_trained_model(tmp_path):
    from gensim.models import Word2Vec

    sentences = [["a", "b", "c", "d"]] * 20
    model = Word2Vec(sentences, vector_size=5, min_count=1, epochs=1, workers=1, seed=1)
    model.save(str(tmp_path / "w.model"))
    embedding = read_embedding(tmp_path / "w.model", "m.embedding")
    assert sorted(embedding.words) == ["a", "b", "c", "d"]
    assert np.array_equal(embedding.vectors[embedding.find("b")], model.wv["b"])


def test_spacy_pipeline(tmp_path):
    import spacy

    pipeline = spacy.blank("en")
    for word, vector in zip(WORDS, VECTORS, strict=True):
        pipeline.vocab.set_vector(word, vector)
    pipeline.to_disk(tmp_path / "pipeline")
    check(read_embedding(tmp_path / "pipeline", "m.embedding"))
    with pytest.raises(InputError, match=r"spacy:.*pipeline.*'spacy:'"):
        read_embedding(f"spacy:{tmp_path / 'pipeline'}", "m.embedding")


def test_bad_files(tmp_path):
    import spacy
    from gensim.models import KeyedVectors

    (tmp_path / "junk.kv").write_bytes(b"no pickle")
    (tmp_path / "junk.bin").write_bytes(b"3 4\nshort")
    spacy.blank("en").to_disk(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    broken = KeyedVectors(2)
    broken.add_vectors(["a"], np.array([[1.0, np.nan]], dtype=np.float32))
    broken.save(str(tmp_path / "nan.kv"))
    spaced = KeyedVectors(2)
    spaced.add_vectors(["a b"], np.ones((1, 2), dtype=np.float32))
    spaced.save(str(tmp_path / "spaced.kv"))
    for name, message in (
        ("junk.kv", r"junk\.kv"),
        ("junk.bin", r"junk\.bin"),
        ("gone.kv", r"gone\.kv.*No such file"),
        ("none", "none.*vectors"),
        ("empty", "empty.*E053"),
        ("nan.kv", "'a'"),
        ("spaced.kv", r"spaced\.kv.*words"),
    ):
        with pytest.raises(InputError, match=message) as error:
            read_embedding(tmp_path / name, "m.embedding")
        assert str(error.value).startswith("m.embedding: ")
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="no_such_pipeline"):
        read_embedding("spacy:no_such_pipeline", "m.embedding")


def test_a_missing_library_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    (tmp_path / "a.kv").write_bytes(b"")
    with pytest.raises(MissingExtraError, match=r"'uedp-bench\[embeddings\]'"):
        read_embedding(tmp_path / "a.kv", "m.embedding")
