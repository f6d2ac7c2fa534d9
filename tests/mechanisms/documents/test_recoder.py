"""Depths are those of the double loop, and one sentence changes none of them by more than 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from uedp_bench.mechanisms.documents import recoder as _tukey_depth
from uedp_bench.mechanisms.documents.recoder import TukeyDepth

DEPTHS = ("lowest", "highest")


def by_loops(candidates, directions, sentences, depth):
    """Algorithm 1 of the paper, plus k / 2."""
    depths = []
    for candidate in candidates:
        levels = []
        for line in directions:
            h = sum(1 for sentence in sentences if sentence @ line >= candidate @ line)
            levels.append(-abs(h - len(sentences) / 2))
        level = min(levels) if depth == "lowest" else max(levels)
        depths.append(int(level + len(sentences) / 2))
    return depths


def small(rows):
    """Few distinct integers: sentences stand on candidates, and on each other."""
    return arrays(np.float64, (rows, 2), elements=st.integers(-2, 2).map(float))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), depth=st.sampled_from(DEPTHS), block=st.integers(1, 40))
def test_depth_is_that_of_the_loops(data, depth, block):
    lengths = np.array(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5)))
    candidates, directions = data.draw(small(6)), data.draw(small(3))
    points = data.draw(small(int(lengths.sum())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tukey_depth, "_CELLS", block)
        depth_table = TukeyDepth(candidates, directions, depth)(points, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for row, depths in enumerate(depth_table):
        sentences = points[ends[row] : ends[row + 1]]
        assert depths.tolist() == by_loops(candidates, directions, sentences, depth)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("sentences", [1, 20, 127, 128, 300])
def test_depth_of_real_vectors_and_long_documents(depth, sentences):
    rng = np.random.default_rng(sentences)
    candidates = rng.normal(size=(40, 12)).astype(np.float32) / 4
    directions = rng.normal(size=(9, 12))
    points = rng.normal(size=(sentences, 12)).astype(np.float32)
    depth_table = TukeyDepth(candidates, directions, depth)(points, np.array([sentences]))
    wanted = by_loops(candidates.astype(np.float64), directions, points.astype(np.float64), depth)
    assert depth_table[0].tolist() == wanted
    if sentences > 1:
        assert len(set(wanted)) > 1 or depth == "highest"


@settings(max_examples=100, deadline=None)
@given(data=st.data(), depth=st.sampled_from(DEPTHS))
def test_one_sentence_changes_every_depth_by_at_most_one(data, depth):
    """All replacements of every sentence by another one, on vectors with many ties."""
    sentences = data.draw(st.integers(1, 6))
    tukey = TukeyDepth(data.draw(small(5)), data.draw(small(4)), depth)
    before = data.draw(small(sentences))
    others = data.draw(small(4)) * data.draw(st.sampled_from([1.0, 1e9]))
    neighbours = np.repeat(before[None], sentences * len(others), axis=0)
    for at in range(sentences):
        neighbours[at * len(others) : (at + 1) * len(others), at] = others
    lengths = np.full(len(neighbours), sentences)
    after = tukey(neighbours.reshape(-1, 2), lengths)
    assert np.abs(after - tukey(before, np.array([sentences]))).max() <= 1


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_sensitivity_of_one_is_reached(depth):
    tukey = TukeyDepth(np.zeros((1, 1)), np.ones((1, 1)), depth)
    points = np.array([[-1.0], [-1.0], [1.0], [-1.0]])
    assert tukey(points, np.array([2, 2])).ravel().tolist() == [0, 1]


def test_lowest_falls_and_highest_rises_with_more_projections():
    rng = np.random.default_rng(2)
    candidates, directions = rng.normal(size=(30, 5)) / 3, rng.normal(size=(50, 5))
    points, lengths = rng.normal(size=(60, 5)), np.array([20, 10, 30])
    few, many = (
        {depth: TukeyDepth(candidates, directions[:p], depth)(points, lengths) for depth in DEPTHS}
        for p in (3, 50)
    )
    assert (many["lowest"] <= few["lowest"]).all()
    assert (many["lowest"] < few["lowest"]).any()
    assert (many["highest"] >= few["highest"]).all()
    assert (many["highest"] > few["highest"]).any()
    assert (many["highest"] <= lengths[:, None] // 2).all()
