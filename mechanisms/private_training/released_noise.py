"""Noise as the code that the authors of UeDP released adds it (Lai et al. 2022).

In github.com/PhungLai728/UeDP (commit 10526bf) the scripts of UeDP and those of user-level DP
alike draw noise of standard deviation sigma^2 where Algorithm 1 has sigma, and clip gradients
before the local optimiser in place of the update after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from uedp_bench.accounting.events import PrivacyUnit
from uedp_bench.api.events import NonPrivate, PrivacyEvent

if TYPE_CHECKING:
    from uedp_bench.api import Events
    from uedp_bench.api.training import Bound, LocalTraining

NoiseVariant = Literal["published", "released"]

RELEASED_TAKES = (
    "released: as the code of UeDP's authors, which adds noise of deviation sigma^2 in "
    "place of sigma and clips gradients in place of updates (so no guarantee is proven)"
)
"""Description of the parameter `noise`."""

CLAIM_OF_RELEASED = "noise: released adds other noise than it speaks of"
"""The note that a claim of such a run carries."""


def check_released(clip_policy: str) -> None:
    """Refuses a policy of clipping updates where no update is clipped.

    Raises:
        ValueError: naming the policy.
    """
    if clip_policy != "flat":
        raise ValueError(
            f"clip_policy is {clip_policy!r}, but noise='released' clips no update; "
            "take noise='published'"
        )


def released_noise(std: float, denominator: float) -> float:
    """Standard deviation on the sum: sigma^2 on the mean, where sigma is the one described.

    Args:
        std: standard deviation on the sum as described, clip bound included.
        denominator: divisor of the sum, so that sigma = std / denominator.
    """
    return (std / denominator) ** 2 * denominator


def as_released(
    local: LocalTraining, clip: float, std: float, denominator: float
) -> tuple[LocalTraining, Bound, float]:
    """The local work, the bound on an update and the noise on the sum in place of those described.

    Gradients are clipped to `clip`, and the update after them is left as it is.

    Args:
        local: the local work as described.
        clip: l2 bound on a gradient.
        std: see `released_noise`.
        denominator: see `released_noise`.
    """
    from uedp_bench.api.training import Unbounded

    return replace(local, gradient_clip=clip), Unbounded(), released_noise(std, denominator)


def nothing_proven(unit: PrivacyUnit) -> Events:
    """The event of such a run: an update is as long as the local rate makes it."""
    reason = "gradients are clipped before the local optimiser, updates after it are not"
    return (PrivacyEvent(unit=unit, event=NonPrivate(reason=reason)),)
