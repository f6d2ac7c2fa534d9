"""DPNR: what it proves and claims, robust training, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from learners import NetworkLearner
from scipy import stats
from split import MASK, WordsLearner, split_run, topic_corpus
from torch import nn

from uedp_bench.accounting.accountants.basic_composition import before_dropout, dropout_epsilon
from uedp_bench.accounting.events import LaplaceVector, NonPrivate
from uedp_bench.accounting.ledger import check_plan, proven
from uedp_bench.contracts.capabilities import Classifier, Encoder
from uedp_bench.contracts.results import Result
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.representations.dpnr import DPNR
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec
from uedp_bench.tasks.classification.text_classification import TextClassification

STATS = CorpusStats(users=4, rows=9, sensitive_rows=0, entities=0, public=False)
WIDTH = 16


def dpnr(**params: object) -> DPNR:
    values = {"epsilon": 1.0, "dimension": WIDTH, "learning_rate": 0.05, "epochs": 12, **params}
    channel: DPNR = DPNR.create({k: v for k, v in values.items() if v is not None})
    return channel


def epsilons(mechanism: DPNR) -> dict[str, float]:
    events = Pipeline.build([mechanism], Noiseless()).plan(STATS)
    return {g.unit: g.epsilon for g in proven(events, delta=1e-5)}


def at_delta_zero(mechanism: DPNR) -> float:
    """Epsilon of a word, the coordinates' added up."""
    events = Pipeline.build([mechanism], Noiseless()).plan(STATS)
    word = next(g for g in proven(events, delta=1e-5) if g.unit == "word")
    return word.epsilon if word.pure is None else word.pure


# Accounting


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_word_costs_k_epsilon_and_the_training_text_everything(dropout: float) -> None:
    mechanism = dpnr(epsilon=0.05, dimension=768, word_dropout=dropout)
    expected = math.log((1 - dropout) * math.exp(768 * 0.05) + dropout)
    assert at_delta_zero(mechanism) == pytest.approx(expected)
    assert epsilons(mechanism) == {"word": pytest.approx(6.338, rel=0.1), "record": math.inf}
    (claim,) = mechanism.claims(STATS)
    assert isinstance(claim.event, LaplaceVector)
    assert (claim.event.sensitivity, claim.event.scale) == (1.0, pytest.approx(20.0))
    assert dict(mechanism.readings()) == {"one coordinate of the representation": 0.05}


def test_it_trains_and_serves_and_tells_its_events_once() -> None:
    mechanism = dpnr()
    pipeline = Pipeline.build([mechanism], Noiseless())
    assert pipeline.trainers == (mechanism,)
    assert pipeline.plan(STATS) == mechanism.plan(STATS)
    assert {event.stage for event in pipeline.plan(STATS)} == {"dpnr"}


def test_shared_noise_proves_nothing_and_is_claimed_all_the_same() -> None:
    mechanism = dpnr(noise="shared")
    assert set(epsilons(mechanism).values()) == {math.inf}
    assert mechanism.claims(STATS) == dpnr().claims(STATS)


@given(
    st.floats(1e-6, 1e4),
    st.integers(1, 1024),
    st.floats(0.0, 0.999),
    st.sampled_from([True, False]),
)
def test_a_proven_total_is_met_exactly(total: float, k: int, dropout: float, drops: bool) -> None:
    dropout = dropout if drops else 0.0
    mechanism = dpnr(epsilon=None, total_epsilon=total, dimension=k, word_dropout=dropout)
    assert at_delta_zero(mechanism) == pytest.approx(total, rel=1e-9)
    assert epsilons(mechanism)["word"] <= total * (1 + 1e-9)
    assert mechanism.channel().scale == pytest.approx(1 / mechanism.params.per_coordinate)


@example(0.0078125, 8e-156)
@given(st.floats(1e-9, 700.0), st.floats(0.0, 0.99))
def test_dropout_inverts(epsilon: float, dropout: float) -> None:
    spent = before_dropout(epsilon, dropout)
    assert spent >= epsilon * (1 - 2**-52)  # spending less by a rounding only adds noise
    assert dropout_epsilon(spent, dropout) == pytest.approx(epsilon, rel=1e-9)


