"""Members, non-members, and the records by which membership is judged."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.api import InputError, Planted
from uedp_bench.api.statistics import Scores
from uedp_bench.bounds.ceilings import JudgedUsers

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray


class PlantedMembership(Planted):
    """Members and non-members.

    Attributes:
        members, non_members: user ids, equally many.
        rows: the records that are scored: training rows of members, and what were training rows
            of non-members.
        digests: CRC-32 of the text of each, to recognise records that were replaced afterwards.
    """

    members: tuple[int, ...]
    non_members: tuple[int, ...]
    rows: tuple[int, ...]
    digests: tuple[int, ...]


class Score(NamedTuple):
    """A membership score, high for members.

    Attributes:
        records: (records,).
        users: (users,) in the order of their numbers.
    """

    records: FloatArray
    users: FloatArray


class Records(NamedTuple):
    """Scored records: rows of the corpus (records,), with `users` and `member` (records,) of each.

    `texts` are theirs, in the same order.
    """

    rows: IntArray
    texts: list[str]
    users: IntArray
    member: BoolArray

    def sides(self, values: FloatArray) -> tuple[Scores, Scores]:
        """Scores of members and of non-members; `values` (records,) are high for members."""
        return _sides(values, self.users, self.member)

    def user_sides(self, values: FloatArray) -> tuple[Scores, Scores]:
        """Values of member users and of other users; `values` (users,) are in order of user id."""
        users, first = np.unique(self.users, return_index=True)
        return _sides(values, users, self.member[first])

    def by_user(self, values: FloatArray) -> FloatArray:
        """(users,) sums of values of records (records,), in the order of the users' numbers."""
        owners = np.unique(self.users, return_inverse=True)[1]
        return np.bincount(owners, weights=values).astype(np.float64)

    def mean(self, values: FloatArray, sizes: FloatArray) -> Score:
        """A score of records, and for a user the mean over whatever the records consist of.

        Args:
            values: (records,) high for members.
            sizes: (records,) how much each counts: its tokens, or 1.
        """
        return Score(values, self.by_user(values * sizes) / self.by_user(sizes))

    def only(self, keep: BoolArray, why: str) -> Records:
        """The records (records,) that `keep` marks.

        Raises:
            InputError: if nothing is left on one side; `why` says what took it.
        """
        member = self.member[keep]
        if not member.any() or member.all():
            raise InputError(f"membership: {why} every record of one side")
        texts = [self.texts[i] for i in np.flatnonzero(keep).tolist()]
        return Records(self.rows[keep], texts, self.users[keep], member)


def judged_users(records: Records, planted: PlantedMembership, corpus: Corpus) -> JudgedUsers:
    """Numbers of the users that are scored, and of all records that one of them trains with."""
    users, first = np.unique(records.users, return_index=True)
    members = int(records.member[first].sum())
    counts = np.bincount(corpus.users[np.array(planted.rows, dtype=np.int64)])
    return JudgedUsers(
        members=members, non_members=len(users) - members, most_records=int(counts.max())
    )


def _sides(values: FloatArray, users: IntArray, member: BoolArray) -> tuple[Scores, Scores]:
    return Scores(values[member], users[member]), Scores(values[~member], users[~member])


def digest(text: str) -> int:
    """CRC-32 of a text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def records_of(planted: PlantedMembership, corpus: Corpus) -> tuple[Records, int]:
    """The records to score, and how many other attacks have replaced since.

    Replaced records (canaries) differ from held-out ones by what was planted, not by training.

    Raises:
        InputError: if fewer than two users are left on one side.
    """
    same = np.array(
        [
            digest(corpus.texts[row]) == expected
            for row, expected in zip(planted.rows, planted.digests, strict=True)
        ]
    )
    # Members whom an audit withdrew were not trained on.
    rows = np.array(planted.rows, dtype=np.int64)
    same &= corpus.where("train")[rows] | np.isin(corpus.users[rows], planted.non_members)
    users = corpus.users[rows]
    every = Records(
        rows, [corpus.texts[row] for row in planted.rows], users, np.isin(users, planted.members)
    )
    left = every.only(same, "other attacks replaced")
    for side, kept in (("members", left.member), ("non-members", ~left.member)):
        users_left = len(np.unique(left.users[kept]))
        if users_left < 2:
            raise InputError(
                f"membership: {users_left} user of the {side} has records that no other attack "
                "replaced; cross-validation over users needs 2 on either side: raise "
                "membership.held_out_users, or plant fewer canaries"
            )
    return left, int((~same).sum())
