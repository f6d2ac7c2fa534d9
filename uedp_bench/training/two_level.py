"""Two-level clipping: every row of a unit is clipped, then their sum.

A unit's update is P_b(sum over its rows of P_c(update of the row)), with P_r the projection onto
the ball of radius r. A projection does not expand distances, so a unit that loses m of its rows
moves by at most min(m c, 2 b): this is what theorem B of user-entity accounting needs
(`docs/mechanisms/uedp-spread.md`). It holds because what a row sends depends on that row and the
shared weights alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from uedp_bench.contracts.at_once import at_once
from uedp_bench.errors import PrivacyError
from uedp_bench.training.bounds import Limits
from uedp_bench.training.chunks import CACHED_NUMBERS, chunk_size
from uedp_bench.training.clipping import clip_factors, finite_rows
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.local import LocalTraining, UnitTrainer

if TYPE_CHECKING:
    from uedp_bench.training.federation import Federation


def check_two_level(federation: Federation, limits: Limits) -> None:
    """Refuse what would make a row's contribution depend on other rows, or weigh it.

    Raises:
        PrivacyError: naming the first such field of the federation.
    """
    if limits.rows is None:
        return
    local = federation.local
    broken = {
        "rows is not a positive number up to the bound of the whole update": not (
            0.0 < limits.rows <= limits.total < math.inf
        ),
        "layers are bounded too": bool(limits.layers),
        "local is not LocalTraining": not isinstance(local, LocalTraining),
        "local.epochs is above 1": local.epochs > 1,
        "local.batch_size is set": local.batch_size is not None,
        "local.optimizer is not sgd": isinstance(local, LocalTraining) and local.optimizer != "sgd",
        "unit_weights are not all 1": federation.unit_weights is not None,
        "row_weights are not all 1": federation.row_weights is not None,
        "rows_per_unit lets other rows in where one is deleted": federation.rows_per_unit
        is not None,
    }
    for reason, holds in broken.items():
        if holds:
            raise PrivacyError(f"two-level clipping with rows={limits.rows}: {reason}")


def row_clipped_updates(
    trainer: UnitTrainer, theta: Tensor, cohort: Cohort, bound: float, row_size: int
) -> tuple[Tensor, Tensor]:
    """Sums over each unit's rows of the row's update, clipped to norm `bound`.

    Args:
        trainer: computes a row's update as that of a unit of one row.
        theta: (d,) shared weights.
        cohort: some units and their rows.
        bound: c. A row whose update is not finite contributes nothing.
        row_size: numbers in the largest tensor that one row needs.

    Returns:
        (units, d) sums, not clipped themselves; () how many rows were not finite.
    """
    owner, column = np.nonzero(cohort.weights > 0)
    rows, seeds = cohort.rows[owner, column], cohort.seeds_of_rows[:, owner, column]
    sums = theta.new_zeros((len(cohort.rows), len(theta)))
    dropped = torch.zeros((), dtype=torch.int64, device=theta.device)
    most = chunk_size(len(theta), len(rows), single_rows=True)
    numbers = at_once(CACHED_NUMBERS, theta.device)
    most = max(1, min(most, numbers // max(row_size, len(theta), 1)))
    for start in range(0, len(rows), most):
        part = slice(start, start + most)
        alone = Cohort(rows[part, None], np.ones((len(rows[part]), 1)), seeds=seeds[:, part, None])
        updates = trainer.updates(theta, alone)
        factors, norms = clip_factors(updates, bound)
        dropped += (~torch.isfinite(norms)).sum()
        to = torch.as_tensor(owner[part], device=theta.device)
        sums.index_add_(0, to, finite_rows(updates, norms).mul_(factors[:, None]))
    return sums, dropped
