"""A network that nobody trains, where it is asked."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from uedp_bench.rank_group import count

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.learner import Learner
    from uedp_bench.run_context import Run


def placed(learner: Learner, run: Run) -> nn.Module:
    """A copy of a learner's network on the device of the run; in parts where weights are.

    Raises:
        InputError: if weights are in parts, and the learner cannot be sent to another process.
    """
    if run.speed.shard_weights and count() > 1:
        from uedp_bench.training.sharded.leading import in_parts

        return in_parts(learner, run.device)
    return copy.deepcopy(learner.module).to(run.device)
