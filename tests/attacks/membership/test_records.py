"""Which records membership inference scores, and when too few users are left."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.attacks.membership.attack import PlantedMembership
from uedp_bench.attacks.membership.records import digest, records_of
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError

TEXTS = tuple(f"row {at}" for at in range(6))
CORPUS = Corpus(
    texts=TEXTS,
    groups={"user": np.arange(6)},
    split=np.array([SPLITS.index("train")] * 3 + [SPLITS.index("held_out")] * 3),
)


def planted(replaced: set[int]) -> PlantedMembership:
    return PlantedMembership(
        members=(0, 1, 2),
        non_members=(3, 4, 5),
        rows=tuple(range(6)),
        digests=tuple(digest(t) ^ (at in replaced) for at, t in enumerate(TEXTS)),
    )


@pytest.mark.parametrize("replaced", [{0, 1}, {3, 5}, {*range(6)}])
def test_fewer_than_two_users_on_a_side_are_refused(replaced: set[int]) -> None:
    with pytest.raises(InputError, match=r"membership\.held_out_users"):
        records_of(planted(replaced), CORPUS)
    records, _ = records_of(planted(set()), CORPUS)
    with pytest.raises(InputError, match=r"[01] user of .* with a class"):
        records.only(~np.isin(records.rows, list(replaced)), "with a class")


def test_two_users_on_either_side_are_scored() -> None:
    records, replaced = records_of(planted({0, 4}), CORPUS)
    assert (records.member.sum(), (~records.member).sum(), replaced) == (2, 2, 2)
