"""Canaries of the audit attack, with a coin each, and the rows that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from uedp_bench.api import InputError, Planted
from uedp_bench.attacks._planting import person_type, replace_rows
from uedp_bench.corpus import Mention

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus, IntArray


class AuditCanary(BaseModel):
    """A user that is in the training data or not, by a fair coin.

    Attributes:
        user: user whose text it replaces.
        text: words joined by single spaces; each of the user's rows.
        others: users of whom some rows hold the text too (entity canaries).
        included: the coin.
        rows: training rows of the user that hold it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    user: int
    text: str
    others: tuple[int, ...] = ()
    included: bool
    rows: int


class PlantedAudit(Planted):
    """All canaries.

    Attributes:
        canaries: canaries of the one training run, each with a coin of its own.
        subject: always in the corpus; retrainings put it in or leave it out. None without them.
        words: words that second parts of canaries and their references are made of.
    """

    canaries: tuple[AuditCanary, ...]
    subject: AuditCanary | None = None
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def of_records(self) -> bool:
        """True if every canary user has one row."""
        subject = () if self.subject is None else (self.subject,)
        return all(canary.rows == 1 for canary in (*self.canaries, *subject))


class Sizes(NamedTuple):
    """Numbers of canaries, users and rows to plant.

    Attributes:
        canaries: all of them, the subject included.
        others: users beside the canary user that mention it.
        sentences: rows of each of those.
        user_rows: rows of a canary user, at most; None for all that it has.
    """

    canaries: int
    others: int
    sentences: int
    user_rows: int | None


def draw_users(
    corpus: Corpus, sizes: Sizes, rng: np.random.Generator
) -> tuple[list[int], list[list[int]]]:
    """Disjoint training users: one a canary, and those that mention it too.

    Raises:
        InputError: if there are too few.
    """
    train = corpus.where("train") & (corpus.users >= 0)
    have = np.bincount(corpus.users[train], minlength=corpus.user_count)
    needed = sizes.canaries * sizes.others
    able = rng.permutation(np.flatnonzero(have >= sizes.sentences))[:needed]
    rest = rng.permutation(np.setdiff1d(np.flatnonzero(have), able))[: sizes.canaries]
    if len(able) < needed or len(rest) < sizes.canaries:
        raise InputError(
            f"audit.canaries: {sizes.canaries} canaries need {sizes.canaries * (1 + sizes.others)} "
            f"training users, {needed} of them with at least {sizes.sentences} rows; there are "
            f"{np.count_nonzero(have)} users, {np.count_nonzero(have >= sizes.sentences)} of them "
            "with so many rows"
        )
    return rest.tolist(), able.reshape(sizes.canaries, sizes.others).tolist()


class CanaryRows(NamedTuple):
    """Rows of one canary: `own` and `others` hold it, `spare` are never trained on."""

    own: IntArray
    others: IntArray
    spare: IntArray


def draw_rows(
    corpus: Corpus, user: int, others: list[int], sizes: Sizes, rng: np.random.Generator
) -> CanaryRows:
    """The canary user's training rows (or `user_rows` of them), and `sentences` of each other."""
    train, valid = corpus.where("train"), corpus.where("valid")
    mine = corpus.rows_of_user[user]
    own = mine[train[mine]]
    if sizes.user_rows is not None:
        own = np.sort(rng.permutation(own)[: sizes.user_rows])
    theirs = [np.empty(0, dtype=np.int64)]
    for other in others:
        rows = corpus.rows_of_user[other]
        theirs.append(rng.permutation(rows[train[rows]])[: sizes.sentences])
    holding = np.concatenate(theirs)
    # Whatever the coin, the mechanism sees no other text of those who hold the canary: a cap on the
    # rows of a user would let some of it in where the canary is withdrawn, and then the two data
    # sets are no neighbours after the cap.
    everything = np.concatenate([mine, *(corpus.rows_of_user[other] for other in others)])
    seen = everything[train[everything] | valid[everything]]
    return CanaryRows(own, holding, np.setdiff1d(seen, np.concatenate([own, holding])))


def plant_texts(
    corpus: Corpus, rows: list[CanaryRows], texts: list[str], named_after: int | None
) -> Corpus:
    """The corpus with text i in the rows of canary i.

    Args:
        corpus: is not changed.
        rows: rows of each canary.
        texts: texts of each canary.
        named_after: words before the part that is labelled as a name; None labels nothing.
    """
    where = [np.concatenate([part.own, part.others]) for part in rows]
    every = np.concatenate(where)
    planted = [
        text
        for text, canary_rows in zip(texts, where, strict=True)
        for _ in range(len(canary_rows))
    ]
    mentions = name_mentions(corpus, every.tolist(), planted, named_after)
    return replace_rows(corpus, every, planted, mentions)


def name_mentions(
    corpus: Corpus, rows: Iterable[int], texts: Iterable[str], named_after: int | None
) -> list[Mention]:
    """Mentions of a person's name, one for each row: its text after so many words.

    Args:
        corpus: corpus whose type of people they have; none where it declares no types.
        rows: their numbers.
        texts: (rows,) what they hold.
        named_after: words before the name; None for no mentions.
    """
    kind = person_type(corpus)
    if named_after is None or kind is None:
        return []
    return [
        (row, len(" ".join(text.split()[:named_after])) + 1, len(text), kind)
        for row, text in zip(rows, texts, strict=True)
    ]
