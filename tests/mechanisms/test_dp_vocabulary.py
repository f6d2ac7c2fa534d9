"""Sensitivity, noise and delta of the vocabulary are measured; what it costs joins training."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtr
from toy import toy_run

from uedp_bench.accounting.accountants.basic_composition import promises
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms._noise import NoisyUnion, items_of_voters
from uedp_bench.mechanisms.dp_vocabulary import DPVocabulary
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.one_run.pipeline import Pipeline

TEXTS = ["a b a", "b c d e f g", "a", "h h h h h h h", "a c", "b i j k l m n o p q r s"]
USERS = [0, 0, 1, 1, 2, 3]
STATS = toy_run(users=1000).stats


def mechanism(**params) -> DPVocabulary:
    return DPVocabulary.create(params)


def rows(texts=TEXTS, users=USERS, public=0) -> Corpus:
    split = [4 if i < public else 0 for i in range(len(texts))]
    return Corpus(
        texts=tuple(texts), groups={"user": np.array(users)}, split=np.array(split, dtype=np.int64)
    )


def split_words(corpus):
    return [text.split() for text in corpus.texts]


def chosen(one, corpus, seed=0):
    return one.choose(corpus, split_words(corpus), toy_run(seed=seed))[0].counts


# -------------------------------------------------------------------------------- sensitivity


def changed(kind):
    """Row numbers that stay, for every neighbour by a row or by a user."""
    every = np.arange(len(TEXTS))
    if kind == "record":
        return [every[every != i] for i in every]
    return [every[np.array(USERS) != user] for user in set(USERS)]


def distance(one, other, power):
    words = {*one, *other}
    return sum(abs(one.get(w, 0) - other.get(w, 0)) ** power for w in words) ** (1 / power)


@pytest.mark.parametrize("unit", ["record", "user"])
@pytest.mark.parametrize("most", [1, 3, 6, 50])
def test_occurrences_move_by_l_in_l1_under_every_change_of_a_small_corpus(unit, most):
    one = mechanism(variant="laplace", unit=unit, words_per_unit=most)

    def occurrences(voters, words):
        return Counter(itertools.chain.from_iterable(one._first_words(voters, words)))

    words, voters = [t.split() for t in TEXTS], np.array(USERS)
    voters = voters if unit == "user" else np.arange(len(TEXTS))
    whole = occurrences(voters, words)
    moved = [
        distance(whole, occurrences(voters[kept], [words[i] for i in kept]), 1)
        for kept in changed(unit)
    ]
    own = [sum(len(words[i]) for i in range(len(TEXTS)) if voters[i] == v) for v in set(voters)]
    assert max(moved) == min(most, max(own)) <= one.histogram.words


@pytest.mark.parametrize("unit", ["record", "user"])
@pytest.mark.parametrize("most", [1, 2, 5, 50])
def test_votes_move_by_norm_one_under_every_change_of_a_small_corpus(unit, most, monkeypatch):
    union = NoisyUnion(1e-12, most, "frequent", 0.5)
    monkeypatch.setattr(NoisyUnion, "threshold", -math.inf)  # every word with a vote passes
    words = [t.split() for t in TEXTS]
    voters = np.array(USERS) if unit == "user" else np.arange(len(TEXTS))

    def sums(kept):
        who = np.repeat(voters[kept], [len(words[i]) for i in kept])
        every = items_of_voters(who, (word for i in kept for word in words[i]))
        return union.released(every, toy_run())[0]

    whole = sums(np.arange(len(TEXTS)))
    for kept in changed(unit):
        assert distance(whole, sums(kept), 2) == pytest.approx(1.0, abs=1e-9)


def test_what_others_wrote_decides_nothing_of_a_vote():
    """The chosen words of a user are the same with and without the others, ties too."""
    union = NoisyUnion(1.0, 3, "frequent", 0.5)
    drawn = toy_run().fresh("votes")
    counts = Counter("abcdefgh")
    assert union.votes(counts, drawn.rng(7)) == union.votes(counts, drawn.rng(7))
    seen = {tuple(sorted(union.votes(counts, drawn.rng(user)))) for user in range(40)}
    assert len(seen) > 10  # ties are drawn, by the user's own coins


# ---------------------------------------------------------------------------- noise and delta


@pytest.mark.parametrize("variant", ["laplace", "gaussian-union"])
def test_the_noise_has_the_deviation_of_its_event(variant):
    """Released counts of words that are far above the threshold, against the true ones."""
    one = mechanism(
        variant=variant, epsilon=4.0, vocabulary_delta=0.1, words_per_unit=20, unit="record"
    )
    corpus = rows([" ".join(f"w{i}" for i in range(20))] * 100, [-1] * 100)
    histograms = [chosen(one, corpus, seed) for seed in range(50)]
    assert all(len(counts) == 20 for counts in histograms)
    added = np.array([list(counts.values()) for counts in histograms]) - 100.0
    if variant == "laplace":
        expected = one.histogram.scale * math.sqrt(2.0)
    else:
        expected = one.union.noise * math.sqrt(20)  # counts are in votes of 1 / sqrt(20)
    assert added.std() == pytest.approx(expected, rel=0.1)
    assert abs(added.mean()) < 4 * expected / math.sqrt(added.size)
    assert len(np.unique(added.round(9))) == added.size  # each has noise of its own


def singletons(one, corpus, own, trials):
    """How often a word of the first row alone was released, without a run that finds nothing."""
    released = 0
    for seed in range(trials):
        try:
            released += not own.isdisjoint(chosen(one, corpus, seed))
        except InputError:
            continue
    return released / trials


@pytest.mark.parametrize("variant", ["laplace", "gaussian-union"])
@pytest.mark.parametrize("size", [1, 4])
def test_words_of_one_row_alone_survive_with_delta_at_most(variant, size):
    delta, trials = 0.2, 600
    one = mechanism(
        variant=variant, epsilon=2.0, vocabulary_delta=delta, words_per_unit=4, unit="record"
    )
    own = [f"own{i}" for i in range(size)]
    corpus = rows([" ".join(own), *["all of us"] * 3], [-1] * 4)
    bound = delta if variant == "laplace" else delta / 2.0
    survivors = singletons(one, corpus, set(own), trials)
    assert survivors <= bound + 4 * math.sqrt(bound / trials)
    if size == 4:
        assert survivors > bound / 2.0 - 4 * math.sqrt(bound / trials)


def test_a_canary_that_one_user_repeats_is_no_more_likely():
    one = mechanism(epsilon=2.0, vocabulary_delta=0.3, words_per_unit=4)
    corpus = rows(["canary canary canary"] * 50 + ["all of us"] * 5, [0] * 50 + [1, 2, 3, 4, 5])
    assert singletons(one, corpus, {"canary"}, 400) <= 0.15 + 4 * math.sqrt(0.15 / 400)


# --------------------------------------------------------------------------------- guarantees


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("variant", ["laplace", "gaussian-union"])
def test_the_epsilon_that_is_asked_for_holds_and_is_nearly_used(variant, epsilon):
    one = mechanism(variant=variant, epsilon=epsilon, vocabulary_delta=1e-6)
    (guarantee,) = proven(one.plan(STATS), delta=1e-6)
    assert guarantee.unit == one.protects == ("record" if variant == "laplace" else "user")
    assert 0.999 * epsilon < guarantee.epsilon <= epsilon
    assert guarantee.adjacency == "add-or-remove" and guarantee.delta <= 1e-6
    (spent,) = proven(one.plan(STATS), delta=4e-7)  # less than words of one unit alone take
    assert math.isinf(spent.epsilon) and "delta" in spent.reason


@pytest.mark.parametrize(("words", "epsilon"), [(9, 7.8125), (21, 0.9375), (7, 0.3), (200, 1.0)])
def test_rounding_promises_no_more_than_was_asked_for(words, epsilon):
    one = mechanism(variant="laplace", epsilon=epsilon, words_per_unit=words)
    assert promises(one.histogram, "add-or-remove").epsilon <= epsilon


@pytest.mark.parametrize(("epsilon", "most", "delta"), [(1.0, 3, 0.02), (3.0, 2, 1e-3)])
def test_noisy_sums_tell_no_more_than_the_guarantee(epsilon, most, delta):
    """Divergences of released words with their sums, of which others share some (corollary K.1)."""
    one = mechanism(epsilon=epsilon, vocabulary_delta=delta, words_per_unit=most)
    (guarantee,) = proven(one.plan(STATS), delta=delta)
    bound, noise, threshold = math.exp(guarantee.epsilon), one.union.noise, one.union.threshold
    edges = np.array([threshold, *(threshold + noise * np.linspace(0.1, 6.0, 14)), np.inf])

    def law(votes):
        if votes == 0.0:  # nobody's word has no noise
            return np.array([1.0, *np.zeros(len(edges) - 1)])
        tails = ndtr((votes - edges) / noise)
        return np.array([1.0 - tails[0], *(tails[:-1] - tails[1:])])

    largest = 0.0
    for others in itertools.product([0.0, 0.7, threshold, threshold + 2 * noise], repeat=most):
        laws = []
        for weight in (0.0, 1.0 / math.sqrt(most)):
            whole = np.ones(1)
            for votes in others:
                whole = np.multiply.outer(whole, law(votes + weight)).ravel()
            laws.append(whole)
        for one_law, other in (laws, laws[::-1]):
            largest = max(largest, float(np.maximum(one_law - bound * other, 0.0).sum()))
    assert 0.2 * delta < largest <= delta * (1 + 1e-9)


def test_the_paper_adds_up_what_one_histogram_costs_once():
    one = mechanism(variant="laplace", epsilon=1.0, words_per_unit=128)
    (claim,) = claimed(one.claims(STATS), 1e-4)
    event = one.histogram
    assert event.threshold == pytest.approx(
        1 + 2 * math.log(2 / one.claims(STATS)[0].event.event.delta) / (2 / event.scale)
    )
    assert claim.epsilon == pytest.approx(2.0, rel=1e-4)  # replaced: twice what adding costs
    promise = promises(event, "replace-one")
    assert promise.epsilon == pytest.approx(claim.epsilon) and promise.delta < claim.delta


@pytest.mark.parametrize(
    ("trainer", "params"),
    [
        (UserDP.create({"users_per_round": 10, "rounds": 3, "noise_multiplier": 2.0}), {}),
        (
            DPSGD.create({"steps": 3, "noise_multiplier": 2.0, "records": 10_000}),
            {"unit": "record"},
        ),
        (
            DPSGD.create({"steps": 3, "noise_multiplier": 2.0, "records": 10_000}),
            {"variant": "laplace"},
        ),
    ],
)
def test_one_epsilon_holds_vocabulary_and_training(trainer, params):
    words = mechanism(epsilon=0.5, **params)
    pipeline = Pipeline.build([words, trainer], Noiseless())
    (both,) = proven(pipeline.plan(STATS), delta=1e-5)
    (alone,) = proven(trainer.plan(STATS), delta=1e-5)
    assert alone.epsilon < both.epsilon <= 1.1 * alone.epsilon + 0.5
    assert any("dp-vocabulary" in text for text in both.assumptions)
    assert not any(text.endswith("do not depend on private text") for text in both.assumptions)


@pytest.mark.parametrize("variant", ["gaussian-union", "laplace", "public"])
def test_training_without_noise_proves_nothing_whatever_the_vocabulary(variant):
    pipeline = Pipeline.build([mechanism(variant=variant)], Noiseless())
    for guarantee in proven(pipeline.plan(STATS), delta=1e-5):
        assert math.isinf(guarantee.epsilon)


def test_units_of_vocabulary_and_training_must_be_the_same():
    trainer = UserDP.create({"users_per_round": 10, "rounds": 3})
    pipeline = Pipeline.build([mechanism(unit="record"), trainer], Noiseless())
    assert all(math.isinf(g.epsilon) for g in proven(pipeline.plan(STATS), delta=1e-5))


# ------------------------------------------------------------------------- what is released


def test_public_words_cost_nothing_and_private_rows_do_not_vote_for_them():
    corpus = rows(["x y y", "a b", "a c"], [-1, 0, 1], public=1)
    words, events = mechanism(variant="public").choose(corpus, split_words(corpus), toy_run())
    assert (dict(words.counts), words.origin, events) == ({"x": 1, "y": 2}, "public split", ())
    assert mechanism(variant="public").plan(STATS) == ()


def test_public_words_join_with_the_same_weight():
    texts = ["x y a y", *["a b"] * 400]
    corpus = rows(texts, [-1, *range(400)], public=1)
    joined = mechanism(join_public=True, epsilon=8.0).choose(
        corpus, split_words(corpus), toy_run()
    )[0]
    alone = mechanism(epsilon=8.0).choose(corpus, split_words(corpus), toy_run())[0]
    assert set(alone.counts) == {"a", "b"} and set(joined.counts) == {"a", "b", "x", "y"}
    assert joined.origin == "DP histogram and public split"
    assert sum(joined.counts.values()) == pytest.approx(8.0)
    assert joined.counts["y"] == 2.0


def test_what_cannot_be_done_is_refused():
    with pytest.raises(InputError, match=r"threshold.*dp-vocabulary.*epsilon"):
        chosen(mechanism(), rows())
    with pytest.raises(InputError, match=r"dp-vocabulary\.unit.*1 rows"):
        chosen(mechanism(), rows(users=[0, 0, 1, 1, 2, -1]))
    with pytest.raises(InputError, match=r"variant public.*epsilon"):
        mechanism(variant="public", epsilon=2.0)
    for epsilon in (0.0, 5e-324, 1e300, math.inf, math.nan):
        with pytest.raises(InputError, match=r"dp-vocabulary\.epsilon"):
            mechanism(variant="laplace", epsilon=epsilon)
    for delta in (0.0, 1e-17, 1.0):
        with pytest.raises(InputError, match=r"dp-vocabulary\.vocabulary_delta"):
            mechanism(variant="laplace", vocabulary_delta=delta)
    with pytest.raises(InputError, match=r"source\.public"):
        chosen(mechanism(variant="public"), rows())
