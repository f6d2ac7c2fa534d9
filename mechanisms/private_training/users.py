"""Public number of training units, and bound on the contribution of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from uedp_bench.api import CorpusStats, InputError, PublicUnits
from uedp_bench.api.text import Unit
from uedp_bench.corpus import Corpus, FloatArray, Index, row_numbers

if TYPE_CHECKING:
    from uedp_bench.mechanisms.private_training.parameters import FederatedParams


def public_users(
    params: FederatedParams, stats: CorpusStats, name: str, unit: Unit = "user"
) -> int:
    """|U|: declared, else documented by the source, else counted.

    Raises:
        InputError: if a round needs more units than there are.
    """
    users = stats.users if params.users is None else params.users
    is_public = stats.public or params.users is not None
    check_round(params.users_per_round, users, name, is_public=is_public, unit=unit)
    return users


def check_round(
    per_round: int, units: int, name: str, *, is_public: bool, unit: Unit = "user"
) -> None:
    """Refuses a round of more units than are present.

    Args:
        per_round: number of units in a round.
        units: number of units present.
        name: name of the mechanism.
        is_public: the number was declared or documented. Otherwise it is private, and no message
            says it.
        unit: kind of unit.

    Raises:
        InputError: naming the parameter.
    """
    if per_round <= units:
        return
    message = f"{name}.users_per_round is {per_round}"
    if unit == "user":
        count = f"there are only {units}" if is_public else "there are fewer"
        mends = (f"mechanism.{name}.users_per_round={units}",) if is_public else ()
        raise InputError(f"{message}, but {count} training users; choose fewer", mends)
    count = f"there are only {units}" if is_public else "fewer hold training rows"
    few = f"at most {units}" if is_public else "fewer"
    raise InputError(
        f"{message}, and it counts clients, since {name}.unit is 'client': {count}; choose {few}, "
        "or more clients (clients.count)"
    )


def units_of(
    params: FederatedParams, stats: CorpusStats, name: str, unit: Unit = "user"
) -> PublicUnits:
    """|U| as declared, else documented, with the units of a round that are planned for it."""
    users = public_users(params, stats, name, unit)
    counted: Literal["users", "clients"] = "users" if unit == "user" else "clients"
    return PublicUnits(counted, users, params.users_per_round)


def size_refusals(declared: int | None, stats: CorpusStats, name: str) -> tuple[str, ...]:
    """Why |U| is not a public constant, if so."""
    if stats.public or declared is not None:
        return ()
    return (
        f"the number of users was counted from private data; declare a public one with --set "
        f"mechanism.{name}.users=N, where N is not below the real number",
    )


def sizes_of(stats: CorpusStats, unit: Unit, name: str) -> CorpusStats:
    """The sizes with the number of units in the place of that of users.

    Clients are part of the spec, and their number is public.

    Raises:
        InputError: if clients are to take part and there are none.
    """
    if unit == "user":
        return stats
    if not stats.clients:
        raise InputError(
            f"{name} with unit=client needs clients: in a run 'clients: {{count: 20}}' of the spec "
            "(--set clients.count=20), in account and calibrate --set users=20"
        )
    return replace(stats, users=len(stats.clients), public=True)


def capped_weights(counts: np.ndarray, cap: int) -> FloatArray:
    """min(n / cap, 1): the weights of McMahan et al. 2018 and of Algorithm 1 of UeDP."""
    return np.minimum(counts / cap, 1.0)


def capped_units(index: Index, cap: int | None, corpus: Corpus) -> Index:
    """Keeps at most `cap` rows of every unit, chosen uniformly, in their old order.

    The data set that a guarantee speaks of is the capped one. A unit keeps the rows with the
    smallest public numbers, which depend on their names alone: which rows a unit keeps depends on
    nobody else's, and is the same in every run.

    Args:
        index: unit -> its rows.
        cap: a public constant; None keeps all rows.
        corpus: corpus whose rows these are.
    """
    if cap is None:
        return index
    counts = index.counts
    unit = np.repeat(np.arange(len(index)), counts)
    numbers = row_numbers(corpus, 0, "cap")[index.rows]
    order = np.lexsort((numbers, unit))
    rank = np.arange(len(unit)) - np.repeat(index.offsets[:-1], counts)
    kept = np.sort(order[rank < cap])
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, cap))])
    return Index(offsets, index.rows[kept])
