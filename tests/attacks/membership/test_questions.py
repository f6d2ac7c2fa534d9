"""What releases are asked about rows: the log-probability and the odds of the truth."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from uedp_bench.attacks.membership.attack import Membership
from uedp_bench.attacks.membership.questions import (
    ClassesQuestion,
    LossesQuestion,
    loss,
    lowest_mean,
    min_k,
    min_k_plus_plus,
    score_texts,
    standardised,
    zlib_bytes,
)
from uedp_bench.contracts.capabilities import RowScorer, TokenScores
from uedp_bench.contracts.mechanism import ServedRelease
from uedp_bench.contracts.release import PublishedOnly, Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.errors import CapabilityError, InputError


class Losses(Release):
    """Says these losses, by the number of the row."""

    def __init__(self, *nats: float) -> None:
        self.nats = np.array(nats)

    def scorable(self, corpus: Corpus) -> np.ndarray:
        return corpus.origin != 1

    def row_losses(self, corpus: Corpus) -> np.ndarray:
        return self.nats[corpus.origin]


def corpus(rows: int) -> Corpus:
    return Corpus(("x",) * rows, {"user": np.arange(rows)}, np.zeros(rows, dtype=np.int64))


def test_a_loss_stands_for_the_probability_of_the_row() -> None:
    release = Losses(np.log(2.0), 9.9, np.log(4.0), 0.0, np.inf)
    assert isinstance(release, RowScorer)
    question = LossesQuestion(release, corpus(5))
    assert question.has_truth.tolist() == [True, False, True, True, True]
    confidences = question.confidences(release, np.array([0, 2, 3, 4]))
    assert np.allclose(np.exp(confidences.logp), [0.5, 0.25, 1.0, 0.0])
    assert np.allclose(confidences.odds[:2], [0.0, np.log(1 / 3)])
    # Certain of the truth, and certain that it is not: as far apart as numbers are let be.
    assert confidences.odds[2:].tolist() == [100.0, -100.0]


@pytest.mark.parametrize("bad", [-0.5, np.nan])
def test_what_is_no_loss_is_refused(bad: float) -> None:
    release = Losses(1.0, 1.0, bad)
    with pytest.raises(InputError, match="record 1"):
        LossesQuestion(release, corpus(3)).confidences(release, np.array([0, 2]))


def test_records_without_anything_that_is_predicted_give_a_note(
    development_corpus: Corpus, make_run: Callable[..., Run]
) -> None:
    class Blind(Losses):
        def scorable(self, corpus: Corpus) -> np.ndarray:
            return np.zeros(len(corpus), dtype=bool)

    attack = Membership.create()
    after, what = attack.plant(development_corpus, np.random.default_rng(1))
    leakage = attack.run(Blind(), what, after, make_run(1))
    assert leakage.metrics == {}
    assert leakage.details["notes"] == ["no record has a target that the release predicts"]


def test_a_shadow_model_of_another_kind_is_refused() -> None:
    release = Losses(1.0, 1.0)
    labelled = replace(corpus(2), labels=np.zeros(2, dtype=np.int64), label_names=("a", "b"))
    for question, kind in (
        (LossesQuestion(release, labelled), "RowScorer"),
        (ClassesQuestion(release, labelled), "Classifier"),
    ):
        with pytest.raises(CapabilityError, match=f"PublishedOnly.*{kind}"):
            question.confidences(PublishedOnly(), np.array([0]))


class _Labels(Release):
    """Right about the rows of some users, and about half of the others'."""

    classes = ("a", "b")

    def __init__(self, users: np.ndarray, seed: int) -> None:
        self.users, self.seed = users, seed

    def labels(self, corpus: Corpus) -> np.ndarray:
        assert corpus.labels is not None
        hard = np.array([zlib.crc32(text.encode()) % 2 for text in corpus.texts]) == 1
        right = ~hard | self.users[corpus.users]
        return np.where(right, corpus.labels, 1 - corpus.labels)


