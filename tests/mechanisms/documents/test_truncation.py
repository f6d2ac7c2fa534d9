"""Truncation: noise has its density and scale, one sentence moves a mean by no more than proven."""

from __future__ import annotations

import numpy as np
import pytest
from documents import SIZE, STATS, corpus_on_topics, hashed_sentences, run_of, text_on
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from uedp_bench.accounting.events import LaplaceVector
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.documents.sentence_mechanism import Documents
from uedp_bench.mechanisms.documents.truncation import Truncation
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism

__all__ = ["hashed_sentences"]


def rngs(count, seed=0):
    return [np.random.default_rng([seed, at]) for at in range(count)]


def standardised(dimension, count, epsilon, sentences):
    """Noise of so many documents over its scale d w / (k epsilon), each dimension's own width."""
    rng = np.random.default_rng(dimension)
    low = rng.normal(size=dimension)
    high = low + rng.uniform(0.1, 5, size=dimension)
    vectors = rng.normal(size=(sentences, dimension)).astype(np.float32)
    documents = Documents(np.tile(vectors, (count, 1)), np.full(count, sentences))
    mechanism = Truncation.create({"epsilon": epsilon})
    noisy, _ = mechanism.protect(documents, (low, high), rngs(count))
    mean = np.clip(vectors.astype(np.float64), low, high).mean(axis=0)
    return (noisy - mean) * sentences * epsilon / (dimension * (high - low))


@pytest.mark.parametrize(("dimension", "count"), [(1, 6000), (16, 2000), (384, 400)])
def test_noise_is_laplace_of_the_papers_scale(dimension, count):
    noise = standardised(dimension, count, epsilon=3.7, sentences=6)
    assert stats.kstest(noise.ravel(), stats.laplace.cdf).pvalue > 1e-3
    for column in range(min(dimension, 3)):
        assert stats.kstest(noise[:, column], stats.laplace.cdf).pvalue > 1e-4
    # The test has teeth: a fifth less, or a quarter more, would show.
    for wrong in (0.8, 1.25):
        assert stats.kstest(wrong * noise.ravel(), stats.laplace.cdf).pvalue < 1e-3


def test_noise_is_independent_over_rows_and_dimensions():
    noise = standardised(40, 3000, epsilon=1.0, sentences=2)
    between = np.corrcoef(noise, rowvar=False) - np.eye(40)
    assert np.abs(between).max() < 6 / 3000**0.5
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 5 / noise.size**0.5
    # Uncorrelated is not independent: squares would tell a common scale.
    squares = np.corrcoef(np.abs(noise), rowvar=False) - np.eye(40)
    assert np.abs(squares).max() < 6 / 3000**0.5


@settings(max_examples=80, deadline=None)
@given(data=st.data(), k=st.integers(1, 5), d=st.integers(1, 4))
def test_one_sentence_is_worth_epsilon_at_most(data, k, d):
    """The largest log-odds of two Laplace vectors is the l1 distance of means over scales."""
    numbers = st.floats(-1e6, 1e6, width=32)
    low = data.draw(arrays(np.float64, d, elements=st.floats(-2, 2)))
    widths = data.draw(arrays(np.float64, d, elements=st.sampled_from([0.0, 0.5, 3.0])))
    before = data.draw(arrays(np.float32, (k, d), elements=numbers))
    after = before.copy()
    after[data.draw(st.integers(0, k - 1))] = data.draw(arrays(np.float32, d, elements=numbers))
    assert log_odds(before, after, (low, low + widths)) <= 2.5 * (1 + 1e-9)


def log_odds(before, after, box, epsilon=2.5):
    mechanism = Truncation.create({"epsilon": epsilon})
    lengths = np.array([len(before)])
    zero, one = SameNoise(), SameNoise()
    first, _ = mechanism.protect(Documents(before, lengths), box, [zero])
    second, _ = mechanism.protect(Documents(after, lengths), box, [one])
    np.testing.assert_array_equal(zero.scale, one.scale)
    moved = np.abs(first - second)[0]
    assert (moved[zero.scale == 0] == 0).all()
    noisy = zero.scale > 0
    return float((moved[noisy] / zero.scale[noisy]).sum())


class SameNoise:
    """Stands for a generator: the same draws each time, and the scale of the last ones."""

    def laplace(self, loc, scale):
        self.scale = np.asarray(scale)
        return np.random.default_rng(0).laplace(loc, scale)


def test_opposite_corners_reach_epsilon():
    box = (np.array([-1.0, 0.0, 2.0]), np.array([1.0, 5.0, 2.5]))
    before = np.array([[-9, -9, -9], [0, 0, 0]], dtype=np.float32)
    after = np.array([[9, 9, 9], [0, 0, 0]], dtype=np.float32)
    assert log_odds(before, after, box) == pytest.approx(2.5)


