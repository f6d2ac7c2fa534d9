"""A group of users is marked if members of it alone leak, and seldom if nothing does."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

from uedp_bench.attacks.membership.groups import _p_value, auc_of_most_records, user_groups
from uedp_bench.attacks.membership.records import Records
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.leaderboard.run_pages.least_protected import (
    least_protected_users,
    user_group_cells,
)

USERS = 400
RARE = 3
"""Class of one user in ten."""


def corpus_of(counts: np.ndarray, labels: np.ndarray | None = None) -> Corpus:
    """Users with so many rows, and their classes; users of an odd number are of region north."""
    users = np.repeat(np.arange(len(counts)), counts)
    labels = np.zeros(len(counts), dtype=np.int64) if labels is None else labels
    return Corpus(
        texts=tuple(f"row {at}" for at in range(len(users))),
        groups={"user": users},
        split=np.full(len(users), SPLITS.index("train")),
        labels=labels[users],
        label_names=("world", "sport", "business", "rare"),
        attributes={"region": users % 2},
        attribute_names={"region": ("south", "north")},
    )


def records_of(corpus: Corpus, member: np.ndarray) -> Records:
    rows = np.arange(len(corpus.texts))
    return Records(rows, list(corpus.texts), corpus.users, member[corpus.users])


def groups_of(scores: np.ndarray, corpus: Corpus, member: np.ndarray) -> list[dict[str, Any]]:
    return user_groups(records_of(corpus, member), scores, corpus, np.random.default_rng(0))


def test_the_class_that_leaks_is_marked_alone() -> None:
    rng = np.random.default_rng(1)
    labels = np.where(np.arange(USERS) % 10 == 0, RARE, rng.integers(0, 3, USERS))
    member = rng.permutation(USERS) < USERS // 2
    scores = rng.normal(size=USERS) + 3.0 * (member & (labels == RARE))
    corpus = corpus_of(rng.integers(1, 5, USERS), labels)
    groups = groups_of(scores, corpus, member)
    first, *rest = user_group_cells([{"groups": groups}])
    assert first[0] == "class rare"
    assert first[-1]
    assert {"records 1", "records 2 to 3", "class sport", "region north"} <= {c[0] for c in rest}
    assert not any(cells[-1] for cells in rest if str(cells[0]).startswith("class"))
    rare = labels == RARE
    assert first[1:3] == ((rare & member).sum(), (rare & ~member).sum())
    (figure,) = least_protected_users({"groups": groups})
    assert figure.table.rows[0][0] == "class rare"
    assert figure.table.rows[0][-1] == "yes"


def test_an_attack_that_finds_nothing_marks_few_runs() -> None:
    rng, runs, users = np.random.default_rng(2), 100, 120
    corpus = corpus_of(rng.integers(1, 9, users), rng.integers(0, 4, users))
    marked = 0
    for _ in range(runs):
        member = rng.permutation(users) < users - 20
        groups = groups_of(rng.normal(size=users), corpus, member)
        marked += any(cells[-1] for cells in user_group_cells([{"groups": groups}]))
    assert marked <= 0.05 * runs + 3.0 * math.sqrt(0.05 * 0.95 * runs)


@pytest.mark.parametrize("hits", [10, 9, 7])
def test_ties_are_counted_as_they_are(hits: int) -> None:
    """The normal law is wrong by a factor of four for labels that are right or wrong."""
    members, others = np.ones(190), np.zeros(10)
    members[:10], others[hits:] = 0.0, 1.0
    right = members.sum() + others.sum()
    exact = hypergeom(200, right, 190).sf(members.sum() - 1)
    assert _p_value(members, others) == pytest.approx(exact, rel=0.2, abs=2e-3)


def test_runs_are_pooled_with_their_chances_added() -> None:
    group = {"name": "class rare", "members": 10, "non_members": 12, "p_value": 0.02,
             "auc_user": {"value": 0.8, "low": 0.6, "high": 0.9}}  # fmt: skip
    other = group | {"members": 20, "p_value": 0.5, "auc_user": {"value": 0.6}}
    assert user_group_cells([{"groups": [group]}])[0][-1]
    ((_, members, others, area, marked),) = user_group_cells(
        [{"groups": [group]}, {"groups": [other]}, {"groups": [other]}]
    )
    assert (members, others, marked) == (17, 12, False)
    assert area["value"] == pytest.approx(2.0 / 3.0)
    assert user_group_cells([{"groups": "none"}, {}]) == []


def test_groups_of_few_users_are_left_out() -> None:
    labels = np.zeros(60, dtype=np.int64)
    labels[:8] = RARE  # four on either side
    member = np.arange(60) % 2 == 0
    corpus = corpus_of(np.ones(60, dtype=np.int64), labels)
    names = [group["name"] for group in groups_of(np.zeros(60), corpus, member)]
    assert names == ["class world"]  # members live in the south, and all have one record


def test_the_tenth_with_the_most_records_is_judged_by_itself() -> None:
    rng = np.random.default_rng(3)
    counts = np.where(np.arange(USERS) % 10 == 0, 9, rng.integers(1, 4, USERS))
    member = np.arange(USERS) // 10 % 2 == 0
    scores = rng.normal(size=USERS) + 9.0 * (member & (counts == 9))
    records = records_of(corpus_of(counts), member)
    area = auc_of_most_records(records, scores, np.random.default_rng(0))
    assert area is not None
    assert area.value == 1.0
    # Five on either side whom chance might put in order: an exact interval.
    assert area.low is not None
    assert area.low < 1.0
    alike = records_of(corpus_of(np.full(USERS, 2)), member)
    assert auc_of_most_records(alike, scores, np.random.default_rng(0)) is None


def test_users_without_a_class_are_in_no_class() -> None:
    corpus = corpus_of(np.ones(40, dtype=np.int64))
    assert corpus.labels is not None
    unknown = replace(corpus, labels=np.where(corpus.users < 20, -1, corpus.labels))
    (group, *_) = groups_of(np.zeros(40), unknown, np.arange(40) % 2 == 0)
    assert (group["name"], group["members"], group["non_members"]) == ("class world", 10, 10)