@pytest.mark.parametrize("shadows", [0, 4])
def test_labels_alone_tell_members_where_shadow_models_are_wrong(
    development_corpus: Corpus, make_run: Callable[..., Run], shadows: int
) -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(2, size=len(development_corpus))
    attack = Membership.create({"shadow_models": shadows})
    corpus = replace(development_corpus, labels=labels, label_names=("a", "b"))
    corpus, planted = attack.plant(corpus, np.random.default_rng(1))
    members = np.zeros(corpus.user_count, dtype=bool)
    members[corpus.users[corpus.where("train")]] = True

    def retrain(users: np.ndarray, **_: object) -> Release:
        # What it serves answers by a protocol, and the attacker need not ask it.
        return ServedRelease(_Labels(users.copy(), 0), _NoMechanism())  # type: ignore[arg-type]

    leakage = attack.run(_Labels(members, 0), planted, corpus, make_run(3, retrain))
    assert leakage.details["main_score"] == ("lira_shrunk" if shadows else "gap")
    assert leakage.details["scores"]["gap"]["auc"]["value"] == pytest.approx(0.75, abs=0.05)
    assert "loss_gap" not in leakage.metrics  # nothing is known of its loss
    auc = leakage.metrics["auc"].value
    # A right label on a row that other models get wrong says more than one on an easy row.
    assert auc == pytest.approx(0.875 if shadows else 0.75, abs=0.04)
    assert leakage.metrics["auc_bag_of_words"].high < auc


class _NoMechanism:
    name = "none"


LOGP = np.array([-0.1, -2.3, -0.5, -4, -1.2, -0.05, -3.3, -0.7, -0.9, -0.2])
FOX = "The quick brown fox jumps over the lazy dog."


def tokens(logp: np.ndarray) -> TokenScores:
    return TokenScores(logp, np.full(len(logp), -1.0), np.ones(len(logp)), logp > -1)


def test_loss_min_k_and_zlib_have_their_reference_values() -> None:
    score = tokens(LOGP)
    assert loss(score) == pytest.approx(1.325)
    assert min_k(score, 0.2) == pytest.approx(3.65)
    assert min_k(score, 0.1) == pytest.approx(4.0)
    assert zlib_bytes(FOX) == 51
    assert score_texts([FOX], [score], None, 0.2)["zlib"][0] == pytest.approx(0.0259804, abs=1e-7)


def test_min_k_looks_at_one_token_at_least() -> None:
    assert min_k(tokens(np.array([-1.0, -2.0])), 0.1) == 2.0
    assert lowest_mean(np.arange(10.0), 0.3) == 1.0  # 0.3 x 10 is below 3 in floating point


def test_min_k_plus_plus_standardises_by_the_models_own_distribution() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.25, 0.25, 0.5]])
    mean = (p * np.log(p)).sum(axis=1)
    std = np.sqrt((p * np.log(p) ** 2).sum(axis=1) - mean**2)
    logp = np.log(p[np.arange(4), [0, 2, 1, 2]])
    score = TokenScores(logp, mean, std, np.zeros(4, dtype=bool))
    assert standardised(score) == pytest.approx([0.633092, -2, -0.816497, 1], abs=1e-6)
    assert min_k_plus_plus(score, 0.5) == pytest.approx((2 + 0.816497) / 2, abs=1e-6)


def test_a_model_that_is_certain_gives_no_nan() -> None:
    certain = TokenScores(np.zeros(2), np.zeros(2), np.zeros(2), np.ones(2, dtype=bool))
    assert min_k_plus_plus(certain, 0.5) == 0.0


def test_ratio_is_loss_minus_the_reference_loss() -> None:
    scores = score_texts([FOX], [tokens(LOGP)], [tokens(LOGP * 2)], 0.2)
    assert scores["ratio"][0] == pytest.approx(-1.325)
    assert "ratio" not in score_texts([FOX], [tokens(LOGP)], None, 0.2)


def test_nan_and_texts_without_tokens_are_errors() -> None:
    with pytest.raises(InputError, match=r"'loss'.*text 1.*NaN"):
        score_texts(["a", "b"], [tokens(LOGP), tokens(LOGP * np.nan)], None, 0.2)
    with pytest.raises(InputError, match=r"membership: .*1 without"):
        score_texts(["a"], [tokens(LOGP[:0])], None, 0.2)
