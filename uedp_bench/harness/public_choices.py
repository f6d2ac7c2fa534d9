"""What guarantees assume of a corpus: who is public, and how public choices about units were made.

Every corpus passes here, wherever its splits come from: a column, a folder, the source, parameters
of the source, an attack that held users out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from uedp_bench.accounting.assumptions import Condition
from uedp_bench.accounting.events import PrivacyUnit
from uedp_bench.clients import CLIENT
from uedp_bench.corpus import Corpus, distinct, row_names, user_names
from uedp_bench.harness.planting import PlantedCorpus

USER_UNITS: frozenset[PrivacyUnit] = frozenset({"user", "user-entity"})
CLIENT_UNITS: frozenset[PrivacyUnit] = frozenset({"client"})
ROW_UNITS: frozenset[PrivacyUnit] = frozenset({"record", "entity", "sentence", "word", "attribute"})

PUBLIC_USERS = (
    "some users have rows in the split 'train' and in 'public' too, and public text is used "
    "without protection: take their rows out of one of the two"
)
"""Why nothing is proven for users, nor for clients that hold their rows."""

SCORED_USERS = (
    "some users have rows in 'train' and in 'valid' or 'test' too: what is covered is what their "
    "rows in 'train' tell, and neither scores of the others nor choices that are made by them"
)
CLIENT_ROWS = (
    "a client is the rows of 'train' that it holds once rows are dealt: what is covered is what "
    "they tell, and not its rows in other splits, which are public or scored"
)
REPLACED_ROWS = (
    "a row that is replaced stays in its split, with its client and in its round: rows have no ids "
    "(source.id_column), and are named by what they say"
)
CHANGED_DOCUMENTS = (
    "a document of which a row changes stays in its split, in its cohort and with its client: "
    "documents have no names, and are called by what they say"
)
NUMBERED = (
    "a user's number depends on no other user: the source gives numbers and no names "
    "(Corpus.user_names)"
)
PLANTED = "neighbours have the same canaries, and the same users held out, by the same coins"
"""Assumptions."""


def conditions(there: PlantedCorpus, *, generated: bool = False) -> tuple[Condition, ...]:
    """Conditions of all guarantees about a planted corpus.

    Args:
        there: the corpus.
        generated: its source made it up: names of rows are not at issue.
    """
    corpus = there.corpus
    quotas = [Condition(text) for text in corpus.quotas]
    named = () if generated else _named(corpus)
    planted = [Condition(PLANTED)] if there.planted and _changed(there) else []
    return (*_shared(corpus), *named, *quotas, *planted)


def _shared(corpus: Corpus) -> Iterator[Condition]:
    """Users and clients of several splits."""
    users = corpus.users
    train = distinct(users[corpus.where("train") & (users >= 0)])

    def some_in(*splits: str) -> bool:
        return bool(np.isin(users[corpus.where(*splits)], train).any())

    if some_in("public"):
        yield Condition(PUBLIC_USERS, USER_UNITS | CLIENT_UNITS, broken=True)
    if some_in("valid", "test"):
        yield Condition(SCORED_USERS, USER_UNITS)
    if CLIENT in corpus.groups:
        yield Condition(CLIENT_ROWS, CLIENT_UNITS)


def _named(corpus: Corpus) -> Iterator[Condition]:
    """Units that are named by their content, and have another name where it changes."""
    if row_names(corpus).of_content:
        yield Condition(REPLACED_ROWS, ROW_UNITS, "replace-one")
    if corpus.user_names is None and corpus.user_count:
        yield Condition(NUMBERED)
    if not user_names(corpus).of_content:
        return
    if np.bincount(corpus.users[corpus.users >= 0], minlength=1).max() > 1:
        yield Condition(CHANGED_DOCUMENTS, ROW_UNITS)
        yield Condition(CHANGED_DOCUMENTS, USER_UNITS, "replace-one")
    else:
        yield Condition(REPLACED_ROWS, USER_UNITS, "replace-one")


def _changed(there: PlantedCorpus) -> bool:
    """True if an attack changed rows or updates, held some users out, or may have."""
    source = there.data.corpus.split
    moved = len(source) != len(there.corpus) or not np.array_equal(source, there.corpus.split)
    silent = bool(there.injected) or bool(there.strangers)  # rows need not tell of either
    return moved or silent or bool((there.corpus.origin < 0).any())
