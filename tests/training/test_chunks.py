"""How many units compute side by side decides nothing, dropout included."""

from __future__ import annotations

import pytest
from learners import DROPOUT_MODELS, DROPOUT_STATS, flat, learner_with_dropout

from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.run import Run, Speed


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
