"""The union is as private as it says: its sensitivity, its noise and its delta are measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from parallel_text import generated, parallel
from scipy.special import ndtr
from toy import toy_run

from uedp_bench.accounting.ledger import proven
from uedp_bench.mechanisms._noise import threshold_for, unseen_mass
from uedp_bench.mechanisms.fragments.extraction import Phrase
from uedp_bench.mechanisms.fragments.phrase_union import PhraseUnion
from uedp_bench.one_run.publishing import publish

PUBLIC = [pair for document in generated(1, 200, seed=7) for pair in document]


def union(**params: object) -> PhraseUnion:
    mechanism: PhraseUnion = PhraseUnion.create({"noise_multiplier": 1.0, **params})
    return mechanism


def words(*numbers: int) -> dict[Phrase, int]:
    return {(f"s{n}", f"t{n}"): 1 for n in numbers}


@pytest.mark.parametrize("choose", ["random", "frequent"])
def test_a_document_moves_the_votes_by_a_norm_of_one(choose: str) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 8, 50, 3000):
        for repeated in (1, 1_000_000):
            counts = dict.fromkeys(words(*range(size)), repeated)
            votes = union(most=7, choose=choose).union.votes(counts, rng)
            assert len(votes) == min(size, 7)
            assert sum(v**2 for v in votes.values()) == pytest.approx(1.0, abs=1e-12)
    assert union().union.votes({}, rng) == {}


def test_documents_with_many_phrases_vote_for_the_most_frequent_or_for_any() -> None:
    counts = {phrase: n + 1 for n, phrase in enumerate(words(*range(10)))}
    rng = np.random.default_rng(0)
    assert set(union(most=3).union.votes(counts, rng)) == set(words(7, 8, 9))
    drawn = [set(union(most=3, choose="random").union.votes(counts, rng)) for _ in range(200)]
    assert set.union(*drawn) == set(words(*range(10)))


def test_the_noise_has_the_deviation_that_the_event_says() -> None:
    """How often a phrase with given votes passes is what normal noise gives."""
    mechanism = union(noise_multiplier=2.0, delta_unseen=0.3, most=1)
    voters = {user: words(0) for user in range(3)}
    trials = 4000
    hits = sum(bool(mechanism.union.released(voters, toy_run(seed=s))[0]) for s in range(trials))
    expected = ndtr((3.0 - mechanism.union.threshold) / 2.0)
    assert hits / trials == pytest.approx(expected, abs=4 * math.sqrt(expected / trials))


@pytest.mark.parametrize(("noise", "most"), [(0.5, 1), (1.0, 4), (3.0, 40)])
def test_pairs_of_one_document_pass_no_more_often_than_delta(noise: float, most: int) -> None:
    """The worst size of a document attains its delta; frequencies agree."""
    delta = 0.05
    mechanism = union(noise_multiplier=noise, most=most, delta_unseen=delta)
    exact = [
        1.0 - ndtr((mechanism.union.threshold - 1.0 / math.sqrt(t)) / noise) ** t
        for t in range(1, most + 1)
    ]
    assert max(exact) <= delta
    assert max(exact) > 0.99 * delta
    others = {user: words(-1) for user in range(1, 4)}
    worst = int(np.argmax(exact)) + 1
    for size in (worst, 10 * most):
        voters = {0: words(*range(size)), **others}
        runs = (mechanism.union.released(voters, toy_run(seed=s))[0] for s in range(1500))
        released = sum(any(phrase not in words(-1) for phrase in passed) for passed in runs)
        assert released / 1500 < delta + 4 * math.sqrt(delta / 1500)
        if size == worst:
            assert released / 1500 > delta - 4 * math.sqrt(delta / 1500)


@pytest.mark.parametrize(
    ("noise", "most", "delta"), [(1.0, 1, 1e-5), (0.7, 20, 1e-2), (2.0, 5, 1e-3)]
)
def test_no_phrase_and_no_two_tell_more_than_the_guarantee(
    noise: float, most: int, delta: float
) -> None:
    """Exact divergences of what is published with and without a document, at the proven epsilon."""
    mechanism = union(noise_multiplier=noise, most=most, delta_unseen=delta / 2)
    (guarantee,) = proven(mechanism.plan(toy_run().stats), delta=delta)
    assert guarantee.unit == "user" and guarantee.adjacency == "add-or-remove"
    bound = math.exp(guarantee.epsilon)

    def passes(votes: float) -> float:
        return float(ndtr((votes - mechanism.union.threshold) / noise)) if votes > 0 else 0.0

    for size in {1, min(2, most), most}:
        weight = 1.0 / math.sqrt(size)
        for others in np.linspace(0.0, mechanism.union.threshold + 6 * noise, 40):
            # Of the document's phrases, one has votes of others, and all the rest has none.
            heavier_pass, lighter_pass = passes(others + weight), passes(others)
            unseen = 1.0 - (1.0 - passes(weight)) ** (size - 1)
            with_it = np.outer([heavier_pass, 1 - heavier_pass], [unseen, 1 - unseen])
            without = np.outer([lighter_pass, 1 - lighter_pass], [0.0, 1.0])
            for one, other in ((with_it, without), (without, with_it)):
                assert np.maximum(one - bound * other, 0.0).sum() <= delta * (1 + 1e-9)


def test_the_threshold_is_that_of_the_paper() -> None:
    """Gopi et al. 2020, Theorem 5.1, written out."""
    from scipy.stats import norm

    for noise, most, delta in ((1.0, 1, 1e-5), (3.0, 50, 1e-6), (0.3, 7, 0.1)):
        paper = max(1 / math.sqrt(t) + noise * norm.ppf((1 - delta) ** (1 / t))
                    for t in range(1, most + 1))  # fmt: skip
        assert threshold_for(noise, most, delta) == pytest.approx(paper, rel=1e-6)
        assert unseen_mass(noise, most, threshold_for(noise, most, delta)) <= delta


def test_shared_phrases_are_published_once_and_rare_ones_are_not() -> None:
    common = generated(1, 3, seed=3)[0]
    corpus = parallel([[*common, *own] for own in generated(150, 1, words=10**6)], PUBLIC)
    out, events = publish(union(noise_multiplier=1.0, most=200), corpus, toy_run())
    assert [type(e.event).__name__ for e in events] == ["Gaussian", "ApproximateDP"]
    phrases = set(out.only("train").texts)
    assert any(len(text.split()) > 2 for text in phrases)
    assert all(any(f" {text} " in f" {row} " for row, _ in common) for text in phrases)
    assert len(set(out.only("train").texts)) == len(phrases)
    assert list(out.only("train").texts) == sorted(out.only("train").texts)


def test_a_private_alignment_proves_nothing_and_says_why() -> None:
    corpus = parallel(generated(3, 5))
    out, events = publish(union(trained_on="private"), corpus, toy_run())
    (guarantee,) = proven(events, delta=1e-5)
    assert math.isinf(guarantee.epsilon) and "public text" in guarantee.reason
    assert len(out) == 0  # three documents share nothing that passes


def test_rows_may_vote() -> None:
    mechanism = union(unit="record")
    assert {event.unit for event in mechanism.plan(toy_run().stats)} == {"record"}
    assert mechanism.protects == "record"
