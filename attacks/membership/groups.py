"""Users by number of records, class and attributes: whom a membership attack tells apart best.

The users are those that an attack judges. Within a group, members and non-members differ by
nothing but training, since users are held out at random; so the chance of a Mann-Whitney test is
that of an attack that finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from uedp_bench.api.statistics import Scores, auc_estimate
from uedp_bench.statistics.intervals import size_range

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, Estimate, FloatArray, IntArray
    from uedp_bench.attacks.membership.records import Records

LEAST_USERS = 5
"""Users on either side of a group, at least: fewer say nothing, and name somebody."""


def auc_of_most_records(
    records: Records, scores: FloatArray, rng: np.random.Generator
) -> Estimate | None:
    """AUC of the tenth of the users with the most records; None if all users have as many.

    Users with as many records as the last of the tenth count too.

    Args:
        records: records that were scored.
        scores: (users,) scores in the order of the users' numbers, high for members.
        rng: random generator of the interval.
    """
    counts = records.by_user(np.ones(len(records.users)))
    tenth = counts >= np.sort(counts)[-max(1, len(counts) // 10)]
    sides = _sides(records, scores, tenth)
    if tenth.all() or min(len(side.values) for side in sides) < LEAST_USERS:
        return None
    return auc_estimate(*sides, rng)


def user_groups(
    records: Records, scores: FloatArray, corpus: Corpus, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Groups of users with AUC, interval and p-value, as JSON values.

    Args:
        records: records that were scored.
        scores: (users,) scores in the order of the users' numbers, high for members.
        corpus: corpus of the records.
        rng: random generator of the intervals.
    """
    out = []
    for name, chosen in _groups(records, corpus):
        members, others = _sides(records, scores, chosen)
        if chosen.all() or min(len(members.values), len(others.values)) < LEAST_USERS:
            continue
        out.append({
            "name": name,
            "members": len(members.values),
            "non_members": len(others.values),
            "auc_user": auc_estimate(members, others, rng).model_dump(mode="json"),
            "p_value": _p_value(members.values, others.values),
        })  # fmt: skip
    return out


def _sides(records: Records, scores: FloatArray, chosen: BoolArray) -> tuple[Scores, Scores]:
    """Scores of the chosen users (users,), members and non-members."""
    users = np.unique(records.users)[chosen]
    marked = [(side, np.isin(side.users, users)) for side in records.user_sides(scores)]
    members, others = (Scores(side.values[some], side.users[some]) for side, some in marked)
    return members, others


def _groups(records: Records, corpus: Corpus) -> Iterator[tuple[str, BoolArray]]:
    """Names of groups, each with its users (users,) in the order of their numbers."""
    counts = records.by_user(np.ones(len(records.users))).astype(np.int64)
    ranges = np.array([size_range(count) for count in counts.tolist()])
    for name in dict.fromkeys(ranges[np.argsort(counts, kind="stable")].tolist()):
        yield f"records {name}", ranges == name
    columns: dict[str, tuple[IntArray, tuple[str, ...]]] = {}
    if corpus.labels is not None:
        columns["class"] = corpus.labels, corpus.label_names
    for attribute, values in corpus.attributes.items():
        columns[attribute] = values, corpus.attribute_names[attribute]
    for column, (values, names) in columns.items():
        most = _most_common(records, values[records.rows], len(names))
        for index, name in enumerate(names):
            yield f"{column} {name}", most == index


def _most_common(records: Records, values: IntArray, names: int) -> IntArray:
    """(users,) the commonest value of each user's records, the first of several; -1 for none.

    Args:
        records: records that were scored.
        values: (records,) index of a name, -1 for unknown.
        names: number of names.
    """
    counts = np.stack([records.by_user(np.asarray(values == name)) for name in range(names)])
    return np.where(counts.any(axis=0), counts.argmax(axis=0), -1)


def _p_value(members: FloatArray, others: FloatArray) -> float:
    """Probability that chance puts members so far above non-members (Mann-Whitney, one-sided)."""
    from scipy.stats import PermutationMethod, mannwhitneyu

    method: Literal["auto"] | PermutationMethod = "auto"
    # With many ties the normal law is wrong by a factor of four, and exact tables know none.
    if len(np.unique(np.concatenate([members, others]))) < len(members) + len(others):
        method = PermutationMethod(n_resamples=1999, batch=200, rng=1)
    test = mannwhitneyu(members, others, alternative="greater", axis=None, method=method)
    return float(test.pvalue)
