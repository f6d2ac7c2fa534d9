"""Parameters that mechanisms of sampled users share, and the policies that they choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from uedp_bench.api import InputError, Params, equals

if TYPE_CHECKING:
    from uedp_bench.api.training import Bound, LocalTraining, ServerStep

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


ServerOptimizer = Literal["sgd", "adam", "yogi", "adagrad", "adamw", "lamb"]

WEIGHT_DECAY = 0.01
"""Weight decay of adamw and lamb where none is set (torch's default)."""


class ServerParams(Params):
    """Parameters of the server's step."""

    server_learning_rate: float = Field(
        default=1.0, gt=0, description="public constant that the noisy mean is multiplied by"
    )
    server_optimizer: ServerOptimizer = Field(
        default="sgd", description="what the server steps with; sgd is federated averaging"
    )
    server_momentum: float = Field(
        default=0.0, ge=0, lt=1, description="momentum of the server's sgd"
    )
    server_schedule: Literal["constant", "linear"] = Field(
        default="constant", description="linear: the server's learning rate falls to 0"
    )
    server_tau: float | None = Field(
        default=None, gt=0,
        description="tau: added to the root of the server's second moment, so that the larger it "
        "is the less the step adapts; default: 1e-8 of adam and adamw, 1e-6 of lamb, 1e-3 of yogi "
        "and adagrad",
        exclude_if=equals(None),
    )  # fmt: skip

    @model_validator(mode="after")
    def _of_the_optimizer(self) -> ServerParams:
        if self.server_optimizer == "sgd" and self.server_tau is not None:
            raise ValueError(
                f"server_tau is {self.server_tau:g}, but the server's sgd has none; leave it out"
            )
        if self.server_optimizer != "sgd" and self.server_momentum > 0.0:
            raise ValueError(
                f"server_momentum is {self.server_momentum:g}, but it is that of sgd, and "
                f"server_optimizer is {self.server_optimizer!r}; leave it out"
            )
        return self

    def server(self) -> ServerStep:
        """The server's step."""
        from uedp_bench.api.training import LambServer
        from uedp_bench.training import server

        rate, schedule = self.server_learning_rate, self.server_schedule
        if self.server_optimizer == "sgd":
            return server.SgdServer(rate, self.server_momentum, schedule=schedule)
        options: dict[str, Any] = {"schedule": schedule}
        if self.server_tau is not None:
            options["tau"] = self.server_tau
        if self.server_optimizer in ("adamw", "lamb"):
            options["weight_decay"] = WEIGHT_DECAY
        kinds: dict[str, Callable[..., ServerStep]] = {
            "adam": server.AdamServer,
            "adamw": server.AdamServer,
            "lamb": LambServer,
            "yogi": server.YogiServer,
            "adagrad": server.AdagradServer,
        }
        return kinds[self.server_optimizer](rate, **options)


class LocalParams(Params):
    """Parameters of what a user does with its own rows."""

    local_epochs: int = Field(default=1, ge=1, description="passes over the user's rows")
    local_batch_size: int | None = Field(
        default=None, ge=1, description="rows of a local step; default: all of the user's"
    )
    local_learning_rate: float = Field(
        default=1.0, gt=0, description="learning rate of the local optimiser"
    )
    local_optimizer: Literal["sgd", "adam"] = Field(
        default="sgd", description="what users train with"
    )
    local_momentum: float = Field(
        default=0.0, ge=0, lt=1,
        description="momentum of the users' sgd; it starts at zero in every round",
        exclude_if=equals(0.0),
    )  # fmt: skip

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> LocalParams:
        if self.local_optimizer != "sgd" and self.local_momentum > 0.0:
            raise ValueError(
                f"local_momentum is {self.local_momentum:g}, but it is that of sgd, and "
                f"local_optimizer is {self.local_optimizer!r}; leave it out"
            )
        return self

    def local(self, reduction: Literal["mean", "sum"]) -> LocalTraining:
        """The local work: what a user does with its rows."""
        from uedp_bench.api.training import LocalTraining

        return LocalTraining(
            epochs=self.local_epochs,
            batch_size=self.local_batch_size,
            learning_rate=self.local_learning_rate,
            optimizer=self.local_optimizer,
            momentum=self.local_momentum,
            reduction=reduction,
        )


class UnitParams(Params):
    """Parameters of what takes part in rounds."""

    unit: Literal["user", "client"] = Field(
        default="user",
        description="what takes part and is one unit: a user, or a client of the spec (clients) "
        "with all rows that it holds; users and users_per_round then count clients",
        exclude_if=equals("user"),
    )


class RoundParams(Params):
    """Parameters of rounds of sampled users."""

    users_per_round: int = Field(
        default=100, ge=1, description="users of a round, in expectation (exact in fixed rounds)"
    )
    rounds: int = Field(default=60, ge=1, description="rounds T")
    rows_per_user: int | None = Field(
        default=None, ge=1, description="rows of a user that a round uses at most; default: all"
    )


class FederatedParams(ServerParams, LocalParams, ClipParams, RoundParams):
    """Parameters of training in rounds of sampled users, with updates that are clipped."""

    users: int | None = Field(
        default=None, ge=1, description="public number of users; default: documented by the source"
    )
    clip: float = Field(default=0.3, gt=0, description="l2 bound on a user's update")
    user_cap: int = Field(
        default=1, ge=1, description="per-user cap: weight min(rows of the user / cap, 1)"
    )
