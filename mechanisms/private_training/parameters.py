"""Parameters and steps that the mechanisms of sampled users share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from uedp_bench.accounting.events import FixedSizeSampled, GroupRound, PoissonSampled
from uedp_bench.component import Params
from uedp_bench.corpus import Corpus, FloatArray, Index
from uedp_bench.errors import InputError
from uedp_bench.mechanism import CorpusStats, PublicUnits

if TYPE_CHECKING:
    from uedp_bench.training.federated import Server
    from uedp_bench.training.local import LocalTraining


class ServerParams(Params):
    """How the server steps, whoever takes part."""

    server_learning_rate: float = Field(
        default=1.0, gt=0, description="public constant that the noisy mean is multiplied by"
    )
    server_optimizer: Literal["sgd", "adam"] = Field(
        default="sgd", description="what the server steps with; sgd is federated averaging"
    )
    server_momentum: float = Field(default=0.0, ge=0, lt=1, description="of the server's sgd")
    server_schedule: Literal["constant", "linear"] = Field(
        default="constant", description="linear: the server's learning rate falls to 0"
    )

    def server(self) -> Server:
        """The server's step."""
        from uedp_bench.training.federated import Server

        return Server(
            self.server_learning_rate,
            self.server_optimizer,
            self.server_momentum,
            self.server_schedule,
        )


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
    local_learning_rate: float = Field(default=1.0, gt=0, description="of the local optimiser")
    local_optimizer: Literal["sgd", "adam"] = Field(
        default="sgd", description="what users train with"
    )

    def local(self, reduction: Literal["mean", "sum"]) -> LocalTraining:
        """What a user does with its rows."""
        from uedp_bench.training.local import LocalTraining

        return LocalTraining(
            epochs=self.local_epochs,
            batch_size=self.local_batch_size,
            learning_rate=self.local_learning_rate,
            optimizer=self.local_optimizer,
            reduction=reduction,
        )


def public_users(params: FederatedParams, stats: CorpusStats, name: str) -> int:
    """|U|: declared, else documented by the source, else counted.

    Raises:
        InputError: if a round needs more users than there are.
    """
    users = stats.users if params.users is None else params.users
    if params.users_per_round > users:
        # A number that nobody declared or documented is private: no message says it.
        known = stats.public or params.users is not None
        there = f"there are only {users}" if known else "there are fewer"
        raise InputError(
            f"{name}.users_per_round is {params.users_per_round}, but {there} training users; "
            "choose fewer"
        )
    return users


def units_of(params: FederatedParams, stats: CorpusStats, name: str) -> PublicUnits:
    """|U| as declared, else documented, with the users of a round that are planned for it."""
    return PublicUnits("users", public_users(params, stats, name), params.users_per_round)


def size_refusals(declared: int | None, stats: CorpusStats, name: str) -> tuple[str, ...]:
    """Why |U| is not a public constant, if so."""
    if stats.public or declared is not None:
        return ()
    return (
        f"the number of users was counted from private data; declare a public one with --set "
        f"mechanism.{name}.users=N, where N is not below the real number",
    )


def users_of(corpus: Corpus) -> Index:
    """Position of each user with training rows -> its training rows.

    Raises:
        InputError: if there is no training row, or one belongs to nobody.
    """
    rows = np.flatnonzero(corpus.where("train"))
    if not len(rows):
        raise InputError("the corpus has no training rows")
    if (corpus.users[rows] < 0).any():
        raise InputError("a training row has no user: this mechanism needs a user for every row")
    _, position = np.unique(corpus.users[rows], return_inverse=True)
    return Index.build(position, rows, int(position.max()) + 1)


def capped_weights(counts: np.ndarray, cap: int) -> FloatArray:
    """min(n / cap, 1): the weights of McMahan et al. 2018 and of Algorithm 1 of UeDP."""
    return np.minimum(counts / cap, 1.0)


def as_drawn(
    event: GroupRound, drawn: PoissonSampled | FixedSizeSampled
) -> GroupRound | FixedSizeSampled:
    """A round for the unit user-entity as its sampler says that it drew.

    Independent coins give the round at their rate. Anything else is told as it is: it differs from
    every plan, and no accountant of users together with entities takes it.
    """
    if isinstance(drawn, PoissonSampled):
        return event.model_copy(update={"rate": drawn.rate})
    return drawn
