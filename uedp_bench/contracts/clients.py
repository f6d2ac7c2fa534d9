"""Clients of a federation: the deal of rows among them, for any source.

The client of a row is drawn once, in the open, by a seed of its own: by a keyed hash of its user's
name, or of its own. No client has a quota, and a user who comes or goes moves nobody else, which is
what parallel composition over clients needs (`docs/proofs.md`, sections 12 and 15).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from uedp_bench.corpus import Corpus, FloatArray, Index, IntArray, owner_numbers, row_numbers
from uedp_bench.errors import InputError
from uedp_bench.randomness import shared_stream

CLIENT = "client"
"""Name of the group of a corpus that holds each row's client."""


MOST_CLIENTS = 100_000

MOST_ALPHA = 1e6
"""Shares of so large a parameter differ by a thousandth; sums of far larger ones overflow."""


Unit = Literal["user", "client"]
"""A participant of a round: a user, or a client."""


class Clients(BaseModel):
    """Deal of the rows of a corpus among clients."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    count: int = Field(ge=1, le=MOST_CLIENTS, description="clients")
    by: Literal["user", "random", "dirichlet"] = Field(
        default="user",
        description="user: all rows of a user lie with one client; random: each row is dealt by "
        "itself; dirichlet: the same, with shares that differ from label to label (where there are "
        "no labels, from type to type of the first entity)",
    )
    alpha: float | None = Field(
        default=None, gt=0, le=MOST_ALPHA,
        description="parameter of the Dirichlet law of clients' shares, public: the smaller, the "
        "more unequal; default: all shares are equal. dirichlet needs it",
    )  # fmt: skip
    seed: int = Field(default=0, ge=0, description="draws shares and clients, whatever the run's")

    @model_validator(mode="after")
    def _skew_has_a_parameter(self) -> Clients:
        if self.by == "dirichlet" and self.alpha is None:
            raise ValueError("by='dirichlet' needs alpha, the parameter of the Dirichlet law")
        return self

    def shares(self, kinds: int = 1) -> FloatArray:
        """(kinds, count) share of each client in the rows of each kind; rows add up to 1.

        Args:
            kinds: number of labels that shares may differ by; 1 unless `by` is "dirichlet".
        """
        if self.alpha is None:
            return np.full((kinds, self.count), 1.0 / self.count)
        rng = np.random.Generator(np.random.PCG64(shared_stream(self.seed, "clients", "shares")))
        return rng.dirichlet(np.full(self.count, self.alpha), kinds)

    def public_shares(self, corpus: Corpus) -> tuple[float, ...]:
        """Share of each client in the rows, as far as it follows from constants alone.

        Where shares differ by label, every label counts alike: frequencies of labels are private.
        """
        return tuple(self.shares(_kinds(corpus, self)).mean(axis=0).tolist())

    def deal(self, corpus: Corpus) -> Corpus:
        """Add the group "client" to a corpus: for each row the number of the client that holds it.

        The public number of its user, or its own, decides about a row of the source. A row that an
        attack planted always goes to its user's client.

        Args:
            corpus: corpus with all planted rows.

        Raises:
            InputError: if its source has clients of its own.
        """
        if CLIENT in corpus.groups:
            raise InputError(
                "clients: the source has clients of its own; leave clients out of the spec"
            )
        shares = self.shares(_kinds(corpus, self))
        by_user = owner_numbers(corpus, self.seed, "clients", "user")
        whole = _client(by_user, shares.mean(axis=0)[None])
        alone = row_numbers(corpus, self.seed, "clients", "row")
        planted = corpus.origin < 0
        by_row = _client(alone, shares[_kind_of(corpus, self)])
        with_user = corpus.users >= 0
        stays = with_user if self.by == "user" else with_user & planted
        return replace(corpus, groups={**corpus.groups, CLIENT: np.where(stays, whole, by_row)})


NO_CLIENTS = (
    "this mechanism needs clients: say how rows are dealt among them, for instance with "
    "--set clients.count=10, or 'clients: {count: 10, by: user}' in the spec"
)
"""Error message of mechanisms for clients in a run without."""


def clients_of(corpus: Corpus) -> IntArray:
    """(rows,) client of each row.

    Raises:
        InputError: if the run has no clients.
    """
    if CLIENT not in corpus.groups:
        raise InputError(NO_CLIENTS, mends=("clients.count=10",))
    return corpus.groups[CLIENT]


def users_of(corpus: Corpus, unit: Unit = "user") -> Index:
    """Position of each user (or client) with training rows -> its training rows.

    Raises:
        InputError: if there is no training row, one belongs to nobody, or there are no clients.
    """
    rows = np.flatnonzero(corpus.where("train"))
    if not len(rows):
        raise InputError("the corpus has no training rows")
    of = corpus.users if unit == "user" else clients_of(corpus)
    if (of[rows] < 0).any():
        raise InputError("a training row has no user: this mechanism needs a user for every row")
    _, position = np.unique(of[rows], return_inverse=True)
    return Index.build(position, rows, int(position.max()) + 1)


def _client(numbers: FloatArray, shares: FloatArray) -> IntArray:
    """(rows,) client on whose part of [0, 1) each number falls; `shares` (rows or 1, count)."""
    clients: IntArray = (numbers[:, None] >= np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)
    return clients


def _kinds(corpus: Corpus, clients: Clients) -> int:
    """Number of kinds of rows that shares may differ by."""
    if clients.by != "dirichlet":
        return 1
    if corpus.labels is None:
        return len(corpus.entity_types) + 1
    return max(len(corpus.label_names), 1)


def _kind_of(corpus: Corpus, clients: Clients) -> IntArray:
    """(rows,) kind of each row: its label, or the type of its first entity; 0 for none."""
    kinds = np.zeros(len(corpus), dtype=np.int64)
    if clients.by != "dirichlet":
        return kinds
    if corpus.labels is not None:
        return np.maximum(corpus.labels, 0)
    rows, first = np.unique(corpus.entities.row, return_index=True)
    kinds[rows] = corpus.entities.type[first] + 1
    return kinds
