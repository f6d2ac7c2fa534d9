"""Rules that clip a unit: settings, the network and the unit itself decide, and no other unit.

There are two. In one backward pass (`ghost`) an update is multiplied by C / U, where U is an upper
bound on its norm; update by update it is multiplied by C / N, where N is the norm. Either bounds
what a unit adds to a sum by C. Where tokens of a row cancel, U is many times N: if one unit's rows
chose the rule of others, it would move what they add as well (`docs/proofs.md`, section 14).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from uedp_bench.contracts.learner import Batch, Learner, on_device
from uedp_bench.training.clipping import exact_norms
from uedp_bench.training.device import denormals_as_zeros
from uedp_bench.training.ghost.gradients import UnknownUse
from uedp_bench.training.ghost.single_pass import Gradients, RowGradients, Units
from uedp_bench.training.local import LocalTraining, LocalWork
from uedp_bench.training.vector import FlatModule

SHORTEST, LONGEST = 1e-18, 1e18
"""Numbers of longer gradients overflow when they are multiplied, and of shorter ones too few digits
are left: they are compared to nothing."""

AGREES = 1e-3
"""Two float32 passes over a row differ by less, as a fraction of its gradient's norm."""

DISTURBANCE = 0.02
"""Standard deviation of what is added to weights: a layer that starts at 0 hides those below."""

NO_EXAMPLES = "the learner has no example rows"
NOTHING_TO_COMPARE = "its weights in a way that gives example rows no gradients to compare"
MIXED = "in a way that gives rows side by side other gradients than each row alone"


@denormals_as_zeros()
def network_refusal(learner: Learner, reduction: Literal["mean", "sum"], device: str) -> str | None:
    """Reason why a learner's network is not clipped in one pass; None if it is.

    Args:
        learner: its `example_batch` is computed, and no other row.
        reduction: reduction of the losses of a unit's rows.
        device: torch device.
    """
    batch = learner.example_batch()
    if batch is None:
        return NO_EXAMPLES
    flat = FlatModule(learner.module, device)  # a copy: buffers may change
    flat.module.train()
    noise = torch.randn(len(flat.vector), generator=torch.Generator().manual_seed(0))
    theta = flat.vector + (DISTURBANCE * noise).to(flat.vector)
    try:
        compare(RowGradients(learner, flat, reduction), theta, on_device(batch, device))
    except UnknownUse as unknown:
        return f"the network uses {unknown}"
    return None


def compare(rows: RowGradients, theta: Tensor, batch: Batch) -> None:
    """Compare gradients from a tape with those of each row by autograd.

    Rows go through the tape together and one by one. They weigh 1, 2, 4, ..., so that even equal
    ones are told apart.

    Raises:
        UnknownUse: naming the weight whose gradients differ, or its use that is not known.
    """
    number = len(next(iter(batch.values())))
    singles = [{name: value[i : i + 1] for name, value in batch.items()} for i in range(number)]
    # One row's gradients at a time, though computed twice: each are as large as the network.
    lengths = torch.stack([length(rows.alone(theta, single).values()) for single in singles])
    usual = [i for i, norm in enumerate(lengths.tolist()) if SHORTEST < norm < LONGEST]
    if len(usual) < 2:
        raise UnknownUse(NOTHING_TO_COMPARE)
    each = torch.arange(number, device=theta.device)
    ones = torch.ones_like(each, dtype=theta.dtype)
    scales = 2.0 ** each.to(theta.dtype)
    together, _ = rows.compute(theta, batch, Units(each, number, ones), scales)
    names, agree = [], []
    for i in usual:
        unit = Units(each[:1], 1, ones[:1])
        by_itself, _ = rows.compute(theta, singles[i], unit, scales[i : i + 1])
        for name, expected in rows.alone(theta, singles[i]).items():
            for gradients, row in ((together, i), (by_itself, 0)):
                wrong = length([_of_row(gradients, name, row, expected) - expected * 2**i])
                allowed = AGREES * length([expected]) + 1e-6 * lengths[i]
                names.append(name)
                agree.append(wrong <= allowed * 2**i)
    for name, same in zip(names, torch.stack(agree).tolist(), strict=True):
        if not same:
            raise UnknownUse(f"{name} {MIXED}")


def _of_row(gradients: Gradients, name: str, row: int, like: Tensor) -> Tensor:
    """The gradient of one weight by one row; 0 where the tape has none."""
    by_row = gradients.get(name)
    return torch.zeros_like(like) if by_row is None else by_row.some(slice(row, row + 1)).each()[0]


def length(parts: Iterable[Tensor]) -> Tensor:
    """() the norm of all parts together, in float64."""
    norms = torch.cat([exact_norms(part.reshape(1, -1)) for part in parts])
    whole: Tensor = torch.linalg.vector_norm(norms)
    return whole


ONE_PASS = "one backward pass"  # noqa: S105 - no password
"""Clipping rule of units whose updates are never written out (`training.ghost`)."""


def settings_refusal(local: LocalWork, *, keep_updates: bool) -> str | None:
    """Reason why no unit of a round is clipped in one pass, by its settings; None if any may be.

    Args:
        local: settings of a unit's training.
        keep_updates: the update of each unit is wanted too, for a transcript.
    """
    if not isinstance(local, LocalTraining):
        return f"local work is {type(local).__name__}"
    if not local.one_sgd_step(1):
        return "a unit takes several local steps, or steps of Adam"
    return "each update is kept for a transcript" if keep_updates else None


def one_pass_refusal(learner: Learner, local: LocalWork, device: str) -> str | None:
    """Reason why no unit of a training is clipped in one pass, whatever its rows; None if any is.

    No row of the corpus is read.

    Args:
        learner: learner that is trained.
        local: settings of a unit's training.
        device: torch device.
    """
    reason = settings_refusal(local, keep_updates=False)
    if reason is None and isinstance(local, LocalTraining):
        return network_refusal(learner, local.reduction, device)
    return reason


def described(local: LocalWork, refusal: str | None) -> str:
    """Clipping rule in words, for results: the same whoever takes part.

    Args:
        local: settings of a unit's training.
        refusal: why no unit is clipped in one pass; None if those of one local step are.
    """
    if refusal is not None:
        return f"update by update, for {refusal}"
    if local.batch_size is None:
        return ONE_PASS
    return f"{ONE_PASS}, and update by update for units of more than {local.batch_size} rows"
