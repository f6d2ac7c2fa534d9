"""Splits by whole users, and facts by user: what a register knows of each person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from uedp_bench.components.component import Params, equals
from uedp_bench.corpus import (
    SPLITS,
    BoolArray,
    Corpus,
    Facts,
    normal_id,
    owner_numbers,
    row_numbers,
    with_names,
)
from uedp_bench.data.table_columns import NOT_TEXT
from uedp_bench.errors import InputError, nearest, plain, shown
from uedp_bench.io.files import open_text, shown_path

CutBy = Literal["user", "row"]
"""Unit that moves to another split."""

QUOTA = (
    "neighbours have the same rows in the split {0!r}: its share left it one user at most, and "
    "where it leaves none, the one with the nearest number is moved"
)
"""Assumption of guarantees about a corpus of few users."""

SAME_SPLITS = (
    "neighbours have rows in the same splits: training users are cut off for a split that a file "
    "has no row of"
)
"""Assumption of guarantees about a column of splits, of which one unit may be the first or last of
its split."""

TRAIN = SPLITS.index("train")
ALIASES: dict[str, str] = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "public": "public",
    "held_out": "held_out",
    "held-out": "held_out",
}
"""Names that data sets give to splits, and what they are called here."""


class SplitParams(Params):
    """Shares of training users cut off as splits that the data does not have."""

    valid: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of the training users who become the split valid, if the data has none: "
        "each by a hash of its name, so that the share holds on average",
    )
    test: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of the training users who become the split test, if the data has none",
    )
    cut_by: CutBy | None = Field(
        default=None,
        exclude_if=equals(None),
        description="what becomes valid and test: whole users (user), or rows by themselves (row), "
        "as where the users are the classes; by default users, and rows where label_column is the "
        "user_column",
    )
    seed: int = Field(
        default=0, ge=0, description="seed of everything that the source draws at random"
    )


def split_index(name: object, where: str) -> int:
    """Index into `SPLITS` of a split called `name` in a data set.

    Raises:
        InputError: for a name that is not in `ALIASES`; `where` says where it stands.
    """
    split = ALIASES.get(str(name).strip().lower())
    if split is None:
        raise InputError(f"{where}: {shown(name)} is not a split; known: {', '.join(ALIASES)}")
    return SPLITS.index(split)


def cut_missing_splits(
    corpus: Corpus, params: SplitParams, owner: str, *, by: CutBy = "user"
) -> Corpus:
    """The corpus after training users, or rows, moved to the splits that were missing.

    Each moves by a public number of its own (`corpus.public_numbers`), whoever else is there, so
    that shares are binomial. Where a share leaves a split empty, as it may among few users, the one
    whose number is nearest moves. Guarantees say that they assume it (`Corpus.quotas`), also where
    the only one of a split keeps others from being moved.

    Args:
        corpus: its split, its users and their names, and its labels.
        params: shares of the users, and the seed of the numbers.
        owner: the source, for messages.
        by: what moves, unless the parameters say it.

    Raises:
        InputError: if nobody is left to train on, or the users are the classes, which would have no
            training row.
    """
    shares = {SPLITS.index("valid"): params.valid, SPLITS.index("test"): params.test}
    units = {
        kind: len(np.unique(corpus.users[corpus.split == kind]))
        for kind, share in shares.items()
        if share > 0
    }
    missing = {kind: shares[kind] for kind, count in units.items() if not count}
    corpus = with_names(corpus)
    if getattr(params, "split_column", None) and min(units.values(), default=2) < 2:
        corpus = replace(corpus, quotas=(*corpus.quotas, SAME_SPLITS))
    if not missing:
        return corpus
    by = params.cut_by or by
    train = corpus.split == TRAIN
    if by == "user":
        _check_classes(corpus, train, owner)
        numbers = owner_numbers(corpus, params.seed, "source", "splits")
    else:
        numbers = row_numbers(corpus, params.seed, "source", "splits")
    out, low, quotas = corpus.split.copy(), 0.0, list(corpus.quotas)
    for kind, share in missing.items():
        left = out == TRAIN
        moved = left & (low <= numbers) & (numbers < low + share)
        if not moved.any() and left.any():
            above = (numbers - low) % 1.0  # after 1 comes 0
            moved = left & (numbers == numbers[left][above[left].argmin()])
        if len(np.unique(numbers[moved])) == 1:
            quotas.append(QUOTA.format(SPLITS[kind]))
        out[moved] = kind
        low += share
    if not (out == TRAIN).any() or not all((out == kind).any() for kind in missing):
        raise InputError(
            f"{owner}: {len(np.unique(numbers[train]))} training {by}s are too few to cut off "
            f"{' and '.join(SPLITS[kind] for kind in missing)} "
            f"(valid={params.valid}, test={params.test}) and still train"
            + ("; source.cut_by=row cuts rows" if by == "user" and train.sum() > 2 else "")
        )
    return replace(corpus, split=out, quotas=tuple(quotas))


def _check_classes(corpus: Corpus, train: BoolArray, owner: str) -> None:
    """Refuses to move whole users where each is a class of its own."""
    if corpus.labels is None:
        return
    labelled = train & (corpus.labels >= 0)
    pairs = np.unique(np.stack([corpus.users[labelled], corpus.labels[labelled]]), axis=1)
    sizes = [len(np.unique(one)) for one in pairs]
    if len(pairs[0]) == sizes[0] == sizes[1] > 2:
        raise InputError(
            f"{owner}: every user is a class of its own, and one who moves to another split leaves "
            f"its class without a training row: set {owner}.cut_by=row, or name a split_column",
            mends=("source.cut_by=row",),
        )


def read_records(path: Path, users: Sequence[str], owner: str) -> tuple[Facts, ...]:
    """Facts of each user; those of whom the file says nothing have none.

    Each line is `{"user": "ann", "facts": {"spouse": ["Bo"], "born": "1961-08-04"}}`: a key has a
    text or a list of texts.

    Args:
        path: the file.
        users: names of the users, by id.
        owner: the source, for messages.

    Raises:
        InputError: naming file and line, for a line of another form, or a user who is there twice
            or has no row.
    """
    ids = {normal_id(name): user for user, name in enumerate(users)}
    facts_by_user: dict[int, Facts] = {}
    lines: dict[int, int] = {}
    with open_text(path, f"{owner}.records") as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            where = f"{owner}.records: {shown_path(path)}, line {number}"
            record = _record(line, where)
            user = ids.get(normal_id(record["user"]))
            if user is None:
                near = nearest(normal_id(record["user"]), ids)
                hint = f"; did you mean {near!r}?" if near else ""
                raise InputError(f"{where}: no row is of the user {shown(record['user'])}{hint}")
            if user in facts_by_user:
                raise InputError(
                    f"{where}: facts of {shown(record['user'])} stand in line {lines[user]} already"
                )
            lines[user], facts_by_user[user] = number, _facts(record["facts"], where)
    return tuple(facts_by_user.get(user, {}) for user in range(len(users)))


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON: {plain(str(error), 200)}") from None
    if not isinstance(record, dict):
        raise InputError(f"{where} is not an object {{user, facts}}")
    for field in ("user", "facts"):
        if field not in record:
            near = nearest(field, [str(key) for key in record])
            hint = f"; did you mean it by {near!r}?" if near else ""
            raise InputError(f"{where} has no field {field!r}{hint}")
    return record


def _facts(facts: Any, where: str) -> Facts:
    if not isinstance(facts, dict):
        raise InputError(f"{where}: facts is {shown(facts)}, not an object of texts by key")
    out = {}
    for key, values in facts.items():
        every = values if isinstance(values, list) else [values]
        for value in every:
            if not isinstance(value, str) or not value.strip() or NOT_TEXT.search(value):
                raise InputError(
                    f"{where}: facts.{plain(key, 60)} is {shown(value)}; a text or a list of texts "
                    "is needed"
                )
        out[key] = tuple(every)
    return out
