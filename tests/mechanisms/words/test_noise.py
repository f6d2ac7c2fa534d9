"""The channel that adversaries run is the mechanism that publishes."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from scipy import stats

from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.words.metric_dp import MetricDP
from uedp_bench.mechanisms.words.vickrey import Vickrey

STATS = CorpusStats(users=2, rows=3, sensitive_rows=2, entities=3, public=True)
WORDS = {"red": (0, 0), "green": (0.5, 0), "blue": (0, 0.8), "grey": (1.0, 1.0), ".": (-0.6, 0.2)}


@pytest.fixture
def embedding(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{w} {x} {y}\n" for w, (x, y) in WORDS.items()))
    return path


@pytest.mark.parametrize(
    ("kind", "params"),
    [(MetricDP, {}), (Vickrey, {"t": 0.3}), (Vickrey, {"rates": [1.0, 2.0, 0.5]})],
)
def test_substitutes_have_the_distribution_of_published_words(embedding, kind, params):
    run = Run(1, STATS)
    mechanism = kind.create({"epsilon": 2.0, "embedding": embedding, **params})
    rows = 1500
    corpus = Corpus(
        ("red . blue",) * rows,
        {"user": np.arange(rows)},
        np.full(rows, SPLITS.index("train")),
    )
    published, _ = mechanism.publish(corpus, run)
    channel = mechanism.word_channel(run)
    words = np.array([channel.find(word) for word in channel.split("Red. blue")])
    assert [channel.words[at] for at in words] == ["red", ".", "blue"]
    for place, word in enumerate(words):
        drawn = channel.sample(np.full(rows, word), np.random.default_rng(3))
        shown = [channel.find(text.split()[place]) for text in published.texts]
        table = np.stack([np.bincount(each, minlength=5) for each in (drawn, shown)])
        table = table[:, table.sum(axis=0) > 0]
        assert stats.chi2_contingency(table).pvalue > 1e-3


def test_generator_decides_and_blocks_do_not(embedding, monkeypatch):
    channel = MetricDP.create({"epsilon": 2.0, "embedding": embedding}).word_channel(Run(1, STATS))
    words = np.arange(5).repeat(20)
    first = channel.sample(words, np.random.default_rng(5))
    assert np.array_equal(first, channel.sample(words, np.random.default_rng(5)))
    assert not np.array_equal(first, channel.sample(words, np.random.default_rng(6)))
    assert channel.sample(np.empty(0, dtype=np.int64), np.random.default_rng(5)).shape == (0,)


def test_public_vocabulary_is_all_that_goes_in_and_out(embedding, tmp_path):
    latin = tmp_path / "b.txt"
    plain, packed = tmp_path / "a.txt", tmp_path / "c.txt.gz"
    plain.write_text("; a list\n\nRED\n")
    packed.write_bytes(gzip.compress(b"grey\n"))
    latin.write_bytes("blue\nna\xefve\n".encode("latin-1"))
    mechanism = MetricDP.create(
        {"epsilon": 0.5, "embedding": embedding, "vocabulary": [plain, latin, packed]}
    )
    run = Run(1, STATS)
    channel = mechanism.word_channel(run)
    assert channel.words == ("red", "blue", "grey")
    assert channel.find("green") == -1
    drawn = channel.sample(np.zeros(500, dtype=np.int64), np.random.default_rng(0))
    assert set(drawn.tolist()) == {0, 1, 2}
    corpus = Corpus(("red green",), {"user": np.zeros(1, dtype=np.int64)}, np.zeros(1, dtype=int))
    assert mechanism.publish(corpus, run)[0].texts[0].split()[1] == "<unk>"


def test_bad_lists(embedding, tmp_path):
    empty, other, one = tmp_path / "empty.txt", tmp_path / "other.txt", tmp_path / "one.txt"
    empty.write_text("; nothing\n")
    other.write_text("purple\n")
    one.write_text("red\n")
    run = Run(1, STATS)
    for kind, path, message in (
        (MetricDP, empty, r"metric-dp\.vocabulary.*empty\.txt"),
        (MetricDP, other, r"metric-dp\.vocabulary: .*1 words"),
        (MetricDP, tmp_path / "gone.txt", r"metric-dp\.vocabulary: .*gone\.txt"),
        (Vickrey, one, r"vickrey\.vocabulary.* 1 .* 3 "),
    ):
        mechanism = kind.create({"epsilon": 1.0, "embedding": embedding, "vocabulary": [path]})
        with pytest.raises(InputError, match=message):
            mechanism.word_channel(run)
