"""A tied head that reads hidden places alone: what one row adds, where its words are hard on it.

The table of words is looked up at every place of a row and multiplied at its hidden ones: its
gradient is a sum of as many products as places are hidden, and of as many rows as there are words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from uedp_bench.components.registry import models
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.models.networks.transformer_encoders import (
    MaskedTransformer,
    Projection,
    WordTransformer,
    fresh_head,
)
from uedp_bench.tasks.masked_language.masked_model import MaskedReader
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

BOUND, WORDS, OTHERS = 0.1, 40, 24
HOSTILE = ["5 " * 60, "5", "2 " * 30, " ".join(str(i) for i in range(3, WORDS)), "7 8 " * 29]


class _Numbers:
    begin, end, unknown, mask, special, private = 0, 1, None, 2, (0, 1, 2), False
    size, origin, fingerprint = WORDS, "numbers", "numbers"

    def literal(self) -> _Numbers:
        return self

    def encode(self, texts: Any) -> list[list[int]]:
        return [[int(word) for word in text.split()] for text in texts]

    def decode(self, tokens: Any) -> str:
        return " ".join(map(str, tokens))

    def save(self, folder: Path) -> None:
        raise NotImplementedError


def _network(scale: float) -> nn.Module:
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=WORDS, num_hidden_layers=1, hidden_size=8, num_attention_heads=2,
        intermediate_size=12, max_position_embeddings=64, initializer_range=0.3 * scale,
    )  # fmt: skip
    encoder = WordTransformer(BertModel(config, add_pooling_layer=False), Projection(8, None, 0))
    return MaskedTransformer(encoder, fresh_head(config, 1))


def _worker(scale: float) -> tuple[ShareWorker, int]:
    rng = np.random.default_rng(2)
    sizes = rng.integers(4, 30, OTHERS)
    ordinary = [" ".join(map(str, rng.integers(3, WORDS, size))) for size in sizes]
    texts = [*ordinary, *HOSTILE]
    rows = len(texts)
    corpus = Corpus(
        tuple(texts), {"user": np.arange(rows) // 3}, np.full(rows, SPLITS.index("train"))
    )
    model: Any = models.create("bert", {"configuration": "tiny"})
    learner = MaskedReader(model, _Numbers(), max_tokens=64, rate=0.3).learner(
        _network(scale), corpus
    )
    return ShareWorker(WorkerSetup(learner, LocalTraining(), "cpu", 1, (), 64)), rows


def _total(worker: ShareWorker, owner: list[int], rows: list[int], limits: Limits) -> Tensor:
    units = len(set(owner))
    cohort = Cohort.build(np.array(owner), np.array(rows), np.ones(len(rows)), units)
    cohort = cohort._replace(seeds=cohort.rows[None])  # a row hides the same words
    work = RoundWork(worker.trainer.flat.vector.clone(), limits)
    unit_sum = worker.unit_sum(work, Share(cohort, np.ones(units)))
    assert set(unit_sum.clipping) == {ONE_PASS}, unit_sum.clipping
    return unit_sum.total.double()


@pytest.mark.parametrize("limits", [Limits(BOUND), Limits(BOUND, rows=BOUND)])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_a_hostile_row_moves_the_sum_by_its_bound_at_most(scale: float, limits: Limits) -> None:
    worker, rows = _worker(scale)
    every = list(range(OTHERS))
    without = _total(worker, every, every, limits)
    for row in range(OTHERS, rows):
        moved = _total(worker, [*every, OTHERS], [*every, row], limits) - without
        assert float(moved.norm()) <= BOUND
        if "2 2" not in HOSTILE[row - OTHERS]:
            assert float(moved.norm()) > 0.5 * BOUND


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_a_user_of_hostile_rows_moves_the_sum_by_its_bound_at_most(scale: float) -> None:
    """One step of all rows of a user, as `user-dp` takes it."""
    worker, rows = _worker(scale)
    every = list(range(OTHERS))
    owner = [row // 3 for row in every]
    without = _total(worker, owner, every, Limits(BOUND))
    more = list(range(OTHERS, rows))
    whole = _total(worker, [*owner, *[OTHERS // 3] * len(more)], [*every, *more], Limits(BOUND))
    assert 0.5 * BOUND < float((whole - without).norm()) <= BOUND
