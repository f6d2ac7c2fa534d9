"""Linking: who is known, how profiles compare, and that recall is k / authors by chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.attacks.reidentify import linking as _linking
from uedp_bench.attacks.reidentify.linking import TextProfiles, VectorProfiles, divide, recalls
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError


def corpus_of(rows_of_user: list[int]) -> Corpus:
    users = np.repeat(np.arange(len(rows_of_user)), rows_of_user)
    return Corpus(
        texts=tuple(f"text {i}" for i in range(len(users))),
        groups={"user": users},
        split=np.zeros(len(users), dtype=np.int64),
    )


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=8).filter(lambda n: sum(n) > 0),
    st.floats(0.05, 0.95),
    st.integers(0, 99),
)
def test_every_author_has_something_known_and_something_hidden(sizes, share, seed):
    corpus = corpus_of(sizes)
    usable = np.ones(len(corpus), dtype=bool)
    division = divide(corpus, usable, share, (5, 6), np.random.default_rng(seed))
    able = [user for user, rows in enumerate(sizes) if rows >= 2]
    assert len(division.authors) == min(5, len(able))
    assert set(division.authors.tolist()) <= set(able)
    assert not set(division.known_rows.tolist()) & set(division.hidden.tolist())
    for author in division.authors:
        visible, hidden = (int((corpus.users[rows] == author).sum()) for rows in division[1:])
        used = min(6, sizes[author])
        assert visible + hidden == used
        assert visible == min(max(1, round(share * used)), used - 1)


def test_what_is_drawn_for_a_row_does_not_depend_on_other_rows():
    corpus = corpus_of([6, 6, 6, 6])
    usable = np.ones(len(corpus), dtype=bool)
    every = divide(corpus, usable, 0.5, (9, 9), np.random.default_rng(1))
    usable[:6] = False
    fewer = divide(corpus, usable, 0.5, (9, 9), np.random.default_rng(1))
    assert fewer.authors.tolist() == [1, 2, 3]
    assert fewer.known_rows.tolist() == every.known_rows[every.known_rows >= 6].tolist()


@given(st.integers(2, 40), st.integers(1, 12))
def test_recall_is_chance_where_nothing_differs(authors, k):
    (recall,) = recalls(iter([np.zeros((1, authors))]), np.array([authors - 1]), (k,))
    assert recall[0] == pytest.approx(min(1.0, k / authors))


def test_ties_are_broken_by_chance_and_ranks_count_from_the_best():
    block = np.array([[0.9, 0.5, 0.5, 0.1], [0.9, 0.5, 0.5, 0.1]])
    recall = recalls(iter([block[:1], block[1:]]), np.array([1, 3]), (1, 2, 3, 4))
    assert recall[0] == pytest.approx([0.0, 0.5, 1.0, 1.0])
    assert recall[1] == pytest.approx([0.0, 0.0, 0.0, 1.0])


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(50)]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(40)]
    owner, vectors = np.arange(40) % 8, rng.normal(size=(40, 5))
    by_block = []
    for size in (7, 512):
        monkeypatch.setattr(_linking, "BLOCK", size)
        by_block.append([
            recalls(TextProfiles(texts, owner, 8).similarities(texts[::-1]), owner, (1, 3)),
            recalls(VectorProfiles(vectors, owner, 8).similarities(vectors[::-1]), owner, (1, 3)),
        ])  # fmt: skip
    assert np.array_equal(by_block[0], by_block[1])


def test_similarity_is_the_mean_of_two_cosines():
    profiles = TextProfiles(["a b c", "d e f"], np.array([0, 1]), 2)
    (block,) = profiles.similarities(["a b c", "x y z", ""])
    assert block[0] == pytest.approx([1.0, 0.0])
    assert block[1:] == pytest.approx(np.zeros((2, 2)))


def test_vectors_compare_by_direction_and_zero_has_none():
    vectors = np.array([[1.0, 0.0], [0.0, 5.0], [0.0, 0.1]])
    profiles = VectorProfiles(vectors, np.array([0, 1, 1]), 2)
    (block,) = profiles.similarities(np.array([[9.0, 0.0], [3.0, 4.0], [0.0, 0.0]]))
    assert block == pytest.approx(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 0.0]]))


def test_nan_is_an_error():
    with pytest.raises(InputError, match="NaN"):
        VectorProfiles(np.array([[np.nan, 1.0]]), np.array([0]), 1)
    with pytest.raises(InputError, match="NaN"):
        recalls(iter([np.array([[np.nan, 1.0]])]), np.array([0]), (1,))
