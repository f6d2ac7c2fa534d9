"""Users of a training: their public number, rows dealt among them, rounds, and released noise.

In github.com/PhungLai728/UeDP (commit 10526bf), released by the authors of UeDP (Lai et al. 2022),
the scripts of UeDP and those of user-level DP alike draw noise of standard deviation sigma^2 where
Algorithm 1 has sigma, and clip gradients before the local optimiser in place of the update after
it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from uedp_bench.accounting.events import AnyEvent, GroupRound, PrivacyUnit
from uedp_bench.api import Corpus, CorpusStats, FloatArray, Index, InputError, PublicUnits
from uedp_bench.api.events import NonPrivate, PoissonSampled, PrivacyEvent, Repeated
from uedp_bench.api.text import Unit, row_numbers

if TYPE_CHECKING:
    from uedp_bench.api import Events, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.api.training import Bound, LocalTraining
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
    order = np.lexsort((row_numbers(corpus, 0, "cap")[index.rows], unit))
    rank = np.arange(len(unit)) - np.repeat(index.offsets[:-1], counts)
    kept = np.sort(order[rank < cap])
    return Index(np.concatenate([[0], np.cumsum(np.minimum(counts, cap))]), index.rows[kept])


def dealt_anew(learner: Learner, run: Run, name: str) -> Learner:
    """The learner with its training rows dealt anew; all mechanisms of a seed deal alike.

    Args:
        learner: not changed.
        run: gives the numbers, and is told that rows have changed hands.
        name: name of the mechanism.
    """
    run.dealt(f"{name}.iid=true dealt the training rows anew among the users")
    return with_rows_dealt(learner, run.shared("fedavg", "iid"))


def with_rows_dealt(learner: Learner, rng: np.random.Generator) -> Learner:
    """The learner with its training rows dealt among their users, each with as many as before.

    Which rows train is the same. It is for studies of data that are identically distributed over
    users; no guarantee speaks of users whose rows are others'.

    Args:
        learner: not changed.
        rng: draws who gets which row.
    """
    corpus = learner.corpus
    train, users = corpus.where("train"), corpus.users.copy()
    users[train] = rng.permutation(users[train])
    other = copy.copy(learner)
    other.corpus = replace(corpus, groups={**corpus.groups, "user": users})
    return other


def as_group_rounds(
    rounds: Sequence[AnyEvent], of: Callable[[float, float], GroupRound]
) -> tuple[AnyEvent, ...]:
    """Rounds whose epsilon is a curve over who else mentions the entity.

    Independent coins give such a round. Anything else is told as it is: it differs from every plan,
    and no accountant of users together with entities takes it.

    Args:
        rounds: rounds of `train_federated`.
        of: makes a round of its sampling rate and its noise multiplier.
    """
    return tuple(_as_group(event, of) for event in rounds)


def _as_group(event: AnyEvent, of: Callable[[float, float], GroupRound]) -> AnyEvent:
    if not (isinstance(event, Repeated) and isinstance(event.event, PoissonSampled)):
        return event
    drawn = event.event
    return Repeated(count=event.count, event=of(drawn.rate, drawn.event.noise_multiplier))


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
