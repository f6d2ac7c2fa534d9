"""How many units compute side by side decides nothing, dropout included."""

from __future__ import annotations

import numpy as np
import pytest
from learners import DROPOUT_MODELS, DROPOUT_STATS, flat, learner_with_dropout

from uedp_bench.contracts.run_context import Run, Speed
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.training.chunks import batches_of_like_length


@pytest.mark.parametrize("model", list(DROPOUT_MODELS))
def test_weights_are_the_same_whatever_the_chunk(model: str) -> None:
    found = []
    for chunk in (1, 7, 64):
        learner = learner_with_dropout(model)
        run = Run(1, DROPOUT_STATS, scope="s", speed=Speed(chunk=chunk))
        params = {"rounds": 2, "users_per_round": 10, "noise_multiplier": 0.0, "clip": 5.0,
                  "local_batch_size": 2, "local_epochs": 2}  # fmt: skip
        module, _ = UserDP.create(params).train(learner, learner.corpus, run)
        found.append(flat(module) - flat(learner.module))
    size = float(found[0].norm())
    assert size > 0.01
    for other in found[1:]:
        assert float((found[0] - other).norm()) < 1e-4 * size


def test_without_dropout_weights_are_others() -> None:
    """So that the test above compares runs in which dropout acts."""
    kept = DROPOUT_MODELS["bilstm"][1]["dropout"]
    found = []
    for rate in (kept, 0.0):
        DROPOUT_MODELS["bilstm"][1]["dropout"] = rate
        learner = learner_with_dropout("bilstm")
        params = {"rounds": 1, "users_per_round": 10, "noise_multiplier": 0.0, "clip": 5.0}
        module, _ = UserDP.create(params).train(
            learner, learner.corpus, Run(1, DROPOUT_STATS, scope="s")
        )
        found.append(flat(module))
    DROPOUT_MODELS["bilstm"][1]["dropout"] = kept
    assert float((found[0] - found[1]).norm()) > 1e-3


def test_batches_have_rows_of_like_length_and_every_row_once() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 100, 1_003)
    order = rng.permutation(np.arange(3, 1_003))
    found = batches_of_like_length(order, lengths, 8, rng)
    assert sorted(found.tolist()) == list(range(3, 1_003))
    batches = np.split(found, range(8, 1_000, 8))
    spread = [np.ptp(lengths[batch]) for batch in batches]
    assert np.mean(spread) < 6 < np.mean([np.ptp(lengths[b]) for b in np.split(order, 125)])
    assert not np.array_equal(found, batches_of_like_length(order, lengths, 8, rng))
    small = batches_of_like_length(np.arange(5), lengths, 8, rng)
    assert sorted(small.tolist()) == list(range(5))
    assert not len(batches_of_like_length(np.arange(0), lengths, 8, rng))


def test_the_last_batch_is_the_one_that_is_smaller() -> None:
    lengths = np.arange(21)
    for seed in range(5):
        found = batches_of_like_length(np.arange(21), lengths, 4, np.random.default_rng(seed))
        assert all(np.ptp(found[at : at + 4]) == 3 for at in range(0, 20, 4))
