"""Splits by whole users, for data that does not come with them."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from uedp_bench.component import Params
from uedp_bench.corpus import SPLITS, IntArray, distinct
from uedp_bench.errors import InputError, shown
from uedp_bench.randomness.streams import shared_stream

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
    """How splits that the data does not have are cut off its training users."""

    valid: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of the training users who become the split valid, if the data has none",
    )
    test: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of the training users who become the split test, if the data has none",
    )
    seed: int = Field(
        default=0, ge=0, description="seed of everything that the source draws at random"
    )


def split_index(name: object, where: str) -> int:
    """Index into `SPLITS` of a split called `name` in a data set.

    Raises:
        InputError: for a name that is not in `ALIASES`; `where` says where it stands.
    """
    found = ALIASES.get(str(name).strip().lower())
    if found is None:
        raise InputError(f"{where}: {shown(name)} is not a split; known: {', '.join(ALIASES)}")
    return SPLITS.index(found)


def cut_missing_splits(
    users: IntArray,
    split: IntArray,
    params: SplitParams,
    owner: str,
    classes: IntArray | None = None,
) -> IntArray:
    """The splits of rows after whole training users moved to the splits that were missing.

    No class loses its last training user. Where that leaves too few users to move, as it does where
    the classes are the users, the same shares of every user's rows of a class move instead.

    Args:
        users: (rows,) user of each row.
        split: (rows,) index into `SPLITS`.
        params: shares of the users, and the seed that chooses them.
        owner: the source, for the message.
        classes: (rows,) label of each row, -1 for none; None where rows have no label.

    Returns:
        (rows,) index into `SPLITS`; a share above 0 is at least one user, or one row.

    Raises:
        InputError: if nobody is left to train on, or too few rows to cut anything off.
    """
    wanted = {"valid": params.valid, "test": params.test}
    missing = {
        SPLITS.index(name): share
        for name, share in wanted.items()
        if share > 0 and not np.any(split == SPLITS.index(name))
    }
    rng = np.random.Generator(np.random.PCG64(shared_stream(params.seed, "source", "splits")))
    train = split == TRAIN
    everyone = rng.permutation(distinct(users[train]))
    counts = [max(1, round(share * len(everyone))) for share in missing.values()]
    if sum(counts) >= len(everyone):
        raise InputError(
            f"{owner}: {len(everyone)} training users are too few to cut off "
            f"{' and '.join(SPLITS[at] for at in missing) or 'anything'} "
            f"(valid={params.valid}, test={params.test}) and still train"
        )
    if classes is not None:
        everyone = _spare(everyone, users[train], classes[train])
    if sum(counts) > len(everyone):
        pairs = users if classes is None else users * (classes.max() + 2) + classes
        return _rows_of_each(pairs, split, missing, rng, owner)
    out = split.copy()
    for at, chosen in zip(missing, np.split(everyone, np.cumsum(counts)), strict=False):
        out[np.isin(users, chosen) & train] = at
    return out


def _spare(everyone: IntArray, users: IntArray, classes: IntArray) -> IntArray:
    """The users, in their order, that can all move and leave every class a user."""
    pairs = np.unique(np.stack([users, classes], axis=1)[classes >= 0], axis=0)
    of_user: dict[int, list[int]] = {}
    for user, kind in pairs.tolist():
        of_user.setdefault(user, []).append(kind)
    left = np.bincount(pairs[:, 1])
    spare = []
    for user in everyone.tolist():
        mine = of_user.get(user, [])
        if (left[mine] > 1).all():
            left[mine] -= 1
            spare.append(user)
    return np.array(spare, dtype=np.int64)


def _rows_of_each(
    keys: IntArray,
    split: IntArray,
    shares: dict[int, float],
    rng: np.random.Generator,
    owner: str,
) -> IntArray:
    """Splits after the given shares of each key's training rows moved; one row stays at least."""
    rows = np.flatnonzero(split == TRAIN)
    rows = rows[np.lexsort([rng.random(len(rows)), keys[rows]])]  # shuffled within each key
    _, first, of_row, counts = np.unique(
        keys[rows], return_index=True, return_inverse=True, return_counts=True
    )
    place = np.arange(len(rows)) - first[of_row]
    # Each key has an offset of its own: shares hold on average, also where a key has few rows.
    at = (place + rng.random(len(counts))[of_row]) / counts[of_row]
    at[place == counts[of_row] - 1] = 1.0
    out, low = split.copy(), 0.0
    for kind, share in shares.items():
        moved = rows[(low <= at) & (at < low + share)]
        if not len(moved):
            raise InputError(
                f"{owner}: without {share:.0%} of the users some class would have no training row, "
                f"and the {len(rows)} rows of {len(counts)} users by class are too few to cut off "
                f"{SPLITS[kind]}: set {SPLITS[kind]} to 0, or name a split_column"
            )
        out[moved] = kind
        low += share
    return out
