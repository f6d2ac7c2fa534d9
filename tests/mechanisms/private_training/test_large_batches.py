"""Large logical batches: computed in as many chunks as one likes, noised once, stepped by LAMB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, sizes
from toy import ToyLearner

from uedp_bench.contracts.run_context import Run, Speed
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.training import device, unit_sums
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.unit_sums import ShareWorker

BATCH = 64


def _trained(
    learner: ToyLearner, size: int, *, one_pass: bool = True, **params: Any
) -> tuple[torch.Tensor, int]:
    """The weights after training in chunks of so many rows, and how many chunks a step had."""
    seen, whole = list[int](), ShareWorker.unit_sum

    def counted(self: Any, work: Any, share: Any) -> Any:
        unit_sum = whole(self, work, share)
        assert (ONE_PASS in unit_sum.clipping) is one_pass
        seen.append(len(share.weights))
        return unit_sum

    run = Run(0, sizes(rows=BATCH), speed=Speed(chunk=size))
    settings = {"records": BATCH, "batch_size": BATCH, "steps": 1, **params}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "CACHED_NUMBERS", size * learner.row_size)
        patch.setattr(ShareWorker, "unit_sum", counted)
        if not one_pass:  # as for a network that one pass does not know
            patch.setattr(unit_sums, "one_pass_refusal", lambda *_: "a test asks for it")
        module, _ = DPSGD.create(settings).train(learner, learner.corpus, run)
    assert sum(seen) == BATCH * settings["steps"]
    return flat(module), len(seen) // settings["steps"]


@pytest.mark.parametrize("one_pass", [True, False], ids=["one pass", "update by update"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "lamb"])
def test_the_update_is_the_same_in_1_7_and_64_chunks(optimizer: str, one_pass: bool) -> None:
    params = {"optimizer": optimizer, "learning_rate": 0.1, "clip": 0.7, "noise_multiplier": 0.5}
    by_chunks = {}
    for size in (64, 10, 1):
        learner = NetworkLearner(BATCH)
        weights, count = _trained(learner, size, one_pass=one_pass, steps=2, **params)
        by_chunks[count] = weights
    assert list(by_chunks) == [1, 7, 64]
    for count in (7, 64):
        torch.testing.assert_close(by_chunks[count], by_chunks[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [64, 10, 1])
def test_noise_is_drawn_once_for_a_logical_batch(size: int) -> None:
    """Gradients are 0: the update is noise of deviation sigma C / B, however many chunks."""
    learner, sigma, clip = ToyLearner(np.zeros((BATCH, 20_000)), list(range(BATCH))), 1.3, 0.4
    weights, count = _trained(
        learner, size, optimizer="sgd", learning_rate=1.0, noise_multiplier=sigma, clip=clip
    )
    assert count == -(-BATCH // size)
    assert float(weights.var()) == pytest.approx((sigma * clip / BATCH) ** 2, rel=0.06)


def test_optimisers_are_those_of_the_parameters() -> None:
    decays = {"adam": 0.0, "adamw": 0.01, "lamb": 0.01}
    for name, decay in decays.items():
        server: Any = DPSGD.create({"optimizer": name}).params.server()
        assert server.weight_decay == decay
    assert "weight_decay" not in DPSGD.create({}).params.model_dump()
    with pytest.raises(ValueError, match=r"weight_decay.*'adam'"):
        DPSGD.create({"weight_decay": 0.1})
