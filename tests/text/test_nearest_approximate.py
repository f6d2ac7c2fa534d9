"""An approximate index is used when it is asked for, and then nothing is proven."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from uedp_bench.accounting.events import NonPrivate
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.errors import MissingExtraError
from uedp_bench.mechanisms.words.metric_dp import MetricDP
from uedp_bench.mechanisms.words.vickrey import Vickrey
from uedp_bench.one_run.planning.account import account
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism
from uedp_bench.text.word_vectors import ApproximateNearest, Nearest

STATS = CorpusStats(users=2, rows=3, sensitive_rows=2, entities=3, public=True)


@pytest.mark.parametrize("k", [1, 3])
def test_finds_most_neighbours_and_true_distances(k):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    points = rng.normal(size=(800, 20))
    out = rng.integers(800, size=200)
    queries = points[out] + 0.1 * rng.normal(size=(200, 20))
    for excluded in (None, out):
        neighbours, distance = ApproximateNearest(points)(queries, k, excluded)
        expected, _ = Nearest(points)(queries, k, excluded)
        assert (neighbours == expected).mean() > 0.8
        true = np.linalg.norm(queries[:, None] - points[neighbours], axis=2)
        assert np.allclose(distance, true)
        assert (np.diff(distance, axis=1) >= 0).all()
        assert excluded is None or not (neighbours == excluded[:, None]).any()


def test_same_index_twice():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(1)
    points, queries = rng.normal(size=(2000, 50)), 3 * rng.normal(size=(100, 50))
    first, second = (ApproximateNearest(points)(queries, 2)[0] for _ in range(2))
    assert np.array_equal(first, second)


def test_more_neighbours_than_points():
    pytest.importorskip("faiss")
    with pytest.raises(ValueError, match="k is 3"):
        ApproximateNearest(np.eye(3))(np.zeros((1, 3)), 3, np.array([0]))
    neighbours = ApproximateNearest(np.eye(3))(np.zeros((1, 3)), 2, np.array([0]))[0]
    assert sorted(neighbours[0].tolist()) == [1, 2]


@pytest.mark.parametrize(("kind", "params"), [(MetricDP, {}), (Vickrey, {"candidates": "all"})])
def test_guarantee_is_not_the_analysed_one(kind, params):
    exact, near = (
        kind.create({"epsilon": 2.0, "search": search, **params}) for search in ("exact", "hnsw")
    )
    assert not isinstance(exact.plan(STATS)[0].event, NonPrivate)
    (event,) = near.plan(STATS)
    assert isinstance(event.event, NonPrivate)
    assert "search is hnsw" in event.event.reason
    assert ["search is hnsw" in claim.note for claim in near.claims(STATS)] == [True]
    assert ["search is hnsw" in claim.note for claim in exact.claims(STATS)] == [False]
    planned = PlannedMechanism.from_settings(
        kind.name, {"epsilon": 2.0, "search": "hnsw", **params}
    )
    (proven,) = [g for g in account(planned, 1e-5) if g.kind == "proven"]
    assert proven.epsilon == np.inf
    assert "search is hnsw" in str(proven)


def test_runs_and_says_what_is_missing(tmp_path, monkeypatch):
    path = tmp_path / "vectors.txt"
    rng = np.random.default_rng(2)
    path.write_text(
        "".join(f"w{i} {' '.join(map(str, v))}\n" for i, v in enumerate(rng.normal(size=(50, 4))))
    )
    mechanism = MetricDP.create({"epsilon": 500.0, "embedding": path, "search": "hnsw"})
    pytest.importorskip("faiss")
    words = np.arange(50)
    channel = mechanism.word_channel(Run(1, STATS))
    assert (channel.sample(words, np.random.default_rng(0)) == words).mean() > 0.9
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'uedp-bench\[approximate\]'"):
        mechanism.word_channel(Run(1, STATS))