# Channel


def test_words_are_dropped_by_independent_coins() -> None:
    corpus = topic_corpus(rows=4000, length=6)
    learner = WordsLearner(corpus, 8, WIDTH)
    rate = dpnr(word_dropout=0.3).channel().word_dropout
    batch = learner.masked_batch(np.arange(4000), np.random.default_rng(1), rate)
    dropped = (batch["tokens"] == MASK).numpy()
    assert stats.binomtest(int(dropped.sum()), dropped.size, 0.3).pvalue > 1e-3
    counts = np.bincount(dropped.sum(axis=1), minlength=7)
    expected = 4000 * stats.binom(6, 0.3).pmf(np.arange(7))
    # Exactly d mu dropped words in every text, as in the paper, would put all rows in one cell.
    assert stats.chisquare(counts, expected).pvalue > 1e-3
    between = np.corrcoef(dropped, rowvar=False)[np.triu_indices(6, 1)]
    assert np.abs(between).max() < 4.5 / 4000**0.5


# Training


def accuracy(mechanism: DPNR, learner: WordsLearner, module: nn.Module) -> float:
    """Of the test rows, perturbed by the mechanism's channel five times."""
    rows = np.tile(np.flatnonzero(learner.corpus.where("test")), 5)
    batch = learner.batch(rows, np.arange(len(rows)))
    with torch.no_grad():
        z = learner.encode(module, batch)
        noisy = mechanism.channel().perturb(z, [np.random.default_rng(9)] * len(rows))
        losses = learner.head_losses(module, noisy, batch)
    return float((losses.nats < math.log(2)).double().mean())


@pytest.mark.parametrize("seed", [1, 2])
def test_noise_in_the_loop_makes_the_classifier_robust(seed: int) -> None:
    learner = WordsLearner(topic_corpus(800, seed), 8, WIDTH, seed)
    noisy, quiet = dpnr(epsilon=1.0), dpnr(epsilon=1e6)
    robust, events = noisy.train(learner, learner.corpus, split_run(seed))
    check_plan(noisy.plan(STATS), events)
    plain, _ = quiet.train(learner, learner.corpus, split_run(seed))
    assert accuracy(quiet, learner, plain) == 1.0
    assert accuracy(noisy, learner, robust) > accuracy(noisy, learner, plain) + 0.05


def test_only_training_rows_are_trained_on_and_valid_rows_choose_the_epoch() -> None:
    learner = WordsLearner(topic_corpus(200), 8, WIDTH)
    run = split_run()
    # A step as long as this makes later epochs worse than an early one.
    mechanism = dpnr(epochs=8, learning_rate=0.5, epsilon=0.5)
    before = learner.module.state_dict()["weight"].clone()
    module, _ = mechanism.train(learner, learner.corpus, run)
    seen = np.unique(learner.corpus.split[learner.seen])
    assert set(seen) == {SPLITS.index("train"), SPLITS.index("valid")}
    assert run.counts["rows_train"] == 8 * learner.corpus.where("train").sum()
    errors = [value for _, value in run.series["valid_expected_error"]]
    best = int(np.argmin(errors))
    assert run.diagnostics["best_epoch"] == best + 1 < 8
    shorter, _ = dpnr(epochs=best + 1, learning_rate=0.5, epsilon=0.5).train(
        learner, learner.corpus, split_run()
    )
    assert torch.equal(module.state_dict()["weight"], shorter.state_dict()["weight"])
    assert torch.equal(learner.module.state_dict()["weight"], before)
    assert not module.training


def test_without_valid_rows_the_last_epoch_is_kept() -> None:
    corpus = topic_corpus(100)
    learner = WordsLearner(corpus.with_split(corpus.where("valid"), "train"), 8, WIDTH)
    run = split_run()
    dpnr(epochs=3).train(learner, learner.corpus, run)
    assert run.diagnostics["best_epoch"] == 3
    assert "valid_loss" not in run.series


# Bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "'total_epsilon'"),
        ({"epsilon": 1, "total_epsilon": 8}, "epsilon and total_epsilon"),
        ({"epsilon": 0}, "dpnr.epsilon is 0"),
        ({"epsilon": -1}, "dpnr.epsilon is -1"),
        ({"epsilon": math.inf}, "dpnr.epsilon is inf"),
        ({"total_epsilon": 0}, "dpnr.total_epsilon is 0"),
        ({"total_epsilon": 1e-310}, "no representable noise"),
        ({"epsilon": 1, "word_dropout": 1.0}, "dpnr.word_dropout is 1.0"),
        ({"epsilon": 1, "word_dropout": -0.1}, "dpnr.word_dropout is -0.1"),
        ({"epsilon": 1, "dimension": 0}, "dpnr.dimension is 0"),
        ({"epsilon": 1, "noise": "sharde"}, "dpnr.noise is 'sharde'"),
        ({"epsilon": 1, "dropout": 0.1}, "'word_dropout'"),
    ],
)
def test_bad_parameters_are_one_line(params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        DPNR.create(params)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_dimension_says_which_to_set() -> None:
    learner = WordsLearner(topic_corpus(40), 8, WIDTH)
    with pytest.raises(InputError, match=r"dpnr\.dimension.*16"):
        dpnr(dimension=768).train(learner, learner.corpus, split_run())


def test_a_network_in_one_part_is_refused() -> None:
    learner = NetworkLearner(6)
    with pytest.raises(CapabilityError, match="text-classification"):
        dpnr().train(learner, learner.corpus, split_run())


def test_divergence_is_one_line() -> None:
    learner = WordsLearner(topic_corpus(40), 8, WIDTH)
    with torch.no_grad():
        learner.module.vectors[0:] = float("nan")
    with pytest.raises(InputError, match="lower learning_rate"):
        dpnr().train(learner, learner.corpus, split_run())


# In a run

SOURCE = {"users": 60, "valid_users": 8, "test_users": 12, "public_users": 15}


def benchmark(out: Path, **params: object) -> Result:
    values = {"epsilon": 1.0, "dimension": 8, "epochs": 1, "learning_rate": 0.01, **params}
    spec = {
        "task": {"name": "text-classification"},
        "source": {"name": "embedded", "params": SOURCE},
        "model": {"name": "bilstm", "params": {"embedding_size": 8, "units": 4}},
        "mechanisms": [{"name": "dpnr", "params": values}],
    }
    (run,) = expand(parse_spec(spec))
    result = execute(run, Execution(out=out, device="cpu"))
    assert result.status == "finished", result.error
    return result


def test_a_run_shows_both_guarantees_and_serves_noisy_representations(tmp_path: Path) -> None:
    result = benchmark(tmp_path, word_dropout=0.2)
    by_unit = {(g.kind, g.unit): (g.epsilon, g.status) for g in result.guarantees}
    assert by_unit["claimed", "word"] == (pytest.approx(dropout_epsilon(1.0, 0.2)), "given")
    assert by_unit["proven", "word"] == (pytest.approx(dropout_epsilon(8.0, 0.2)), "given")
    assert by_unit["proven", "record"] == (math.inf, "given")
    assert isinstance(result.events[1].event, NonPrivate)
    release = TextClassification.create().load(tmp_path / result.id / "release")
    assert isinstance(release, Classifier)
    assert isinstance(release, Encoder)
    corpus = topic_corpus(40)
    shown = release.representations(corpus)
    assert np.array_equal(shown, release.representations(corpus))
    assert np.array_equal(shown[:3], release.representations(corpus.take(np.arange(3))))
    assert np.array_equal(release.class_logprobs(corpus), release.class_logprobs(corpus))
    twice = corpus.take(np.array([0, 1]))
    twice = twice.with_texts([corpus.texts[0]] * 2)
    first, second = release.representations(twice)
    assert not np.isclose(first, second).any()
