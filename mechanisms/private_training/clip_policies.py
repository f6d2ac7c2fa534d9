"""Parameters that choose how one unit's update is bounded, and what events then assume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from uedp_bench.api import InputError, Params, equals

if TYPE_CHECKING:
    from uedp_bench.api.training import Bound

CLIPPED = {
    "flat": (),
    "per-layer": (
        "every layer of an update is clipped to an equal share of the square of the clip bound",
    ),
    "adaptive": (
        "the clip bound is a constant in the first round; it then follows noisy counts of earlier "
        "rounds, which share the noise of their round",
    ),
}
"""Further assumptions of events, by `clip_policy` (`docs/proofs.md`, section 11)."""


class ClipParams(Params):
    """Bound on an update by `clip`: as a whole, layer by layer, or adaptively."""

    clip_policy: Literal["flat", "per-layer", "adaptive"] = Field(
        default="flat",
        description="flat: an update is clipped as a whole to clip; per-layer: every layer to "
        "clip / sqrt(layers), so that the whole is no longer than clip; adaptive: the bound starts "
        "at clip and follows a quantile of the updates' lengths, by noisy counts that share the "
        "noise: epsilon is the same for all three",
        exclude_if=equals("flat"),
    )
    clip_quantile: float = Field(
        default=0.5, ge=0, le=1,
        description="adaptive only: fraction of updates that the bound is to leave as they are",
        exclude_if=equals(0.5),
    )  # fmt: skip
    clip_learning_rate: float = Field(
        default=0.2, gt=0, le=10,
        description="adaptive only: how fast the bound moves; it changes by a factor of "
        "exp(clip_learning_rate) a round at most, but for noise",
        exclude_if=equals(0.2),
    )  # fmt: skip
    clip_count_noise: float | None = Field(
        default=None, gt=0,
        description="adaptive only: standard deviation of the noise on the count of short updates, "
        "above half the noise multiplier; default: a 20th of the expected units of a round, and at "
        "least the noise multiplier",
        exclude_if=equals(None),
    )  # fmt: skip

    @model_validator(mode="after")
    def _of_adaptive_clipping(self) -> ClipParams:
        defaults = {"clip_quantile": 0.5, "clip_learning_rate": 0.2, "clip_count_noise": None}
        for name, default in defaults.items():
            if self.clip_policy != "adaptive" and (value := getattr(self, name)) != default:
                raise ValueError(
                    f"{name} is {value!r}, and clip_policy {self.clip_policy!r} has no use for it; "
                    "take clip_policy='adaptive'"
                )
        return self

    def count_noise(self, noise_multiplier: float, expected: float) -> float:
        """Standard deviation of the noise on the count of an adaptive bound.

        Andrew et al. 2021 (arXiv:1905.03871), section 3.1, take a 20th of the units of a round.

        Args:
            noise_multiplier: noise multiplier of the whole round.
            expected: units of a round.

        Raises:
            InputError: if the noise of the round cannot hide sum and count together (Theorem 1).
        """
        if self.clip_count_noise is None:
            return max(expected / 20.0, noise_multiplier)
        if self.clip_policy == "adaptive" and self.clip_count_noise <= noise_multiplier / 2.0:
            raise InputError(
                f"clip_count_noise is {self.clip_count_noise:g}; choose more than half the noise "
                f"multiplier {noise_multiplier:g}, or nothing is left to hide the sum"
            )
        return self.clip_count_noise

    def bound(self, clip: float, noise_multiplier: float, expected: float) -> Bound:
        """The policy of `training.bounds` for these parameters.

        Args:
            clip: l2 norm that the policy starts from.
            noise_multiplier: noise multiplier of the whole round, sum and count together.
            expected: public number of units that take part in a round, in expectation.

        Raises:
            InputError: see `count_noise`.
        """
        from uedp_bench.api.training import AdaptiveBound, FlatBound, PerLayerBound

        if self.clip_policy == "per-layer":
            return PerLayerBound(clip)
        if self.clip_policy == "flat":
            return FlatBound(clip)
        return AdaptiveBound(
            clip,
            quantile=self.clip_quantile,
            expected=expected,
            rate=self.clip_learning_rate,
            count_noise=self.count_noise(noise_multiplier, expected),
        )
