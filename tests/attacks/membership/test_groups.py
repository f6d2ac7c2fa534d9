"""A group of users is marked if members of it alone leak, and seldom if nothing does."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

from uedp_bench.attacks.membership.groups import (
    UserScores,
    _p_value,
    auc_of_most_records,
    user_groups,
)
from uedp_bench.attacks.membership.records import PlantedMembership, Records
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


def planted_of(corpus: Corpus, member: np.ndarray, *, by_splits: bool = False) -> PlantedMembership:
    return PlantedMembership(
        members=tuple(np.flatnonzero(member).tolist()),
        non_members=tuple(np.flatnonzero(~member).tolist()),
        rows=tuple(range(len(corpus.texts))),
        digests=(0,) * len(corpus.texts),
        by_splits=by_splits,
    )


def groups_of(
    scores: np.ndarray, corpus: Corpus, member: np.ndarray, *, by_splits: bool = False
) -> list[dict[str, Any]]:
    planted = planted_of(corpus, member, by_splits=by_splits)
    records = records_of(corpus, member)
    users = UserScores.from_records(records, scores)
    return user_groups(users, records, corpus, planted, np.random.default_rng(0))


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


def test_no_difference_of_groups_is_of_few_users() -> None:
    """Numbers of a group, less those of another one or of all users, would name somebody."""
    labels = np.arange(120) % 3
    labels[:8] = RARE  # four on either side: named by all others, unless one more class is left out
    member = np.arange(120) // 2 % 2 == 0
    corpus = corpus_of(np.ones(120, dtype=np.int64), labels)
    region = np.arange(120) % 2
    region[-1] = 0  # even users and one odd one
    alike = np.arange(120) % 2  # and the even ones alone
    corpus = replace(
        corpus,
        attributes={"region": region[corpus.users], "home": alike[corpus.users]},
        attribute_names={"region": ("south", "north"), "home": ("a", "b")},
    )
    groups = groups_of(np.zeros(120), corpus, member)
    names = {group["name"] for group in groups}
    assert len(names & {"class world", "class sport", "class business"}) == 2
    assert "class rare" not in names
    assert {"region south", "region north"} <= names
    assert not names & {"home a", "home b"}


def test_records_are_those_of_the_training_data() -> None:
    """Other attacks replace records of members alone."""
    member = np.arange(80) % 2 == 0
    corpus = corpus_of(np.where(np.arange(80) < 40, 3, 9))
    first = np.unique(corpus.users, return_index=True)[1]
    kept = np.ones(len(corpus.texts), dtype=bool)
    kept[first[member]] = kept[first[member] + 1] = False
    records = records_of(corpus, member).only(kept, "replaced")
    users = UserScores.from_records(records, np.zeros(80))
    groups = user_groups(
        users, records, corpus, planted_of(corpus, member), np.random.default_rng(0)
    )
    sizes = {group["name"]: (group["members"], group["non_members"]) for group in groups}
    assert {name: size for name, size in sizes.items() if name.startswith("records")} == {
        "records 2 to 3": (20, 20),
        "records 8 to 15": (20, 20),
    }


def test_fixed_splits_are_not_compared_with_chance() -> None:
    member = np.arange(80) // 2 % 2 == 0
    corpus = corpus_of(np.where(np.arange(80) < 40, 1, 2))
    groups = groups_of(1.0 * member, corpus, member, by_splits=True)
    assert groups
    assert all(group["p_value"] is None for group in groups)
    assert all(cells[-1] is None for cells in user_group_cells([{"groups": groups}]))
    (figure,) = least_protected_users({"groups": groups})
    assert "marks" not in figure.about
    assert "splits" in figure.about


def test_attributes_named_like_other_columns_stay_apart() -> None:
    users = np.arange(80)
    corpus = corpus_of(np.ones(80, dtype=np.int64), users // 20 % 2)
    attributes = {"class": users // 10 % 2, "records": users // 4 % 2, "none": np.full(80, -1)}
    corpus = replace(
        corpus,
        attributes=attributes,
        attribute_names={"class": ("world", "b"), "records": ("1", "2"), "none": ()},
    )
    names = [one["name"] for one in groups_of(np.zeros(80), corpus, users % 2 == 0)]
    assert {"class world", "attribute 'class' world", "attribute 'records' 1"} <= {*names}
    assert len(names) == len({*names})


def test_whole_leaks_of_labels_are_marked_over_seeds() -> None:
    """As many permutations as show it, whatever the number of groups and seeds."""
    member = np.arange(80) // 2 % 2 == 0
    corpus = corpus_of(np.where(np.arange(80) < 40, 1, 2))
    (group, *_) = groups_of(1.0 * member, corpus, member)
    groups = [group | {"name": f"class {at}"} for at in range(40)]
    assert all(cells[-1] for cells in user_group_cells([{"groups": groups}] * 5))


GROUP: dict[str, Any] = {"name": "class rare", "members": 10, "non_members": 12, "p_value": 0.02,
                         "auc_user": {"value": 0.8, "low": 0.6, "high": 0.9}}  # fmt: skip


@pytest.mark.parametrize("change", [
    {"auc_user": {"value": "inf"}}, {"auc_user": {"value": 1e308}}, {"members": 10**400},
    {"p_value": -1.0}, {"auc_user": {"value": 0.8, "low": "-inf", "high": "inf"}},
])  # fmt: skip
def test_impossible_numbers_of_strangers_show_no_groups(change: dict[str, Any]) -> None:
    forged = {"groups": [GROUP | change]}
    assert user_group_cells([forged, {"groups": [GROUP]}]) == user_group_cells(
        [{"groups": [GROUP]}]
    )
    assert least_protected_users(forged) == []


def test_groups_of_one_name_are_no_runs() -> None:
    assert user_group_cells([{"groups": [GROUP, GROUP]}]) == []


def test_names_and_numbers_of_groups_are_bounded() -> None:
    many = [GROUP | {"name": f"{at} {'<b>' * 10**4}"} for at in range(500)]
    (figure,) = least_protected_users({"groups": many})
    assert len(json.dumps(figure.figure)) < 50_000
    assert figure.figure["layout"]["height"] < 3000
    assert figure.table.left_out == 300


def test_the_tenth_with_the_most_records_is_judged_by_itself() -> None:
    rng = np.random.default_rng(3)
    counts = np.where(np.arange(USERS) % 10 == 0, 9, rng.integers(1, 4, USERS))
    member = np.arange(USERS) // 10 % 2 == 0
    scores = rng.normal(size=USERS) + 9.0 * (member & (counts == 9))
    records = records_of(corpus_of(counts), member)
    users = UserScores.from_records(records, scores)
    area = auc_of_most_records(users, np.random.default_rng(0))
    assert area is not None
    assert area.value == 1.0
    # Five on either side whom chance might put in order: an exact interval.
    assert area.low is not None
    assert area.low < 1.0
    alike = records_of(corpus_of(np.full(USERS, 2)), member)
    users = UserScores.from_records(alike, scores)
    assert auc_of_most_records(users, np.random.default_rng(0)) is None


def test_users_without_a_class_are_in_no_class() -> None:
    corpus = corpus_of(np.ones(40, dtype=np.int64))
    assert corpus.labels is not None
    unknown = replace(corpus, labels=np.where(corpus.users < 20, -1, corpus.labels))
    (group, *_) = groups_of(np.zeros(40), unknown, np.arange(40) % 2 == 0)
    assert (group["name"], group["members"], group["non_members"]) == ("class world", 10, 10)
