"""Inference errors of known channels, and a language model that knows the language."""

from __future__ import annotations

import numpy as np
import pytest
from word_tables import Table

from uedp_bench.attacks.word_reconstruction.attack import WordReconstruction
from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.words.metric_dp import MetricDP
from uedp_bench.mechanisms.words.vickrey import Vickrey

TEST, TRAIN = SPLITS.index("test"), SPLITS.index("train")
STATS = CorpusStats(users=2, rows=3, sensitive_rows=2, entities=3, public=True)


def corpus_of(texts, **fields):
    rows = len(texts)
    split = np.resize([TRAIN, TEST], rows)
    return Corpus(tuple(texts), {"user": np.arange(rows)}, split, **fields)


def attack(corpus, channel, published=None, seed=1, **params):
    release = PublishedOnly()
    if channel is not None:
        release.word_channel = channel
    release.published = corpus if published is None else published
    reconstruction = WordReconstruction.create(params)
    planted = reconstruction.plant(corpus, np.random.default_rng(0))[1]
    return reconstruction.run(release, planted, corpus, Run(seed, STATS))


def exact(prior, matrix):
    """Equation (4) with 0-1 error, and the error of the most likely word."""
    joint = prior[:, None] * matrix
    total = joint.sum(axis=0)
    return 1 - (joint**2 / total).sum(), 1 - joint.max(axis=0).sum()


def test_errors_of_a_known_channel():
    rng = np.random.default_rng(4)
    matrix = rng.dirichlet(np.full(5, 0.5), size=5)
    words = ["a", "b", "c", "d", "e"]
    prior = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    corpus = corpus_of([w for w, p in zip(words, prior, strict=True) for _ in range(int(100 * p))])
    leakage = attack(corpus, Table(words, matrix), samples=40_000)
    posterior, best = exact(prior, matrix)
    assert leakage.metrics["inference_error"].value == pytest.approx(posterior, abs=0.01)
    assert leakage.metrics["inference_error_map"].value == pytest.approx(best, abs=0.01)
    assert leakage.metrics["inference_error_prior"].value == pytest.approx(0.6)
    interval = leakage.metrics["inference_error"]
    assert interval.low < interval.value < interval.high


def test_second_nearest_word_is_as_good_as_the_word_itself():
    """A channel that is a permutation hides nothing from who knows it, however far it moves."""
    matrix = np.eye(6)[[1, 0, 3, 2, 5, 4]]
    line = [[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]]
    leakage = attack(corpus_of(list("abcdef") * 3), Table("abcdef", matrix, line), samples=4)
    for name in ("inference_error", "inference_error_map", "inference_error_nearest"):
        assert leakage.metrics[name].value == 0
    assert leakage.details["nearest_guesses"] == "its nearest neighbour"
    assert leakage.details["plug_in"] == {"inference_error": 0, "inference_error_map": 0}


def test_testing_on_what_was_learnt_overstates_the_adversary():
    """Noise over many substitutes: nothing can be inferred, yet each was seen from one word."""
    size = 400
    words = [f"w{i}" for i in range(size)]
    channel = Table(words, np.full((size, size), 1 / size))
    leakage = attack(corpus_of(words), channel, samples=4)
    truth = 1 - 1 / size
    assert leakage.metrics["inference_error_map"].value == pytest.approx(truth, abs=0.02)
    assert leakage.metrics["inference_error"].value == pytest.approx(truth, abs=0.02)
    assert leakage.details["plug_in"]["inference_error"] < 0.8
    assert leakage.details["plug_in"]["inference_error_map"] < 0.7


def test_a_substitute_that_no_sample_had_says_nothing():
    words = ["a", "b", *(f"x{i}" for i in range(1500))]
    matrix = np.zeros((len(words), len(words)))
    matrix[:2, 2:] = 1 / 1500
    leakage = attack(corpus_of(["a"] * 3 + ["b"]), Table(words, matrix), samples=2)
    assert leakage.details["substitutes_seen"] == 0
    (headline,) = (one.name for one in WordReconstruction.metrics if one.main)
    assert leakage.metrics[headline].value == pytest.approx(0.25)
    assert leakage.metrics["inference_error_prior"].value == pytest.approx(0.25)
    assert leakage.metrics["inference_error"].value == pytest.approx(1 - 9 / 16 - 1 / 16)


def test_ties_and_words_outside_the_vocabulary():
    table = Table(["b", "a"], [[1, 0], [1, 0]])
    leakage = attack(corpus_of(["a", "b", "chair"]), table, samples=2)
    assert leakage.metrics["inference_error_map"].value == 0.5
    assert leakage.details["unknown"] == 1
    with pytest.raises(InputError, match=r"word.*vocabulary"):
        attack(corpus_of(["chair"]), table)


