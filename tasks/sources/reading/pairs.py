"""Parallel text: two files of as many lines, and the corpus of their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus, IntArray
from uedp_bench.errors import InputError
from uedp_bench.io.files import open_text, shown_path
from uedp_bench.text.comparison import Pair, holds_text


def read_lines(path: Path, parameter: str) -> list[str]:
    """The lines of a file, each with single spaces between its words."""
    with open_text(path, parameter) as lines:
        return [" ".join(line.split()) for line in lines]


def read_pairs(text: Path, target: Path, parameter: str) -> list[Pair]:
    """The pairs of two files, line by line; a side may be blank.

    Raises:
        InputError: if one has more lines than the other.
    """
    texts, targets = read_lines(text, parameter), read_lines(target, parameter)
    if len(texts) != len(targets):
        raise InputError(
            f"{parameter}: {shown_path(text)} has {len(texts)} lines, and {shown_path(target)} "
            f"{len(targets)}: line n of one must be the translation of line n of the other"
        )
    return [*zip(texts, targets, strict=True)]


def parallel_corpus(
    pairs: Sequence[Pair],
    split: Sequence[int],
    users: Sequence[int],
    parameter: str,
    *,
    clean: bool,
) -> Corpus:
    """The corpus of some pairs; pairs with a blank side are left out.

    Args:
        pairs: rows.
        split: (rows,) index into `SPLITS`.
        users: (rows,) document of each row, -1 for none.
        parameter: name of the source's parameter, for messages.
        clean: leave out pairs of which `holds_text` is true.

    Raises:
        InputError: if no training pair is left.
    """
    keep = [
        at
        for at, pair in enumerate(pairs)
        if pair[0] and pair[1] and not (clean and holds_text(pair))
    ]
    splits: IntArray = np.array([split[at] for at in keep], dtype=np.int64)
    if not (splits == SPLITS.index("train")).any():
        raise InputError(f"{parameter}: no training pair has words on both sides")
    ids: IntArray = np.array([users[at] for at in keep], dtype=np.int64)
    return Corpus(
        texts=tuple(pairs[at][0] for at in keep),
        groups={"user": ids},
        split=splits,
        targets=tuple(pairs[at][1] for at in keep),
    )
