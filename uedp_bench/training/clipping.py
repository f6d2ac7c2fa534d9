"""Bounding what one unit contributes: norms that keep their digits, factors, clipped sums.

In two-level clipping a unit's update is P_b(sum over its rows of P_c(update of the row)), with P_r
the projection onto the ball of radius r. A projection does not expand distances, so a unit that
loses m of its rows moves by at most min(m c, 2 b): this is what theorem B of user-entity accounting
needs (`docs/mechanisms/uedp-spread.md`). It holds because what a row sends depends on that row and
the shared weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from uedp_bench.contracts.learner import numbers_per_call
from uedp_bench.training.device import CACHED_NUMBERS, chunk_size, waits, weights_at_once
from uedp_bench.training.local import UnitTrainer
from uedp_bench.training.sampling import Cohort

SAFETY = 1.0 - 1e-6
"""Rounding in float32 may leave a clipped vector longer than its bound; shrinking avoids it."""


def exact_norms(updates: Tensor) -> Tensor:
    """(units,) l2 norms of (units, d) in float64.

    Sums of float32 squares lose digits as they grow: torch's norm of 10^6 weights may be 0.06 % too
    small on a CPU and that of 2 * 10^7 weights 0.5 %, and a clipped update as much too long.
    """
    parts = [  # in float64, all squares at once would need a copy of all
        torch.linalg.vector_norm(part, dim=1, dtype=torch.float64)
        for part in torch.split(updates, weights_at_once(updates.device), dim=1)
    ]
    norms: Tensor = torch.linalg.vector_norm(torch.stack(parts, dim=1), dim=1)
    return norms


def _clip_factors(updates: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Factors that bring updates (units, d) to norm at most `bound`, and their norms.

    Returns:
        (units,) factors in [0, 1] and (units,) norms, as `norm_factors` has them.
    """
    factors, norms = norm_factors(exact_norms(updates), bound, updates.dtype)
    return factors.to(updates.dtype), norms


def norm_factors(norms: Tensor, bound: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Factors that bring updates of norms (units,) to norm at most `bound`.

    A unit whose update is not finite gets the factor 0: whatever its data, its contribution is
    bounded, and it cannot spoil the sum of the others. So does one that is so long that its factor
    would be a denormal number, which has too few digits to keep the bound.

    Args:
        norms: float64; no update is longer.
        bound: infinity clips nothing.
        dtype: dtype of the updates.

    Returns:
        (units,) factors in [0, 1] in float64 and (units,) norms (infinite where not finite).
    """
    finite = torch.isfinite(norms)
    norms = torch.where(finite, norms, torch.full_like(norms, torch.inf))
    factors = SAFETY * torch.clamp(bound / norms.clamp(min=1e-30), max=1.0)
    numbers = torch.finfo(dtype)
    exact = finite & (factors > numbers.tiny / numbers.eps)
    return torch.where(exact, factors, torch.zeros_like(factors)), norms


def clipped_sum(
    updates: Tensor, bound: float, weights: Tensor, into: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sum over units of weight times clipped update, and the norms before clipping.

    Args:
        updates: (units, d).
        bound: the l2 norm that no unit's update exceeds; infinity clips nothing.
        weights: (units,) in [0, 1].
        into: (d,) the sum over other units, which these are added to in place; None for none.

    Returns:
        (d,) the sum: adding or removing one unit changes it by at most `bound` times its weight;
        (units,) norms.
    """
    factors, norms = _clip_factors(updates, bound)
    factors, rows = factors * weights, _finite_rows(updates, norms)
    if into is None:
        return factors @ rows, norms
    if len(rows) == 1 and not waits(rows.device):  # in one pass
        return into.add_(rows[0], alpha=float(factors[0])), norms
    return into.add_(factors @ rows), norms


def _finite_rows(updates: Tensor, norms: Tensor) -> Tensor:
    """Updates (units, d), those of norms (units,) that are not finite made 0.

    No factor silences them: 0 times infinity is not a number. To ask a GPU whether there are any
    would be to wait for it, which costs more than a copy; a CPU copies only what it has to.
    """
    if not waits(updates.device) and bool(torch.isfinite(norms).all()):
        return updates
    return torch.where(torch.isfinite(norms)[:, None], updates, 0.0)


def layered_sum(
    updates: Tensor, sizes: Sequence[int], bounds: Sequence[float], weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `clipped_sum`, every layer of an update clipped to a bound of its own.

    McMahan, Ramage, Talwar, Zhang 2018 (arXiv:1710.06963), section 2.3: the whole update is then no
    longer than the root of the sum of the squared bounds. A unit of which any layer is not finite
    contributes nothing to any layer.

    Args:
        updates: (units, d).
        sizes: (layers,) weights of each layer, in the order of the update; their sum is d.
        bounds: (layers,) l2 norms that no unit's layer exceeds.
        weights: (units,) in [0, 1].

    Returns:
        (d,) the sum; (units,) norms of whole updates; (units,) True where a layer was clipped.
    """
    parts = torch.split(updates, list(sizes), dim=1)
    factors_and_norms = [
        _clip_factors(part, bound) for part, bound in zip(parts, bounds, strict=True)
    ]
    by_layer = torch.stack([norms for _, norms in factors_and_norms], dim=1)
    norms = torch.linalg.vector_norm(by_layer, dim=1)
    sums = [
        (factors * weights) @ _finite_rows(part, norms)
        for part, (factors, _) in zip(parts, factors_and_norms, strict=True)
    ]
    most = torch.as_tensor(bounds, dtype=by_layer.dtype, device=by_layer.device)
    return torch.cat(sums), norms, (by_layer > most).any(dim=1)


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
    numbers = numbers_per_call(CACHED_NUMBERS, theta.device)
    most = max(1, min(most, numbers // max(row_size, len(theta), 1)))
    for start in range(0, len(rows), most):
        part = slice(start, start + most)
        alone = Cohort(rows[part, None], np.ones((len(rows[part]), 1)), seeds=seeds[:, part, None])
        updates = trainer.updates(theta, alone)
        factors, norms = _clip_factors(updates, bound)
        dropped += (~torch.isfinite(norms)).sum()
        to = torch.as_tensor(owner[part], device=theta.device)
        sums.index_add_(0, to, _finite_rows(updates, norms).mul_(factors[:, None]))
    return sums, dropped
