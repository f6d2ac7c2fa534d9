"""Groups of canaries and of users: who is least protected, and what chance alone would show.

A canary that nobody memorised has a uniform rank among its references, so that its exposure is at
most exponential with mean 1 / ln 2 (`statistics.exposure`), and independent of that of others. So
limits of a mean are those of a gamma variable; all groups together pass one by chance in 5 % of
the runs at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import Estimate
from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.run_pages.detail_tables import ROWS, Details, shaped, table
from uedp_bench.leaderboard.run_pages.figures import Figure, Interval, intervals
from uedp_bench.statistics.exposure import NULL_MEAN, exposure_ceiling
from uedp_bench.statistics.intervals import mean_estimate, seed_estimate, size_range

ERROR = 0.05
"""Probability that chance alone marks any group."""

_DRAWS = 100_000
"""Simulated worst deciles."""

_FEW = 5
"""Canaries whose mean has a bootstrap interval, at least: that of fewer is too narrow."""


class _Canary(BaseModel):
    rank: int = Field(ge=1, le=2**62)
    exposure: float = Field(ge=-1.0, le=64.0)
    kind: str = "canary"
    spread: int | None = Field(default=None, ge=0)
    sentences: int | None = Field(default=None, ge=0)
    occurrences: int | None = Field(default=None, ge=0)
    sharers: int | None = Field(default=None, ge=0)
    detected: bool | None = None

    @property
    def bits(self) -> float:
        """Most bits that the rank can show."""
        return self.exposure + math.log2(self.rank)

    @property
    def is_ranked(self) -> bool:
        """True if the exposure is that of the rank among a whole number of references."""
        references = math.exp2(self.bits)
        whole = abs(references - round(references)) <= 1e-6 * references
        return whole and self.rank <= round(references) + 1


_CANARIES = TypeAdapter(list[_Canary])
_Groups = Mapping[str, Sequence[_Canary]]


@dataclass(frozen=True)
class Group:
    """Canaries that share something.

    Attributes:
        name: property that they share.
        size: number of canaries.
        mean: mean exposure in bits.
        limit: mean that chance alone exceeds in few runs, in bits.
        ceiling: largest mean that a proof allows, in bits; None without a proof.
    """

    name: str
    size: int
    mean: Estimate
    limit: float
    ceiling: float | None = None

    @property
    def above_chance(self) -> bool:
        """True if chance does not explain the mean, for all groups at once."""
        return self.mean.value > self.limit


def exposure_groups(
    details: Iterable[Details], guarantees: Sequence[Guarantee] = ()
) -> list[Group]:
    """Groups of the canaries of one attack, the most exposed first; none without ranks.

    Args:
        details: details of the attack in each run.
        guarantees: guarantees, of which those with a curve bound canaries of a spread.
    """
    canaries = [one for each in details for one in shaped(_CANARIES, each.get("canaries")) or ()]
    if not canaries or not all(one.is_ranked for one in canaries):
        return []
    groups = {"all canaries": canaries, **_parts(canaries)}
    tail = len(canaries) // 10 if len(canaries) >= 10 else 0
    level = 1.0 - ERROR / (len(groups) + (tail > 0))
    out = [_group(name, members, level) for name, members in groups.items()]
    out = [
        _beside_proof(group, groups[group.name], guarantees)
        if group.name.startswith("spread") else group
        for group in out
    ]  # fmt: skip
    if tail:
        worst = sorted(one.exposure for one in canaries)[-tail:]
        limit = _tail_limit(len(canaries), tail, level)
        out.append(Group("worst decile", tail, Estimate(value=float(np.mean(worst))), limit))
    return sorted(out, key=lambda group: -group.mean.value) if len(out) > 1 else []


def _parts(canaries: Sequence[_Canary]) -> _Groups:
    """Groups by each property in which canaries differ; no two hold the same canaries."""
    parts: dict[str, list[_Canary]] = {}
    for by in ("kind", "spread", "rows", "users"):
        groups: dict[str, list[_Canary]] = {}
        for one in canaries:
            if name := _name(by, one):
                groups.setdefault(name, []).append(one)
        if len(groups) > ROWS:  # no run plants so, and every group is compared with all others
            continue
        held = [*parts.values(), list(canaries)]
        parts |= {name: members for name, members in groups.items() if members not in held}
    return parts


def _name(by: str, one: _Canary) -> str:
    """Name of the group of a canary; empty where the property is unknown."""
    if by == "kind":
        return f"kind {one.kind}"
    if by == "spread":
        return "" if one.spread is None else f"spread {one.spread}"
    count = one.occurrences if by == "rows" else one.sharers
    if count is None:
        return ""
    return f"{by} {size_range(count)}"


def _beside_proof(
    group: Group, members: Sequence[_Canary], guarantees: Sequence[Guarantee]
) -> Group:
    """Group of a spread with the proven epsilon of all its mentions, and what that allows.

    Neighbours of a user with an entity differ by all sentences that mention it
    (`docs/proofs.md`), and so by all that a canary of its spread left in the data; the one with
    the most mentions counts.
    """
    spread = max(one.spread or 0 for one in members)
    sentences = max(one.sentences or 0 for one in members)
    points = [
        (point.epsilon, g.delta)
        for g in guarantees
        if (g.kind, g.status, g.unit) == ("proven", "given", "user-entity")
        for point in g.curve
        if point.spread >= spread
        and (
            point.sentences is None
            or sentences * max(point.spread, 1) <= point.sentences * max(spread, 1)
        )
    ]
    # A name that nobody noticed is no entity.
    if not points or any(one.detected is False for one in members):
        return group
    epsilon, delta = min(points)
    bits = max(one.bits for one in members)
    name = f"{group.name} (proven ε {number(epsilon)})"
    return replace(group, name=name, ceiling=exposure_ceiling(epsilon, delta, bits))


def _group(name: str, members: Sequence[_Canary], level: float) -> Group:
    from scipy.special import gammaincinv

    mean = mean_estimate([one.exposure for one in members], np.random.default_rng(1))
    if len(members) < _FEW:
        mean = Estimate(value=mean.value)
    limit = NULL_MEAN * float(gammaincinv(len(members), level)) / len(members)
    return Group(name, len(members), mean, limit)


@lru_cache(maxsize=256)
def _tail_limit(canaries: int, tail: int, level: float) -> float:
    """Limit of the mean of the largest exposures, by simulation.

    Above the largest of the others, exponential variables are exponential again (Renyi 1953).
    """
    rng = np.random.default_rng(1)
    rest = canaries - tail
    others = -np.log1p(-rng.beta(rest, tail + 1, _DRAWS)) if rest else 0.0
    means = others + rng.gamma(tail, size=_DRAWS) / tail
    return NULL_MEAN * float(np.quantile(means, level, method="higher"))


def least_protected(details: Details, guarantees: Sequence[Guarantee]) -> list[Figure]:
    """The groups of one attack in a run, with intervals, sizes and what chance may show."""
    groups = exposure_groups([details], guarantees)
    if not groups:
        return []
    marks = {
        "mean exposure": [
            Interval(one.name, one.mean.value, one.mean.low, one.mean.high) for one in groups
        ],
        "limit of chance": [Interval(one.name, one.limit) for one in groups],
        "proof allows": [
            Interval(one.name, one.ceiling) for one in groups if one.ceiling is not None
        ],
    }
    return [Figure(
        "Least protected",
        "Mean exposure of canaries of one kind or spread, by the rows that hold them or the users "
        "who say them, with its 95 % interval. Open: the limit that chance alone exceeds in 5 % of "
        "the runs at most, all groups together; it lies far out for a small group. Worst decile: "
        "the most exposed tenth. What a proof allows follows from the ε of a user with an entity "
        "of this spread.",
        intervals({name: each for name, each in marks.items() if each}, "exposure (bits)"),
        table("least protected", HEAD, list(group_cells(groups))),
    )]  # fmt: skip


HEAD = ("group", "canaries", "mean exposure (bits)", "limit of chance", "beyond chance",
        "proof allows")  # fmt: skip


def group_cells(groups: Iterable[Group]) -> Iterator[tuple[object, ...]]:
    """Cells of the table of groups, below `HEAD`."""
    for one in groups:
        mean = {"value": one.mean.value, "low": one.mean.low, "high": one.mean.high}
        yield one.name, one.size, mean, one.limit, one.above_chance, one.ceiling


# ------------------------------------------------------------------------------------------- users


_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_Count = Annotated[int, Field(ge=1, le=2**53)]


class _Area(BaseModel):
    value: _Share
    low: _Share | None = None
    high: _Share | None = None


class _UserGroup(BaseModel):
    name: str
    members: _Count
    non_members: _Count
    auc_user: _Area
    p_value: _Share | None = None


_USER_GROUPS = TypeAdapter(list[_UserGroup])

USER_HEAD = ("group", "members", "non-members", "user AUC", "beyond chance")

_DRAWN, _NAME = 40, 80
"""Groups of a figure, and characters of a name, at most."""


def _user_groups(details: Details) -> Sequence[_UserGroup]:
    """Groups of one run; none where they have no shape, or several have one name."""
    groups = shaped(_USER_GROUPS, details.get("groups")) or ()
    return groups if len({one.name for one in groups}) == len(groups) else ()


def user_group_cells(details: Iterable[Details]) -> list[tuple[object, ...]]:
    """Cells of the table of groups of users, below `USER_HEAD`, best told apart first.

    Args:
        details: details of a membership attack in each run. Several have means over runs, of
            numbers of users too, and the smallest p-value times their number. Without p-values,
            as of fixed splits, nothing is compared with chance.
    """
    groups: dict[str, list[_UserGroup]] = {}
    for each in details:
        for one in _user_groups(each):
            groups.setdefault(one.name, []).append(one)
    rows = list[tuple[float, tuple[object, ...]]]()
    for name, runs in groups.items():
        area = Estimate.model_validate(runs[0].auc_user.model_dump())
        if len(runs) > 1:
            mean = seed_estimate([one.auc_user.value for one in runs])
            low, high = max(mean.low or 0.0, 0.0), min(mean.high or 0.0, 1.0)
            area = Estimate(value=mean.value, low=low, high=high)
        sizes = (
            round(float(np.mean(side)))
            for side in zip(*((one.members, one.non_members) for one in runs), strict=True)
        )
        chances = [one.p_value for one in runs if one.p_value is not None]
        is_marked = (
            len(runs) * min(chances) <= ERROR / len(groups) if len(chances) == len(runs) else None
        )
        label = name if len(name) <= _NAME else f"{name[:_NAME]} …"
        rows.append((area.value, (label, *sizes, area.model_dump(), is_marked)))
    return [cells for _, cells in sorted(rows, key=lambda row: -row[0])]


def least_protected_users(details: Details) -> list[Figure]:
    """The groups of users of a membership attack in a run, with intervals and sizes."""
    rows = user_group_cells([details])
    if not rows:
        return []
    areas = [(str(cells[0]), Estimate.model_validate(cells[3])) for cells in rows[:_DRAWN]]
    marks = [Interval(name, area.value, area.low, area.high) for name, area in areas]
    chance = (
        "0.5 where nothing leaks. The table marks groups that chance alone puts as far above 0.5 "
        "in 5 % of the runs at most, all groups together (Mann-Whitney, one-sided)."
    )
    if any(cells[-1] is None for cells in rows):
        chance = (
            "the splits of the data say who is a member, and no draw: groups may be told apart by "
            "their words alone, and none is compared with chance."
        )
    return [Figure(
        "Least protected users",
        "User AUC of the main score within users who train with as many records, or have most of "
        f"them in a class, with its 95 % interval; {chance}",
        intervals({"user AUC": marks}, "user AUC"),
        table("least protected users", USER_HEAD, rows), draws=("groups",),
    )]  # fmt: skip
