"""Vickrey: the odds of Algorithms 1 and 3, whom they leave out, and what is proven of it."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.accounting.events import MetricPrivacy, NonPrivate
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.words.metric_dp import MetricDP
from uedp_bench.mechanisms.words.noise import WordNoise
from uedp_bench.mechanisms.words.vickrey import Vickrey
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism
from uedp_bench.text.word_vectors import Nearest

STATS = CorpusStats(users=2, rows=3, sensitive_rows=2, entities=3, public=True)
WORDS = {"red": (0, 0), "green": (0.5, 0), "blue": (0, 0.8), "grey": (1.0, 1.0)}
VECTORS = np.array(list(WORDS.values()))
COUNT = 30_000


@pytest.fixture
def embedding(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{w} {x} {y}\n" for w, (x, y) in WORDS.items()))
    return path


def publish(texts, embedding, kind=Vickrey, seed=1, **params):
    corpus = Corpus(tuple(texts), {"user": np.arange(len(texts))}, np.zeros(len(texts), np.int64))
    run = Run(seed, STATS)
    values = {"epsilon": 2.0, "embedding": embedding, **params}
    return kind.create(values).publish(corpus, run)[0].texts


def shares(embedding, **params):
    """(words, words) how often each word became each."""
    out = publish([" ".join([word] * COUNT) for word in WORDS], embedding, **params)
    return np.array([[text.split().count(word) for word in WORDS] for text in out])


def choose(noisy, word, coin, **params):
    mechanism = Vickrey.create({"epsilon": 1.0, **params})
    noisy = np.array([noisy] * len(coin), dtype=float)
    words = np.full(len(coin), word)
    return mechanism.choose(Nearest(VECTORS), words, noisy, np.array(coin)).tolist()


def test_odds_of_algorithm_1_by_hand():
    """From (0.1, 0), without red: green at 0.4, blue at sqrt(0.65); t = 0.25."""
    far = 0.75 * 0.65**0.5
    p = far / (0.25 * 0.4 + far)
    assert choose((0.1, 0), 0, [0.0, p - 1e-6, p + 1e-6, 0.999], t=0.25) == [1, 1, 2, 2]
    assert choose((0.1, 0), 0, [0.0, 0.999], t=0) == [1, 1]
    assert choose((0.1, 0), 0, [0.0, 0.999], t=1) == [2, 2]
    # With the input word: red at 0.1, green at 0.4.
    p = 0.75 * 0.4 / (0.25 * 0.1 + 0.75 * 0.4)
    assert choose((0.1, 0), 0, [p - 1e-6, p + 1e-6], t=0.25, candidates="all") == [0, 1]


def test_odds_of_algorithm_3_by_hand():
    """From (0.1, 0), without red: green at 0.4, blue at sqrt(0.65), grey at sqrt(1.81)."""
    weight = np.exp(-np.array([3.0, 1.0, 0.5]) * np.array([0.4, 0.65**0.5, 1.81**0.5]))
    edges = np.cumsum(weight / weight.sum())
    coins = [0.0, edges[0] - 1e-6, edges[0] + 1e-6, edges[1] - 1e-6, edges[1] + 1e-6, 0.9999999]
    assert choose((0.1, 0), 0, coins, rates=[3.0, 1.0, 0.5]) == [1, 1, 2, 2, 3, 3]
    # Rates so large that every weight underflows leave the least exponent.
    assert choose((0.1, 0), 0, [0.0, 0.9999999], rates=[1e6, 1e6]) == [1, 1]


def test_distances_of_zero():
    """A noisy vector that is a word exactly, and one that two words share."""
    assert choose((0.5, 0), 0, [0.0, 0.999], t=0) == [1, 1]
    assert choose((0.5, 0), 0, [0.0, 0.999], t=1) != [1, 1]
    twins = Nearest(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]))
    mechanism = Vickrey.create({"epsilon": 1.0, "t": 0.25})
    choices = mechanism.choose(twins, np.array([0, 0]), np.ones((2, 2)), np.array([0.74, 0.76]))
    assert choices.tolist() == [1, 2]


def test_a_word_is_never_published_as_itself(embedding):
    counted = shares(embedding, t=0.3)
    assert (np.diag(counted) == 0).all()
    # So the odds of an output between two words have no bound, and nothing is proven.
    assert (counted + np.eye(4) > 0).all()
    assert (np.diag(shares(embedding, t=0.3, candidates="all")) > 0).all()


def test_published_shares_are_those_of_the_noise(embedding):
    """The whole path against noise and rule by hand, word by word."""
    counted = shares(embedding, t=0.4) / COUNT
    rng = np.random.default_rng(11)
    for word in range(4):
        noisy = VECTORS[word] + WordNoise(VECTORS, 2.0, None, "m").sample(COUNT, rng)
        distance = np.linalg.norm(noisy[:, None] - VECTORS, axis=2)
        distance[:, word] = np.inf
        order = np.argsort(distance, axis=1)
        near, far = np.sort(distance, axis=1)[:, :2].T
        p = 0.6 * far / (0.4 * near + 0.6 * far)
        expected = [
            (p * (order[:, 0] == other) + (1 - p) * (order[:, 1] == other)).mean()
            for other in range(4)
        ]
        assert np.abs(counted[word] - expected).max() < 6 * (0.5 / COUNT) ** 0.5


@pytest.mark.parametrize("params", [{"t": 0.5}, {"rates": [1.0, 0.5, 2.0]}])
def test_odds_stay_below_the_bound_where_all_are_candidates(embedding, params):
    counted = shares(embedding, candidates="all", **params)
    distance = np.linalg.norm(VECTORS[:, None] - VECTORS, axis=2)[:, :, None]
    slack = 5 * np.sqrt(1 / counted[:, None] + 1 / counted)
    assert (np.log(counted[:, None] / counted) <= 2.0 * distance + slack).all()


def test_at_t_0_with_all_candidates_it_is_metric_dp(embedding):
    """The rule is the same; the random numbers are keyed by the name."""
    count = shares(embedding, t=0, candidates="all")
    other = shares(embedding, kind=MetricDP)
    assert np.abs(count - other).max() < 6 * (2 * 0.25 * COUNT) ** 0.5


def test_what_is_proven():
    def events(**params):
        planned = PlannedMechanism.from_settings("vickrey", {"epsilon": 5.0, **params})
        (claim,), (event,) = planned.claims(), planned.plan()[0]
        assert claim.event == MetricPrivacy(epsilon=5.0, metric="euclidean")
        return claim, event.event

    claim, event = events()
    assert isinstance(event, NonPrivate)
    assert event.reason == claim.note
    assert "never published as itself" in event.reason
    assert events(candidates="all")[1] == MetricPrivacy(epsilon=5.0, metric="euclidean")
    kept = events(candidates="all", unknown="keep")[1]
    assert isinstance(kept, NonPrivate)
    assert "unknown is keep" in kept.reason
    assert events(rates=[1.0])[0].source.endswith("Theorem 2")


def test_deterministic_and_row_by_row(embedding):
    texts = ["red green blue " * 5, "grey grey blue " * 5]
    both = publish(texts, embedding)
    assert publish(texts, embedding) == both
    assert publish(texts, embedding, seed=2) != both
    assert publish(texts[:1], embedding) == both[:1]


@pytest.mark.parametrize(
    "params", [{}, {"rates": [1.0]}, {"noise": "mahalanobis"}, {"t": 0.0, "regularisation": None}]
)
def test_parameters_written_out_are_read_again(params):
    written = Vickrey.create({"epsilon": 1.0, **params}).params
    assert Vickrey.create(written.model_dump(mode="json")).params == written


def test_bad_parameters(embedding):
    for params, message in (
        ({"t": 1.5}, "vickrey.t is 1.5"),
        ({"t": 0.5, "rates": [1.0]}, "t and rates"),
        ({"rates": []}, r"vickrey\.rates is \[\]"),
        ({"rates": [-1.0]}, r"vickrey\.rates\.0 is -1\.0"),
        ({"epsilon": -1}, r"vickrey\.epsilon.*-1"),
    ):
        with pytest.raises(InputError, match=message):
            Vickrey.create({"epsilon": 1.0, **params})
    with pytest.raises(InputError, match=r"vickrey\.embedding.* 4 .* 5 "):
        publish(["red"], embedding, rates=[1.0] * 4)
