"""Why weights are gathered where they are used, and not where torch's `fully_shard` does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from learners import NetworkLearner
from model_learners import learner_of_model
from rank_team import one_thread
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from uedp_bench.rank_group import connected
from uedp_bench.training.local import LossModule
from uedp_bench.training.vector import FlatModule


def test_a_loss_that_reads_weights_outside_of_calls_meets_parts_of_them(tmp_path: Path) -> None:
    how = {"init_method": f"file://{tmp_path}/store", "world_size": 1, "rank": 0}
    with one_thread(), connected(**how):
        mesh = init_device_mesh("cpu", (1,))
        simple, recurrent = NetworkLearner(4), learner_of_model("cifg-lstm")
        for learner in (simple, recurrent):
            flat = FlatModule(learner.module, "cpu")
            network = LossModule(learner, flat)
            for module in reversed([*network.modules()]):
                if not isinstance(module, nn.ModuleList):
                    fully_shard(module, mesh=mesh)
            assert all(isinstance(weight, DTensor) for weight in network.parameters())
            batch = learner.batch(np.arange(2), np.zeros(2, dtype=np.int64))
            if learner is simple:  # whose layers are called
                network(batch).nats.sum().backward()
                continue
            with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
                network(batch)
