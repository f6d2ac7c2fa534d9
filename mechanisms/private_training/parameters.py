"""Parameters that mechanisms of sampled users share, and the policies that they choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from uedp_bench.component import Params

if TYPE_CHECKING:
    from uedp_bench.training.local import LocalTraining
    from uedp_bench.training.server import ServerStep


class ServerParams(Params):
    """Parameters of the server's step."""

    server_learning_rate: float = Field(
        default=1.0, gt=0, description="public constant that the noisy mean is multiplied by"
    )
    server_optimizer: Literal["sgd", "adam"] = Field(
        default="sgd", description="what the server steps with; sgd is federated averaging"
    )
    server_momentum: float = Field(
        default=0.0, ge=0, lt=1, description="momentum of the server's sgd"
    )
    server_schedule: Literal["constant", "linear"] = Field(
        default="constant", description="linear: the server's learning rate falls to 0"
    )

    def server(self) -> ServerStep:
        """The server's step."""
        from uedp_bench.training.server import AdamServer, SgdServer

        rate, schedule = self.server_learning_rate, self.server_schedule
        if self.server_optimizer == "adam":
            return AdamServer(rate, schedule=schedule)
        return SgdServer(rate, self.server_momentum, schedule=schedule)


class FederatedParams(ServerParams):
    """Parameters of training in rounds of sampled users."""

    users: int | None = Field(
        default=None, ge=1, description="public number of users; default: documented by the source"
    )
    users_per_round: int = Field(
        default=100, ge=1, description="users of a round, in expectation (exact in fixed rounds)"
    )
    rounds: int = Field(default=60, ge=1, description="rounds T")
    clip: float = Field(default=0.3, gt=0, description="l2 bound on a user's update")
    user_cap: int = Field(
        default=1, ge=1, description="per-user cap: weight min(rows of the user / cap, 1)"
    )
    rows_per_user: int | None = Field(
        default=None, ge=1, description="rows of a user that a round uses at most; default: all"
    )
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

    def local(self, reduction: Literal["mean", "sum"]) -> LocalTraining:
        """The local work: what a user does with its rows."""
        from uedp_bench.training.local import LocalTraining

        return LocalTraining(
            epochs=self.local_epochs,
            batch_size=self.local_batch_size,
            learning_rate=self.local_learning_rate,
            optimizer=self.local_optimizer,
            reduction=reduction,
        )