def test_the_box_is_the_middle_of_public_means(hashed_sentences):
    corpus = corpus_on_topics({"public": 400, "train": 5})
    mechanism, run = Truncation.create({"epsilon": 1e12}), run_of()
    mechanism.publish(corpus, run)
    low, high = mechanism._fitted[1]
    sentences = [text.split(" / ") for text in corpus.texts[:400]]
    encoder = hashed_sentences("", "cpu")
    means = np.array([encoder.embed(each).astype(np.float64).mean(axis=0) for each in sentences])
    inside = ((means >= low) & (means <= high)).mean(axis=0)
    assert np.abs(inside - 0.75).max() < 0.01
    assert np.abs((means < low).mean(axis=0) - 0.125).max() < 0.01
    # The box is public: without noise to speak of, vectors are means of clipped sentences.
    out, _ = mechanism.publish(corpus, run)
    for row in (0, 402):
        vectors = encoder.embed(corpus.texts[row].split(" / ")).astype(np.float64)
        assert out.vectors[row] == pytest.approx(np.clip(vectors, low, high).mean(axis=0), abs=1e-6)
    assert out.texts == ("",) * 405
    np.testing.assert_array_equal(out.labels, corpus.labels)
    np.testing.assert_array_equal(out.users, corpus.users)


def test_constant_dimensions_divide_nothing_by_zero(hashed_sentences, monkeypatch):
    original = hashed_sentences.embed

    def constant(self, sentences, *, cache=True):
        vectors = original(self, sentences)
        vectors[:, 3] = 0.5
        return vectors

    monkeypatch.setattr(hashed_sentences, "embed", constant)
    out, _ = Truncation.create({"epsilon": 1.0}).publish(
        corpus_on_topics({"public": 20, "train": 10}), run_of()
    )
    assert np.isfinite(out.vectors).all()
    assert (out.vectors[:, 3] == 0.5).all()
    assert out.vectors[:, :3].std(axis=0).min() > 1


def test_rows_are_alone_and_reproducible(hashed_sentences):
    corpus = corpus_on_topics({"public": 20, "train": 6, "test": 3})
    texts = list(corpus.texts)
    texts[21] = texts[20]
    corpus = corpus.with_texts(texts)

    def published(part, seed=1):
        return Truncation.create({"epsilon": 4.0}).publish(part, run_of(seed))[0]

    whole = published(corpus).vectors
    np.testing.assert_array_equal(published(corpus).vectors, whole)
    assert (published(corpus, seed=2).vectors != whole).all()
    assert (whole[20] != whole[21]).all()
    for row in range(20, 29):
        alone = published(corpus.take(np.append(np.arange(20), row)))
        np.testing.assert_array_equal(alone.vectors[-1], whole[row])


def test_another_text_of_a_row_has_other_noise(hashed_sentences):
    """With the same noise, a row's vectors for two texts would differ by their means alone."""
    corpus = corpus_on_topics({"public": 20, "train": 3})
    other = corpus.with_texts([*corpus.texts[:-1], corpus.texts[-1].replace("22", "23")])
    first, second = (
        Truncation.create({"epsilon": 1e-9}).publish(each, run_of())[0].vectors
        for each in (corpus, other)
    )
    np.testing.assert_array_equal(first[:-1], second[:-1])
    assert np.abs(first[-1] - second[-1]).max() > 1e6


def test_ledger_and_errors(hashed_sentences):
    mechanism = Truncation.create({"epsilon": 3.0})
    (event,) = mechanism.plan(STATS)
    assert event.event == LaplaceVector(scale=1 / 3.0, sensitivity=1.0)
    assert (event.unit, event.adjacency) == ("sentence", "replace-one")
    assert any("how many sentences" in each for each in event.assumptions)
    planned = PlannedMechanism.from_settings("truncation", {"epsilon": 3.0})
    assert planned.claims()[0].event == event.event
    corpus = corpus_on_topics({"public": 7, "train": 5})
    with pytest.raises(InputError, match=r" 7 .* 8: .*source\.public_share"):
        mechanism.publish(corpus, run_of())
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match=r"truncation\.epsilon"):
            Truncation.create({"epsilon": wrong})
    corpus = corpus_on_topics({"public": 20, "train": 5})
    corpus = corpus.with_texts([*corpus.texts[:-2], text_on(1, 1, "short"), ""])
    with pytest.raises(InputError, match=r"2 of 25 .*truncation\.short=drop"):
        mechanism.publish(corpus, run_of())
    run = run_of()
    out, events = Truncation.create({"epsilon": 3.0, "short": "drop"}).publish(corpus, run)
    assert (out.vectors.shape, len(out)) == ((23, SIZE), 23)
    assert out.origin.tolist() == list(range(23))
    assert run.diagnostics["documents_dropped"] == 2
    assert events == mechanism.plan(STATS)
