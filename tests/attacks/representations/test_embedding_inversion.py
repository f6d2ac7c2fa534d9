"""Words that a representation holds are found; labels and noise give nothing beyond the prior."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from encoders import SIZES, TableEncoder, attacked, authors, noise
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score, label_ranking_average_precision_score, log_loss

from uedp_bench.attacks.representations.embedding_inversion import (
    EmbeddingInversion,
    LabelledWords,
    best_threshold,
    fit_prior,
    score_words,
)
from uedp_bench.corpus import Corpus, FloatArray
from uedp_bench.errors import InputError

WORDS = [f"{a}{b}" for a in ("ba", "do", "fi", "gu") for b in ("ke", "lo", "mi", "na", "pu")]
attack = partial(attacked, EmbeddingInversion, hidden=32, epochs=15, learning_rate=0.01, top=5)


def library(seed: int, by_label: bool = False) -> tuple[Corpus, FloatArray]:
    """Texts of words drawn independently, by label or not, and (rows, words) which are in them."""
    rng = np.random.default_rng(seed)
    corpus = authors(seed)
    assert corpus.labels is not None
    p = rng.uniform(0.1, 0.5, size=(3, len(WORDS)))
    chance = p[corpus.labels] if by_label else np.broadcast_to(p[0], (len(corpus), len(WORDS)))
    present = rng.random((len(corpus), len(WORDS))) < chance
    texts = tuple(" ".join(w for w, bit in zip(WORDS, row, strict=True) if bit)
                  for row in present.tolist())  # fmt: skip
    return replace(corpus, texts=texts), present.astype(np.float64)


def test_words_in_the_representation_are_found() -> None:
    corpus, present = library(0)
    leakage = attack(TableEncoder(present), corpus)
    assert len(leakage.samples) == 5
    for one in leakage.samples:  # words that were read are in the text that stands beside them
        assert one.private in corpus.texts
        assert 3 <= len(one.read.split(", ")) <= 5
        assert set(one.read.split(", ")) <= set(one.private.split())
    metrics = leakage.metrics
    assert metrics["average_precision"].value > 0.98
    assert metrics["f1"].value > 0.98
    assert metrics["gain_average_precision"].low > 0.2
    test = present[corpus.where("test")]
    hits = np.minimum(test.sum(axis=1), 5).sum()
    assert metrics["recall_at_5"].value == pytest.approx(hits / test.sum(), rel=0.01)
    assert metrics["precision_at_5"].value == pytest.approx(hits / (5 * len(test)), rel=0.01)
    # Nearly all of the entropy that is left given word frequencies is gained.
    assert 0.8 * metrics["bits_prior"].value < metrics["gain_bits"].value
    assert metrics["gain_bits"].value == pytest.approx(
        metrics["bits_prior"].value - metrics["bits"].value
    )


def test_noise_says_no_more_than_the_prior() -> None:
    trials, above = 40, np.zeros(2)
    for seed in range(trials):
        corpus, _ = library(seed)
        table = noise(corpus, 1000 + seed)
        metrics = attack(TableEncoder(table), corpus, seed, hidden=8, epochs=3).metrics
        lows = [metrics[name].low for name in ("gain_bits", "gain_average_precision")]
        above += [low is not None and low > 0 for low in lows]
        assert abs(metrics["gain_average_precision"].value) < 0.03
    assert (above <= 0.05 * trials).all()


def test_a_representation_of_the_label_gains_nothing_over_the_label() -> None:
    corpus, _ = library(3, by_label=True)
    assert corpus.labels is not None
    table = np.eye(3)[corpus.labels]
    metrics = attack(TableEncoder(table), corpus).metrics
    assert metrics["gain_bits"].low < 0 < metrics["gain_bits"].high + 0.1
    assert abs(metrics["gain_average_precision"].value) < 0.02
    # Without the label as prior, the same representation does gain: words depend on it.
    unlabelled = replace(corpus, labels=None, label_names=())
    assert attack(TableEncoder(table), unlabelled).metrics["gain_bits"].low > 0.3


def test_words_are_those_of_the_original_text_whatever_was_published() -> None:
    corpus, present = library(1)
    release = TableEncoder(present)
    plain = attack(release, corpus)
    release.published = corpus.with_texts(["nothing of it"] * len(corpus))
    assert attack(release, corpus) == plain


def test_the_order_of_rows_does_not_matter_and_a_seed_gives_the_same_numbers() -> None:
    corpus, present = library(2)
    table = present[:, :6] + 0.3 * noise(corpus, 1, width=6)
    first = attack(TableEncoder(table), corpus)
    assert attack(TableEncoder(table), corpus) == first
    mixed = corpus.take(np.random.default_rng(9).permutation(len(corpus)))
    again = attack(TableEncoder(table), mixed)
    assert {k: v.value for k, v in again.metrics.items()} == pytest.approx(
        {k: v.value for k, v in first.metrics.items()}
    )


def test_an_attacker_who_knows_fewer_texts_finds_less() -> None:
    corpus, present = library(0)
    table = present + 0.5 * noise(corpus, 1, width=len(WORDS))
    few = attack(TableEncoder(table), corpus, train_rows=40)
    assert few.details["rows"]["train"] == 40 < SIZES["train"]
    every = attack(TableEncoder(table), corpus)
    assert few.metrics["average_precision"].value < every.metrics["average_precision"].value - 0.02


@given(st.integers(0, 1000))
def test_scores_are_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(30, 7))
    present = rng.random((30, 7)) < 0.4
    present[:, 0] |= ~present.any(axis=1)
    scores = score_words(lambda rows: logits[rows], csr_matrix(present.astype(float)), 3, 0.6)
    expected = label_ranking_average_precision_score(present, logits)
    assert scores.average_precision.mean() == pytest.approx(expected)
    p = 1 / (1 + np.exp(-logits))
    nats = [log_loss(present[:, k], p[:, k], labels=[0, 1]) for k in range(7)]
    assert scores.bits.mean() == pytest.approx(sum(nats) / math.log(2))
    f1 = 2 * scores.right.sum() / (scores.chosen.sum() + scores.words.sum())
    assert f1 == pytest.approx(f1_score(present, p >= 0.6, average="micro", zero_division=0))
    top = np.argsort(-logits, axis=1)[:, :3]
    assert (scores.hits == np.take_along_axis(present, top, 1).sum(1)).all()


def test_the_threshold_is_the_best_one_for_f1() -> None:
    rng = np.random.default_rng(0)
    present = rng.random((200, 5)) < 0.2
    logits = 3.0 * present - 2.0 + rng.normal(size=(200, 5))
    p = 1 / (1 + np.exp(-logits))
    chosen = best_threshold(lambda rows: logits[rows], csr_matrix(present.astype(float)))

    def f1(at: float) -> float:
        return float(f1_score(present, p >= at, average="micro", zero_division=0))

    assert f1(chosen) == pytest.approx(max(f1(k / 200) for k in range(200)))


def test_the_label_prior_falls_back_on_all_text_where_labels_say_nothing() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(20, size=2000)
    present = csr_matrix((rng.random((2000, 15)) < 0.05).astype(float))
    train = LabelledWords(present[:1000], labels[:1000])
    test = LabelledWords(present[1000:], labels[1000:])
    nothing = fit_prior(train, test, 20)
    assert nothing.weight >= 1000
    assert nothing.by_label == pytest.approx(np.tile(nothing.overall, (20, 1)), abs=0.3)
    telling = csr_matrix(np.eye(20)[labels])
    something = fit_prior(
        LabelledWords(telling[:1000], labels[:1000]),
        LabelledWords(telling[1000:], labels[1000:]),
        20,
    )
    assert something.weight == 1
    assert (something.by_label.argmax(axis=1) == np.arange(20)).all()


def test_texts_without_words_and_representations_without_numbers_are_refused() -> None:
    corpus, present = library(0)
    silent = replace(corpus, texts=("...",) * len(corpus))
    with pytest.raises(InputError, match=r"embedding-inversion: .*train.*words"):
        attack(TableEncoder(present), silent)
    other = np.where(corpus.where("test"), "elsewhere", np.array(corpus.texts, dtype=object))
    with pytest.raises(InputError, match=r"embedding-inversion: .*test.* 20 words"):
        attack(TableEncoder(present), replace(corpus, texts=tuple(other.tolist())))
    broken = np.where(np.arange(len(corpus))[:, None] == 3, np.inf, present)
    with pytest.raises(InputError, match=r"embedding-inversion: .*train split: 1 of 600 rows"):
        attack(TableEncoder(broken), corpus)
