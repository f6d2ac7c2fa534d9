"""Masked language models under mechanisms: one pass, chunks, stages, and what they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from masked_rows import STATS, learner_of, rows_of_words, task_with
from toy import cohort_of

from uedp_bench.contracts.learner import Schedule
from uedp_bench.contracts.run_context import Run, Speed
from uedp_bench.corpus import Corpus
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.device import CACHED_NUMBERS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.plain import train_plain
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup
from uedp_bench.training.vector import FlatModule

STEPS = {"steps": 2, "batch_size": 20, "clip": 0.5, "optimizer": "sgd"}


def _flat(module: torch.nn.Module) -> torch.Tensor:
    return FlatModule(module, "cpu").vector


@pytest.mark.parametrize(
    ("units", "lora"),
    [
        ([[i] for i in range(12)], None),
        ([[0], [1, 2, 3], [4, 5], [6, 7, 8]], None),
        ([[0], [1, 2, 3], [4, 5], [6, 7, 8]], 2),
    ],
)
def test_one_pass_gives_what_each_update_by_itself_gives(
    units: list[list[int]], lora: int | None
) -> None:
    """The table of token vectors is used twice, by lookups and by the output layer."""
    learner = learner_of(task_with({"configuration": "tiny", "lora_rank": lora}), rows_of_words())
    rng = np.random.default_rng(4)
    cohort = cohort_of(units).drawn(1, None, rng, rng)
    sums = []
    for fast in (True, False):
        refusal = None if fast else "a test asks for it"
        setup = WorkerSetup(learner, LocalTraining(), "cpu", 1, (), most=4, refusal=refusal)
        worker = ShareWorker(setup)
        work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.3))
        sums.append(worker.unit_sum(work, Share(cohort, np.linspace(0.4, 1.0, len(units)))))
        assert (ONE_PASS in sums[-1].clipping) is fast, sums[-1].clipping
    fast_sum, slow_sum = sums
    assert float((fast_sum.total - slow_sum.total).norm()) < 1e-3 * float(slow_sum.total.norm())
    assert fast_sum.clipped == slow_sum.clipped > 0
    assert sorted(fast_sum.losses) == pytest.approx(sorted(slow_sum.losses), rel=1e-4)


def test_the_update_is_the_same_in_1_7_and_64_chunks() -> None:
    """How many rows fit side by side decides nothing: masks, clipping and the sum are by row."""
    updates, chunks = [], []
    for row_size in (1, CACHED_NUMBERS // 16, 20 * CACHED_NUMBERS):
        learner = learner_of(task_with(), rows_of_words(160))
        learner.row_size = row_size
        sizes: list[int] = []
        batch = learner.batch

        def spied(rows: Any, seeds: Any, batch: Any = batch, counts: list[int] = sizes) -> Any:
            counts.append(len(rows))
            return batch(rows, seeds)

        learner.batch = spied  # type: ignore[method-assign]
        run = Run(1, STATS, scope="s", speed=Speed(chunk=64))
        params = {**STEPS, "steps": 1, "batch_size": 200, "noise_multiplier": 0.0}
        module, _ = DPSGD.create({**params, "records": 200}).train(learner, learner.corpus, run)
        updates.append(_flat(module) - _flat(learner.module))
        assert run.diary.ways["clipping"] == ONE_PASS
        assert sum(sizes) == 64 == int(learner.corpus.where("train").sum())
        chunks.append(len(sizes))
    assert (chunks[0], chunks[2]) == (1, 64) and 4 <= chunks[1] <= 10
    for other in updates[1:]:
        assert float((updates[0] - other).norm()) < 1e-4 * float(updates[0].norm()) > 0


def test_masks_are_drawn_anew_at_every_visit() -> None:
    """Two steps on all rows, without noise: seeds of a row differ, and so do its masks."""
    learner, seen = learner_of(task_with(), rows_of_words()), []
    batch = learner.batch

    def spied(rows: Any, seeds: Any) -> Any:
        masked = batch(rows, seeds)
        seen.extend(zip(rows.tolist(), masked["places"].tolist(), strict=True))
        return masked

    learner.batch = spied  # type: ignore[method-assign]
    train_plain(Schedule(4, 16, 1e-3), learner, Run(1, STATS))
    longest = int(learner.row_lengths.argmax())
    places = [tuple(sorted(set(at))) for row, at in seen if row == longest]
    assert len(places) == 4 and len(set(places)) > 1


def test_a_little_text_is_learnt_by_heart() -> None:
    """Each word tells the others of its row: all hidden words are found, and no n-gram helps."""
    rng = np.random.default_rng(0)
    pairs = [("old", "clinic"), ("home", "rest"), ("nurse", "doctor")]
    texts = [" ".join(pairs[i]) for i in rng.integers(3, size=90)]
    corpus = Corpus(tuple(texts), {"user": np.arange(90)}, np.resize([0, 2, 4], 90))
    task = task_with()
    learner = learner_of(task, corpus)
    before = task.score(learner.release(learner.module), corpus).metrics
    trained = train_plain(Schedule(40, 15, 5e-3), learner, Run(1, STATS))
    after = task.score(learner.release(trained), corpus).metrics
    assert after["pseudo_perplexity"].value < 1.3 < 4 < before["pseudo_perplexity"].value
    assert after["accuracy"].value == 1.0 > after["constant_accuracy"].value
    assert after["pseudo_perplexity"].value < after["bigram_perplexity"].value
    release = learner.release(trained)
    losses = release.filler_losses("nurse ", "", ["doctor", "clinic", "rest"])
    assert losses.argmin() == 0 and losses[0] < 0.3
