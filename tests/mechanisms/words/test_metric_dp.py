"""Metric DP on words: the noise has its density, odds stay below e^(epsilon d), rows are alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from uedp_bench.accounting.events import MetricPrivacy, NonPrivate
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.words.metric_dp import MetricDP
from uedp_bench.mechanisms.words.noise import WordNoise
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism, PlannedPipeline

STATS = CorpusStats(users=2, rows=3, sensitive_rows=2, entities=3, public=True)
WORDS = {"red": (0, 0), "green": (0.5, 0), "blue": (0, 0.8), "grey": (1.0, 1.0), ".": (-0.6, 0.2)}


@pytest.fixture
def embedding(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{w} {x} {y}\n" for w, (x, y) in WORDS.items()))
    return path


def corpus_of(texts, splits=None, **fields):
    rows = len(texts)
    split = np.array([SPLITS.index(name) for name in splits or ["train"] * rows])
    return Corpus(tuple(texts), {"user": np.arange(rows)}, split, **fields)


def publish(corpus, embedding, seed=1, **params):
    run = Run(seed, STATS)
    values = {"epsilon": 2.0, "embedding": embedding, **params}
    return MetricDP.create(values).publish(corpus, run)[0], run


@pytest.mark.parametrize("dimension", [2, 50, 300])
def test_radius_is_gamma_and_direction_uniform(dimension):
    noise = WordNoise(np.eye(dimension), 1.7, None, "m")
    drawn = noise.sample(4000, np.random.default_rng(dimension))
    radius = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(radius, stats.gamma(dimension, scale=1 / 1.7).cdf).pvalue > 1e-3
    unit = drawn / radius[:, None]
    # A coordinate of a uniform direction: (1 + u) / 2 is Beta((d - 1)/2, (d - 1)/2).
    half = (dimension - 1) / 2
    assert stats.kstest((1 + unit[:, 0]) / 2, stats.beta(half, half).cdf).pvalue > 1e-3
    assert np.abs(unit.T @ unit / 4000 - np.eye(dimension) / dimension).max() < 6 / (
        dimension * 4000**0.5
    )
    assert abs(stats.spearmanr(radius, unit[:, 0]).statistic) < 0.06


def test_mahalanobis_second_moments():
    """E z z^T = E r^2 / d (lambda Sigma + (1 - lambda) I), E r^2 = d (d + 1) / epsilon^2."""
    rng = np.random.default_rng(3)
    vectors = (
        rng.normal(size=(500, 6)) @ np.diag([3, 1, 1, 0.5, 0.2, 0.1]) @ rng.normal(size=(6, 6))
    )
    covariance = np.cov(vectors, rowvar=False)
    scaled = covariance / np.trace(covariance) * 6
    expected = (0.7 * scaled + 0.3 * np.eye(6)) * 7 / 4.0
    drawn = WordNoise(vectors, 2.0, 0.7, "m").sample(200_000, rng)
    moments = drawn.T @ drawn / len(drawn)
    assert np.abs(moments - expected).max() < 0.02 * np.abs(expected).max()
    # Its radius in the metric is Gamma again: it was not made spherical.
    noise = WordNoise(vectors, 2.0, 0.7, "m")
    radius = np.linalg.norm(noise.coordinates(drawn[:5000]), axis=1)
    assert stats.kstest(radius, stats.gamma(6, scale=0.5).cdf).pvalue > 1e-3
    assert (
        stats.kstest(np.linalg.norm(drawn[:5000], axis=1), stats.gamma(6, scale=0.5).cdf).pvalue
        < 1e-9
    )


@pytest.mark.parametrize("params", [{}, {"noise": "mahalanobis", "regularisation": 0.8}])
def test_odds_stay_below_the_bound(embedding, params):
    """Every output of every two words; the slack is five standard errors of the logarithm."""
    count, epsilon = 40_000, 2.0
    vocabulary = list(WORDS)
    texts = [" ".join([word] * count) for word in vocabulary]
    out, _ = publish(corpus_of(texts), embedding, epsilon=epsilon, **params)
    shares = np.array([[text.split().count(word) for word in vocabulary] for text in out.texts])
    assert (shares.sum(axis=1) == count).all()
    vectors = np.array(list(WORDS.values()))
    weight = params.get("regularisation")
    points = WordNoise(vectors, epsilon, weight, "m").coordinates(vectors)
    distance = np.linalg.norm(points[:, None] - points, axis=2)[:, :, None]
    odds = np.log(shares[:, None] / shares)
    slack = 5 * np.sqrt(1 / shares[:, None] + 1 / shares)
    assert (odds <= epsilon * distance + slack).all()
    # The test has teeth: with half of the noise some odds are too large.
    assert (odds > epsilon / 2 * distance + slack).any()


def test_rows_are_alone_and_reproducible(embedding):
    texts = [f"{'red green blue ' * 3}{word} ." for word in ("red", "grey", "blue", "red")]
    corpus = corpus_of(texts)
    whole, _ = publish(corpus, embedding)
    assert publish(corpus, embedding)[0].texts == whole.texts
    assert publish(corpus, embedding, seed=2)[0].texts != whole.texts
    for row in range(4):
        assert publish(corpus.take(np.array([row])), embedding)[0].texts == (whole.texts[row],)
    # Rows of one text have noise of their own, planted copies too.
    assert whole.texts[0] != whole.texts[3]
    planted = corpus_of(texts[:1] * 2, origin=np.array([-1, -1]))
    first, second = publish(planted, embedding)[0].texts
    assert first != second


def test_much_epsilon_changes_nothing_and_little_makes_words_alike(embedding):
    corpus = corpus_of(["Red  GREEN blue."])
    same, run = publish(corpus, embedding, epsilon=1e6)
    assert same.texts == ("red green blue .",)
    assert run.diagnostics["words_unchanged"] == run.diagnostics["words_replaced"] == 4
    rows = corpus_of(["red " * 4000, "grey " * 4000])
    red, grey = publish(rows, embedding, epsilon=1e-3)[0].texts
    assert abs(red.split().count("red") - grey.split().count("red")) < 5 * (2 * 4000) ** 0.5


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("mask", "<unk> red <unk> <unk> blue"), ("drop", "red blue"), ("keep", "Zed red co op blue")],
)
def test_words_outside_the_vocabulary(embedding, policy, expected):
    corpus = corpus_of(["Zed red co_op".replace("_", " ") + " blue"])
    out, run = publish(corpus, embedding, epsilon=1e6, unknown=policy)
    assert out.texts == (expected,)
    assert run.diagnostics["words_unknown"] == 3
    assert "words_unknown" in run.diagnostics["simulation_only"]
    mechanism = MetricDP.create({"epsilon": 3, "unknown": policy})
    (event,) = mechanism.plan(STATS)
    assert (event.unit, event.adjacency) == ("word", "replace-one")
    if policy == "keep":
        assert isinstance(event.event, NonPrivate)
        assert "unknown is keep" in event.event.reason
    else:
        assert event.event == MetricPrivacy(epsilon=3.0, metric="euclidean")


def test_what_a_row_carries(embedding):
    texts = ("red green", "red blue", "", "grey .")
    mentions = [(0, 0, 3, 0), (1, 4, 8, 0), (3, 0, 4, 0)]
    corpus = corpus_of(
        texts, ["train", "public", "valid", "test"], labels=np.array([0, 1, 1, 0]),
        label_names=("a", "b"), entities=Spans.build(texts, mentions), entity_types=("Colour",),
    )  # fmt: skip
    out, _ = publish(corpus, embedding, epsilon=0.01)
    assert out.texts[1:3] == ("red blue", "")
    assert all(len(text.split()) == 2 for text in (out.texts[0], out.texts[3]))
    first = [text.split()[0] for text in (out.texts[0], out.texts[3])]
    assert [out.surface(i) for i in range(3)] == [first[0], "blue", first[1]]
    assert out.labels.tolist() == [0, 1, 1, 0]
    assert out.entity_types == ("Colour",)


def test_epsilon_at_distances_of_the_embedding(embedding):
    _, run = publish(corpus_of(["red"]), embedding, epsilon=2.0, distances=[3.0])
    epsilons = run.diagnostics["epsilon_at"]
    assert epsilons["nearest neighbour, 5th percentile"] >= 2 * 0.5
    assert epsilons["random pair, 95th percentile"] <= 2 * np.hypot(1.6, 0.8) + 1e-6
    assert epsilons["two words at distance 3"] == 6.0
    again = publish(corpus_of(["grey grey"]), embedding, seed=9, epsilon=2.0, distances=[3.0])[1]
    assert again.diagnostics["epsilon_at"] == epsilons


def test_counts_of_all_calls_add_up(embedding):
    mechanism, run = MetricDP.create({"epsilon": 1e6, "embedding": embedding}), Run(1, STATS)
    run.note(signal=1.0, simulation_only=["signal"])
    mechanism.publish(corpus_of(["red blue", "zed"]), run)
    mechanism.publish(corpus_of(["grey zed"], ["test"]), run)
    counts = {"words_replaced": 3, "words_unknown": 2, "words_unchanged": 3}
    assert {name: run.diagnostics[name] for name in counts} == counts
    assert run.diagnostics["simulation_only"] == ["signal", *counts]


def test_bad_parameters(embedding, tmp_path):
    for params, message in (
        ({"epsilon": 0}, r"metric-dp\.epsilon.*0"),
        ({"epsilon": 1, "unknown": "skip"}, "'keep', 'drop' or 'mask'"),
        ({"epsilon": 1, "regularisation": 0.1}, "regularisation.*laplace"),
        ({"epsilon": 1, "noise": "mahalanobis", "regularisation": 1.1}, "regularisation is 1.1"),
    ):
        with pytest.raises(InputError, match=message):
            MetricDP.create(params)
    with pytest.raises(InputError, match=r"metric-dp.*'embedding'"):
        publish(corpus_of(["red"]), None)
    flat = tmp_path / "flat.txt"
    flat.write_text("red 0 1\nblue 1 1\n")
    with pytest.raises(InputError, match=r"metric-dp\.regularisation is 1:"):
        publish(corpus_of(["red"]), flat, noise="mahalanobis", regularisation=1)


def test_accounting_needs_no_embedding():
    planned = PlannedMechanism.from_settings(
        "metric-dp", {"epsilon": 10.0, "distances": [0.5, 3.0]}
    )
    assert [value for _, value in planned.readings()] == [5.0, 30.0]
    (claim,), (event,) = planned.claims(), planned.plan()[0]
    assert claim.event == event.event == MetricPrivacy(epsilon=10.0, metric="euclidean")
    other = PlannedMechanism.from_settings(
        "metric-dp", {"epsilon": 1.0, "noise": "mahalanobis"}
    ).plan()[0][0]
    assert other.event == MetricPrivacy(epsilon=1.0, metric="mahalanobis, lambda 0.2")
    both = PlannedPipeline.from_settings(
        "metric-dp+noiseless", {"epsilon": 2.0, "distances": [3.0]}
    )
    assert [value for _, value in both.readings()] == [6.0]


def test_glove(shared_data):
    path = shared_data / "glove" / "glove.6B.50d.union.txt.gz"
    if not path.is_file():
        pytest.skip("needs glove/glove.6B.50d.union.txt.gz among the public data sets")
    text = "the market of the city was full of people ."
    near, _ = publish(corpus_of([text]), path, epsilon=1e4)
    assert near.texts == (text,)
    for noise in ("laplace", "mahalanobis"):
        far, run = publish(corpus_of([text] * 20), path, epsilon=10.0, noise=noise)
        changed = 1 - run.diagnostics["words_unchanged"] / run.diagnostics["words_replaced"]
        assert 0.3 < changed < 1
        assert run.diagnostics["words_unknown"] == 0
        values = list(run.diagnostics["epsilon_at"].values())
        assert values[:3] == sorted(values[:3])
        assert values[3:] == sorted(values[3:])
        assert len(set(far.texts)) == 20


@pytest.mark.parametrize("unknown", ["keep", "drop", "mask"])
def test_annotations_cover_what_their_words_became(embedding, unknown):
    texts = ("red-green is grey", "was blue, red")
    marks = [(0, 0, 9, 0), (0, 13, 17, 0), (1, 4, 8, 0), (1, 10, 13, 0)]
    corpus = corpus_of(
        texts, ["train", "train"], entities=Spans.build(texts, marks), entity_types=("Colour",),
        layers={"all": Layer.build(texts, [(0, 0, 17, 0), (1, 4, 13, 0)], ("X",))},
    )  # fmt: skip
    out, _ = publish(corpus, embedding, unknown=unknown, epsilon=500.0)
    shown = [out.surface(i) for i in range(len(out.entities))]
    whole = [out.texts[row][a:b] for row, a, b, _ in out.layer("all").spans.mentions()]
    # "-", "is", "was" and "," are no words of the embedding; at this epsilon the others stay.
    if unknown == "drop":
        assert out.texts == ("red green grey", "blue red")
        assert shown == ["grey", "blue", "red"]
        assert whole == []
        assert out.layer("all").rows.tolist() == [False, False]
        return
    dash, verb, comma = ("-", "is", ",") if unknown == "keep" else ("<unk>",) * 3
    assert shown == [f"red {dash} green", "grey", "blue", "red"]
    assert whole == [f"red {dash} green {verb} grey", f"blue {comma} red"]
    assert out.layer("all").rows.all()
