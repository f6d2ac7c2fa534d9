"""Rows that end in different places: packed they give what padded ones give, in all training."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from model_learners import learner_of_model
from toy import cohort_of

from uedp_bench.contracts.learner import Learner, Schedule
from uedp_bench.models.fast import recurrence_tables
from uedp_bench.models.lstm import AWDLSTM, AWDLSTMParams
from uedp_bench.models.word_vocabularies import WordVocabulary
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.plain import optimizer_for, plain_step
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

NAMES = ["lstm-small", "cifg-lstm", "awd-lstm"]
LONG = ["w1", " ".join(f"w{i % 9}" for i in range(30))]


class Packs:
    """Lets layers of any size pack, and counts how often they do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch, self.times = monkeypatch, 0
        self.real = recurrence_tables.packing

    def everything(self) -> None:
        self.patch.setattr(recurrence_tables, "LARGE", 0)
        self.patch.setattr(recurrence_tables, "packing", self._packing)

    def _packing(self, *arguments: Any) -> Any:
        packing = self.real(*arguments)
        self.times += packing is not None
        return packing


@pytest.fixture
def packs(monkeypatch: pytest.MonkeyPatch) -> Packs:
    return Packs(monkeypatch)


def _learner(name: str) -> Learner:
    learner = learner_of_model(name, LONG)
    learner.module.train()
    return learner


def _total(name: str, units: list[list[int]], limits: Limits) -> tuple[torch.Tensor, set[str]]:
    worker = ShareWorker(WorkerSetup(_learner(name), LocalTraining(), "cpu", 1, (), 64))
    work = RoundWork(worker.trainer.flat.vector.clone(), limits)
    cohort = cohort_of(units)
    cohort = cohort._replace(seeds=cohort.rows[None])
    unit_sum = worker.unit_sum(work, Share(cohort, np.ones(len(units))))
    return unit_sum.total, set(unit_sum.clipping)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("units", [[[i] for i in range(8)], [[0, 1, 7], [2], [3, 4, 5, 6]]])
@pytest.mark.parametrize("limits", [Limits(0.1), Limits(0.1, rows=0.05)])
def test_clipped_sums_in_one_pass_are_the_same(
    name: str, units: list[list[int]], limits: Limits, packs: Packs
) -> None:
    padded, ways = _total(name, units, limits)
    packs.everything()
    packed, _ = _total(name, units, limits)
    assert ways == {ONE_PASS}
    assert packs.times
    torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-6)
    assert float(packed.norm()) > 0.01


@pytest.mark.parametrize("name", NAMES)
def test_a_step_of_ordinary_training_is_the_same(name: str, packs: Packs) -> None:
    learner = _learner(name)
    rows = np.arange(8)
    weights = []
    for _ in range(2):
        module = copy.deepcopy(learner.module)
        optimizer = optimizer_for(Schedule(1, 8, 0.1, optimizer="sgd"), module)
        nats, _ = plain_step(learner, module, optimizer, (rows, rows), "cpu")
        weights.append([torch.tensor(nats), *module.parameters()])
        packs.everything()
    assert packs.times
    for padded, packed in zip(*weights, strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-6)


def test_representations_of_texts_are_the_same(packs: Packs) -> None:
    model = AWDLSTM(AWDLSTMParams(embedding=6, units=7))
    network = model.build_encoder(WordVocabulary(tuple("abcdefgh"), origin="a test"), 1)
    tokens, lengths = torch.arange(40).view(4, 10) % 8, torch.tensor([1, 10, 3, 2])
    padded = network(tokens, lengths, torch.arange(4))
    packs.everything()
    packed = network(tokens, lengths, torch.arange(4))
    assert packs.times
    torch.testing.assert_close(packed, padded)
