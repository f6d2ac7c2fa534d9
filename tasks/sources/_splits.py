"""Splits by whole users, for data that does not come with them."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from uedp_bench.component import Params
from uedp_bench.corpus import SPLITS, IntArray
from uedp_bench.errors import InputError
from uedp_bench.run import stream

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
    seed: int = Field(default=0, ge=0, description="of everything that the source draws at random")


def split_index(name: object, where: str) -> int:
    """Index into `SPLITS` of a split called `name` in a data set.

    Raises:
        InputError: for a name that is not in `ALIASES`; `where` says where it stands.
    """
    found = ALIASES.get(str(name).strip().lower())
    if found is None:
        raise InputError(f"{where}: {name!r} is not a split; known: {', '.join(ALIASES)}")
    return SPLITS.index(found)


def cut_missing_splits(
    users: IntArray, split: IntArray, params: SplitParams, owner: str
) -> IntArray:
    """The splits of rows after whole training users moved to the splits that were missing.

    Args:
        users: (rows,) user of each row.
        split: (rows,) index into `SPLITS`.
        params: shares of the users, and the seed that chooses them.
        owner: the source, for the message.

    Returns:
        (rows,) index into `SPLITS`; a share above 0 is at least one user.

    Raises:
        InputError: if no user is left to train on.
    """
    wanted = {"valid": params.valid, "test": params.test}
    missing = {
        SPLITS.index(name): share
        for name, share in wanted.items()
        if share > 0 and not np.any(split == SPLITS.index(name))
    }
    rng = np.random.Generator(np.random.PCG64(stream(params.seed, "source", "splits")))
    everyone = rng.permutation(np.unique(users[split == TRAIN]))
    counts = [max(1, round(share * len(everyone))) for share in missing.values()]
    if sum(counts) >= len(everyone):
        raise InputError(
            f"{owner}: {len(everyone)} training users are too few to cut off "
            f"{' and '.join(SPLITS[at] for at in missing) or 'anything'} "
            f"(valid={params.valid}, test={params.test}) and still train"
        )
    out = split.copy()
    for at, chosen in zip(missing, np.split(everyone, np.cumsum(counts)), strict=False):
        out[np.isin(users, chosen) & (split == TRAIN)] = at
    return out
