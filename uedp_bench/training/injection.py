"""Updates that an audit puts in the place of a user's own, to be looked for in the release.

Random-update canaries: Andrew, Kairouz, Oh, Oprea, McMahan, Suriyakumar 2024, "One-shot empirical
privacy estimation for federated learning" (arXiv:2302.03098), Algorithm 2. In high dimensions
random directions are nearly orthogonal to each other and to all other updates, so that each canary
can be looked for alone.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import IntArray

SHORTER = 1.0 - 1e-6
"""Clipping leaves a canary as it is: rounding must not make it longer than the bound."""


def direction(run: Run, user: int, size: int) -> Tensor:
    """(size,) the unit vector of one user in one run, uniform on the sphere; float64, CPU."""
    vector = run.shared("injected", user).standard_normal(size)
    return torch.from_numpy(vector / np.linalg.norm(vector))


def inject(updates: Tensor, users: IntArray, bound: float, run: Run) -> Tensor:
    """Replace the updates of injected users by their direction at the clip bound.

    Where a unit is less than a user (a record, a sentence), every unit of the user is replaced.
    Updates that nothing clips are left alone: no data could send what would be put in.

    Args:
        updates: (units, d); changed in place.
        users: (units,) user of each unit.
        bound: clip bound on the norm of a unit's update.
        run: run that names the injected users, and counts their parts (`injected_updates`).
    """
    if not run.injected or bound == float("inf"):
        return updates
    injected = set(run.injected)
    replaced = [(i, user) for i, user in enumerate(users.tolist()) if user in injected]
    for i, user in replaced:
        updates[i] = (SHORTER * bound * direction(run, user, updates.shape[1])).to(updates)
    run.note(injected_updates=run.noted("injected_updates", 0) + len(replaced))
    return updates