@pytest.fixture
def embedding(tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "vectors.txt"
    rows = [f"w{i} {' '.join(map(str, v))}" for i, v in enumerate(rng.normal(size=(60, 4)))]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("kind", [MetricDP, Vickrey])
def test_more_noise_more_error(embedding, kind):
    corpus = corpus_of([f"w{i}" for i in range(60)])
    errors = []
    for epsilon in (0.01, 3.0, 300.0):
        mechanism = kind.create({"epsilon": epsilon, "embedding": embedding})
        leakage = attack(corpus, mechanism.word_channel(Run(1, STATS)))
        assert leakage.metrics["inference_error_map"].value <= (
            leakage.metrics["inference_error"].value + 0.02
        )
        errors.append(leakage.metrics["inference_error_map"].value)
    assert errors[0] > 0.9 > errors[1] > errors[2]
    # Without noise metric DP publishes the word; Vickrey one of two others.
    assert errors[2] == 0 if kind is MetricDP else 0.1 < errors[2] < 0.8


def test_published_text_without_a_channel():
    corpus = corpus_of(["the cat\nsat", "the dog ran", "one two"])
    published = corpus.with_texts(["the X\nsat", "the  ", "gone"])  # two words are taken out
    leakage = attack(corpus, None, published)
    assert leakage.metrics["inference_error_nearest"].value == pytest.approx(0.5)
    assert leakage.metrics["inference_error_prior"].value == pytest.approx(1 - 2 / 6)
    assert leakage.details["aligned_rows"] == 2
    assert "left out" in leakage.details["bayesian"]


def test_representations_have_no_words():
    corpus = corpus_of(["the cat sat", "the dog ran"])
    leakage = attack(corpus, None, corpus.with_vectors(np.zeros((2, 3))), masked_model="x")
    assert leakage.metrics == {}
    assert "left out" in leakage.details["masked_lm"]


# ---------------------------------------------------------------------------- masked language model


@pytest.fixture(scope="module")
def language():
    """Rows of a language in which the words of a row follow each other in a fixed order."""
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bdfgklmn" for b in ("a", "e", "o")]
    starts = rng.integers(len(words), size=600)
    rows = [" ".join(words[(s + i) % len(words)] for i in range(7)) for s in starts]
    return words, corpus_of(rows)


@pytest.fixture(scope="module")
def masked_model(language, tmp_path_factory):
    """A small BERT that knows the language."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    words, corpus = language
    folder = tmp_path_factory.mktemp("bert")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special, *words]) + "\n")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=48, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=96, max_position_embeddings=16, hidden_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForMaskedLM(config).train()
    tokens = tokenizer(list(corpus.texts), return_tensors="pt")["input_ids"]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(120):
        batch = tokens[torch.randint(len(tokens), (48,), generator=generator)]
        hidden = (torch.rand(batch.shape, generator=generator) < 0.2) & (batch >= len(special))
        loss = model(
            input_ids=batch.masked_fill(hidden, tokenizer.mask_token_id),
            labels=batch.masked_fill(~hidden, -100),
        ).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_language_model_beats_the_prior(language, masked_model, tmp_path):
    """From context alone, on text in which words were replaced; noise takes the context away."""
    words, corpus = language
    rng = np.random.default_rng(0)
    path = tmp_path / "vectors.txt"
    vectors = rng.normal(size=(len(words), 8))
    path.write_text(
        "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in zip(words, vectors, strict=True))
    )
    errors = {}
    for epsilon in (8.0, 0.1):
        mechanism = MetricDP.create({"epsilon": epsilon, "embedding": path})
        run = Run(1, STATS)
        published, _ = mechanism.publish(corpus, run)
        leakage = attack(
            corpus, mechanism.word_channel(run), published, samples=2,
            masked_model=str(masked_model), masked_words=300,
        )  # fmt: skip
        errors[epsilon] = leakage.metrics["inference_error_masked_lm"]
        assert leakage.details["masked_lm"] == {"words": 300, "one_token": 1.0}
        floor = leakage.metrics["inference_error_prior"].value
    assert errors[8.0].high < 0.6 * floor
    assert errors[8.0].high < errors[0.1].low
    assert errors[0.1].high > 0.9


def test_words_of_several_tokens_are_never_guessed(language, masked_model):
    corpus = corpus_of(["ba be bo chair"])
    leakage = attack(corpus, None, corpus, masked_model=str(masked_model))
    assert leakage.details["masked_lm"] == {"words": 4, "one_token": 0.75}
    assert leakage.metrics["inference_error_masked_lm"].value >= 0.25


def test_bad_models(tmp_path):
    corpus = corpus_of(["the cat sat"])
    with pytest.raises(InputError, match=r"word-reconstruction.masked_model .*nothing-here"):
        attack(corpus, None, masked_model=str(tmp_path / "nothing-here"))


def test_params():
    with pytest.raises(InputError, match=r"word-reconstruction\.samples is 3"):
        WordReconstruction.create({"samples": 3})


def test_samples_are_the_rarest_words_that_were_read_right():
    swap = np.eye(4)[[1, 0, 3, 2]]
    corpus = corpus_of(["a b c", "a b", "a d", "a a", "b b"])
    shown = corpus.with_texts(["b a d", "b a", "b c", "b b", "a a"])
    leakage = attack(corpus, Table("abcd", swap), shown, samples=4)
    assert [(one.private, one.seen, one.read) for one in leakage.samples] == [
        ("a b c", "b a d", "c (where d stands)"),
        ("a d", "b c", "d (where c stands)"),
        ("a b", "b a", "b (where a stands)"),
        ("a a", "b b", "a (where b stands)"),
    ]
    # Without the channel a word is taken for itself, and none of them is.
    assert attack(corpus, None, shown).samples == ()
    kept = corpus.with_texts(["x b x", "x x", "a x", "x x", "x x"])
    assert [one.read for one in attack(corpus, None, kept).samples] == ["b", "a"]
