"""Users by number of records, class and attributes: whom a membership attack tells apart best.

The users are those that an attack judges, with all records that they train with. Where users are
held out at random, members and non-members of a group differ by nothing but training, and the
chance of a Mann-Whitney test is that of an attack that finds nothing. Fixed splits have no p-value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from uedp_bench.api.statistics import Scores, auc_estimate
from uedp_bench.statistics.intervals import size_range

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, Estimate, FloatArray, IntArray
    from uedp_bench.attacks.membership.records import PlantedMembership, Records

LEAST_USERS = 5
"""Users on either side of a group, at least: fewer say nothing, and name somebody. Nor may two
groups, or all users, differ by fewer: the difference of their numbers would name them too."""


@dataclass(frozen=True, eq=False)
class UserScores:
    """Scores of the users that were judged, in the order of their numbers.

    Attributes:
        numbers: (users,) numbers of the users.
        member: (users,) True for members.
        scores: (users,) high for members.
        most_records: (users,) True for the tenth with the most records that were scored, and for
            users with as many records as the last of it.
    """

    numbers: IntArray
    member: BoolArray
    scores: FloatArray
    most_records: BoolArray

    @classmethod
    def from_records(cls, records: Records, scores: FloatArray) -> UserScores:
        """Join the users' scores (users,) with the records that were scored."""
        numbers, first, counts = np.unique(records.users, return_index=True, return_counts=True)
        least = np.sort(counts)[-max(1, len(counts) // 10)]
        return cls(numbers, records.member[first], scores, counts >= least)

    def is_large(self, chosen: BoolArray) -> bool:
        """True if enough of the chosen users (users,) stand on either side."""
        members, others = chosen & self.member, chosen & ~self.member
        return min(int(members.sum()), int(others.sum())) >= LEAST_USERS

    def sides(self, chosen: BoolArray) -> tuple[Scores, Scores]:
        """Scores of the chosen users (users,), members and non-members."""
        ours, others = chosen & self.member, chosen & ~self.member
        return (
            Scores(self.scores[ours], self.numbers[ours]),
            Scores(self.scores[others], self.numbers[others]),
        )


def auc_of_most_records(users: UserScores, rng: np.random.Generator) -> Estimate | None:
    """AUC of the tenth of the users with the most records; None if all users have as many.

    Args:
        users: users with their scores.
        rng: random generator of the interval.
    """
    tenth = users.most_records
    if tenth.all() or not users.is_large(tenth):
        return None
    return auc_estimate(*users.sides(tenth), rng)


def user_groups(
    users: UserScores,
    records: Records,
    corpus: Corpus,
    planted: PlantedMembership,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Groups of users with AUC, interval and p-value, as JSON values.

    Args:
        users: users with their scores.
        records: records that were scored.
        corpus: corpus of the records.
        planted: members and non-members, with all records of each.
        rng: random generator of the intervals.
    """
    published = [np.ones(len(users.numbers), dtype=bool)]
    if users.is_large(users.most_records):
        published.append(users.most_records)
    out = []
    for column in _columns(records, corpus, _counts(users, corpus, planted)):
        for name, chosen in _large_groups(column, users):
            differences = [chosen ^ other for other in published]
            if not all(users.is_large(each) or not each.any() for each in differences):
                continue
            published.append(chosen)
            members, others = users.sides(chosen)
            chance = None if planted.by_splits else _p_value(members.values, others.values)
            out.append({
                "name": name,
                "members": len(members.values),
                "non_members": len(others.values),
                "auc_user": auc_estimate(members, others, rng).model_dump(mode="json"),
                "p_value": chance,
            })  # fmt: skip
    return out


def _counts(users: UserScores, corpus: Corpus, planted: PlantedMembership) -> IntArray:
    """(users,) records that each trains with; other attacks replaced some of members alone."""
    return np.bincount(corpus.users[np.array(planted.rows, dtype=np.int64)])[users.numbers]


def _large_groups(
    column: Sequence[tuple[str, BoolArray]], users: UserScores
) -> list[tuple[str, BoolArray]]:
    """Groups of a column that are large, but for all users; so are those in none of them."""
    groups = [(name, some) for name, some in column if users.is_large(some) and not some.all()]
    while groups:
        rest = ~np.any([some for _, some in groups], axis=0)
        if not rest.any() or users.is_large(rest):
            break
        groups.remove(min(groups, key=lambda group: group[1].sum()))
    return groups


def _columns(
    records: Records, corpus: Corpus, counts: IntArray
) -> Iterator[list[tuple[str, BoolArray]]]:
    """Groups by number of records, class and attribute: names, and users (users,) in order."""
    ranges = np.array([size_range(count) for count in counts.tolist()])
    ordered = dict.fromkeys(ranges[np.argsort(counts, kind="stable")].tolist())
    yield [(f"records {name}", ranges == name) for name in ordered]
    columns: list[tuple[str, IntArray, tuple[str, ...]]] = []
    if corpus.labels is not None:
        columns.append(("class", corpus.labels, corpus.label_names))
    for attribute, values in corpus.attributes.items():
        is_clear = attribute not in ("records", "class", "attribute") and " " not in attribute
        column = attribute if is_clear else f"attribute {attribute!r}"
        columns.append((column, values, corpus.attribute_names[attribute]))
    for column, values, names in columns:
        most = _most_common(records, values[records.rows])
        present = np.unique(most[most >= 0]).tolist()
        yield [(f"{column} {names[index]}", most == index) for index in present]


def _most_common(records: Records, values: IntArray) -> IntArray:
    """(users,) the commonest value of each user's records, the first of several; -1 for none."""
    users, owners = np.unique(records.users, return_inverse=True)
    pairs = np.stack([owners, values], axis=1)[values >= 0]
    unique, counts = np.unique(pairs, axis=0, return_counts=True)
    most = np.full(len(users), -1)
    for (user, value), _ in sorted(zip(unique.tolist(), counts.tolist(), strict=True),
                                   key=lambda pair: (pair[1], -pair[0][1])):  # fmt: skip
        most[user] = value
    return most


_SMALL = 0.005
"""Chance from which few permutations are enough."""


def _p_value(members: FloatArray, others: FloatArray) -> float:
    """Probability that chance puts members so far above non-members (Mann-Whitney, one-sided)."""
    from scipy.stats import PermutationMethod, mannwhitneyu

    # With many ties the normal law is wrong by a factor of four, and exact tables know none.
    methods: list[Literal["auto"] | PermutationMethod] = ["auto"]
    if len(np.unique(np.concatenate([members, others]))) < len(members) + len(others):
        methods = [PermutationMethod(n_resamples=count, batch=200, rng=count)
                   for count in (1_999, 19_999)]  # fmt: skip
    chance = 0.0
    for method in methods:
        test = mannwhitneyu(members, others, alternative="greater", axis=None, method=method)
        chance = float(test.pvalue)
        # Many groups over many seeds need a chance that few permutations cannot show.
        if chance > _SMALL:
            break
    return chance
