"""Events are of the noise that was drawn: half of it is another event, and nothing is proven."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from documents import corpus_on_topics, hashed_sentences
from documents import run_of as document_run
from split import WordsLearner, split_run, topic_corpus
from tiny import runs
from toy import ToyLearner, toy_run

import uedp_bench.mechanisms as package
from uedp_bench.accounting.ledger import check_plan
from uedp_bench.contracts.mechanism import Events
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.errors import PrivacyError
from uedp_bench.mechanisms._noise import add_laplace, choose_by_score, spent
from uedp_bench.mechanisms.documents import truncation
from uedp_bench.mechanisms.documents.deepcandidate import Candidates, DeepCandidate
from uedp_bench.mechanisms.documents.truncation import Truncation
from uedp_bench.mechanisms.private_training.dp_ftrl import DPFTRL
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.uedp import UeDP
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.representations.dpnr import DPNR, DPNRParams, LaplaceChannel
from uedp_bench.mechanisms.words.metric_dp import MetricDP
from uedp_bench.mechanisms.words.noise import WordNoise
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.training.noise import GaussianNoise

__all__ = ["hashed_sentences"]

STATS = CorpusStats(6, 6, 6, 1, public=True)
FEDERATED: dict[Any, dict[str, Any]] = {
    UserDP: {"users_per_round": 3},
    UeDP: {"users_per_round": 3, "sentences": 6, "sensitive_sentences": 0, "entities": 1},
    UeDPSpread: {"users_per_round": 3, "noise_multiplier": 2.0},
    UeDPGroup: {"users": 6, "noise_multiplier": 2.0},
    DPSGD: {"batch_size": 3},
    DPFTRL: {"users_per_round": 2, "rounds": 4, "protected_spread": 1},
}


def _half_the_noise() -> Any:
    real = GaussianNoise.add

    def add(self: GaussianNoise, total: Any, std: float, rng: np.random.Generator) -> Any:
        return real(self, total, std / 2, rng)

    return patch.object(GaussianNoise, "add", add)


@pytest.mark.parametrize("kind", list(FEDERATED), ids=lambda kind: kind.name)
def test_less_gaussian_noise_is_another_event(kind: Any) -> None:
    steps = {"steps": 2} if kind is DPSGD else {"rounds": 2}
    mechanism = kind.create({**FEDERATED[kind], **steps})

    def events() -> Events:
        learner = ToyLearner(np.ones((6, 3)), [0, 1, 2, 3, 4, 5])
        run = toy_run(users=6, rows=6)
        executed_events: Events = mechanism.train(learner, learner.corpus, run)[1]
        return executed_events

    planned = mechanism.plan(toy_run(users=6, rows=6).stats)
    check_plan(planned, events())
    with _half_the_noise(), pytest.raises(PrivacyError, match="noise_multiplier"):
        check_plan(planned, events())


def test_a_run_with_less_noise_than_planned_proves_nothing(tmp_path: Path) -> None:
    params = {"rounds": 1, "users": 60, "users_per_round": 5}
    (run,) = runs({"name": "user-dp", "params": params})
    with _half_the_noise():
        result = execute(run, Execution(out=tmp_path, device="cpu", keep_release=False))
    (proven,) = [g for g in result.guarantees if g.kind == "proven"]
    assert proven.status == "refused"
    assert math.isinf(proven.epsilon)
    assert "noise_multiplier" in proven.reason


def _truncation(half: bool) -> tuple[Events, Events]:
    mechanism = Truncation.create({"epsilon": 2.0})
    real = truncation.scale
    change = 0.5 if half else 1.0
    with patch.object(truncation, "scale", lambda *a: change * real(*a)):
        _, events = mechanism.publish(corpus_on_topics({"train": 8, "public": 12}), document_run())
    return mechanism.plan(STATS), events


def _deepcandidate(half: bool) -> tuple[Events, Events]:
    mechanism = DeepCandidate.create(
        {"epsilon": 2.0, "candidates": 10, "clusters": 2, "projections": 5, "epochs": 1}
    )
    real = Candidates.choose

    def choose(self: Candidates, documents: Any, epsilon: float, rngs: Any) -> Any:
        return real(self, documents, 2 * epsilon if half else epsilon, rngs)

    with patch.object(Candidates, "choose", choose):
        _, events = mechanism.publish(corpus_on_topics({"train": 8, "public": 40}), document_run())
    return mechanism.plan(STATS), events


def _metric(half: bool, folder: Path) -> tuple[Events, Events]:
    file = folder / "vectors.txt"
    file.write_text("\n".join(f"w{i} {i}.0 1.0" for i in range(9)) + "\n", encoding="utf-8")
    mechanism = MetricDP.create({"epsilon": 3.0, "embedding": file})
    corpus = corpus_on_topics({"train": 3})
    corpus = replace(corpus, texts=("w1 w2", "w3", "w4 w5 w6"))
    real = WordNoise.__init__

    def init(self: WordNoise, vectors: Any, epsilon: float, *rest: Any) -> None:
        real(self, vectors, 2 * epsilon if half else epsilon, *rest)

    with patch.object(WordNoise, "__init__", init):
        _, events = mechanism.publish(corpus, document_run())
    return mechanism.plan(STATS), events


def _dpnr(half: bool) -> tuple[Events, Events]:
    learner = WordsLearner(topic_corpus(40), 40, 8)
    mechanism = DPNR.create({"epsilon": 1.0, "dimension": 8, "epochs": 1})
    planned = mechanism.plan(STATS)
    channel = LaplaceChannel(0.5 if half else 1.0)
    with patch.object(DPNRParams, "channel", lambda self: channel):
        _, events = mechanism.train(learner, learner.corpus, split_run())
    return planned, events


@pytest.mark.usefixtures("hashed_sentences")
@pytest.mark.parametrize("executed", [_truncation, _deepcandidate, _metric, _dpnr])
def test_less_local_noise_is_another_event(executed: Callable[..., Any], tmp_path: Path) -> None:
    more = (tmp_path,) if executed is _metric else ()
    check_plan(*executed(False, *more))
    with pytest.raises(PrivacyError, match=r"event 1.*event\.(scale|epsilon)"):
        check_plan(*executed(True, *more))


def test_no_mechanism_reports_its_plan() -> None:
    for folder in package.__path__:
        for file in Path(folder).rglob("*.py"):
            code = file.read_text(encoding="utf-8")
            assert not re.search(r"self\.plan\(\s*run", code), f"{file.name} reports its plan"


def test_noise_is_worth_what_the_least_protected_row_has() -> None:
    rngs = [np.random.default_rng(i) for i in range(2)]
    widths, values = np.array([[1.0, 2.0], [1.0, 0.0]]), np.zeros((2, 2))
    _, worth = add_laplace(values, widths, np.array([[2.0, 2.0], [0.5, 0.0]]), rngs)
    assert worth == 2.0
    _, worth = add_laplace(values, widths, np.array([[2.0, 0.0], [0.5, 0.0]]), rngs)
    assert math.isinf(worth)
    _, worth = choose_by_score(np.zeros((2, 5)), 1.5, 1.0, rngs)
    assert worth == 3.0
    assert spent([], 2.0) == 2.0
    assert spent([1.0, 2.0 * (1 + 1e-12)], 2.0) == 2.0
    assert spent([1.0], 2.0) == 1.0
