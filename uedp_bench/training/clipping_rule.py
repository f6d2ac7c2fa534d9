"""Which rule clips a unit: settings, the network and the unit itself decide, and no other unit.

There are two. In one backward pass (`ghost`) an update is multiplied by C / U, where U is an upper
bound on its norm; update by update it is multiplied by C / N, where N is the norm. Either bounds
what a unit adds to a sum by C. Where tokens of a row cancel, U is many times N: if one unit's rows
chose the rule of others, it would move what they add as well (`docs/proofs.md`, section 14).
"""

from __future__ import annotations

from uedp_bench.learner import Learner
from uedp_bench.training.ghost.probe import network_refusal
from uedp_bench.training.local import LocalTraining, LocalWork

ONE_PASS = "one backward pass"  # noqa: S105 - no password
"""Clipping rule of units whose updates are never written out (`training.ghost`)."""


def settings_refusal(local: LocalWork, *, keep_updates: bool) -> str | None:
    """Why no unit of a round is clipped in one pass, as far as settings tell; None if any may be.

    Args:
        local: what units do.
        keep_updates: the update of each unit is wanted too, for a transcript.
    """
    if not isinstance(local, LocalTraining):
        return f"local work is {type(local).__name__}"
    if not local.one_sgd_step(1):
        return "a unit takes several local steps, or steps of Adam"
    return "each update is kept for a transcript" if keep_updates else None


def one_pass_refusal(learner: Learner, local: LocalWork, device: str) -> str | None:
    """Why no unit of a training is clipped in one pass, whatever its rows; None if any is.

    No row of the corpus is read.

    Args:
        learner: what is trained.
        local: what units do.
        device: torch device.
    """
    reason = settings_refusal(local, keep_updates=False)
    if reason is None and isinstance(local, LocalTraining):
        return network_refusal(learner, local.reduction, device)
    return reason


def described(local: LocalWork, refusal: str | None) -> str:
    """Clipping rule in words, for results: the same whoever takes part.

    Args:
        local: what units do.
        refusal: why no unit is clipped in one pass; None if those of one local step are.
    """
    if refusal is not None:
        return f"update by update, for {refusal}"
    if local.batch_size is None:
        return ONE_PASS
    return f"{ONE_PASS}, and update by update for units of more than {local.batch_size} rows"
