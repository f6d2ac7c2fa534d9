"""Released representations of a split, with the truth about their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.api.capabilities import Encoder, protected_rows
from uedp_bench.corpus import Corpus, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Seen:
    """Released rows of one split.

    Attributes:
        shown: the rows as they were released.
        rows: (rows,) row of the original corpus that each was made from; truth is looked up there.
        inputs: (rows, d) their representations, finite.
    """

    shown: Corpus
    rows: IntArray
    inputs: FloatArray

    def __len__(self) -> int:
        return len(self.rows)


def see(
    release: Encoder,
    corpus: Corpus,
    split: str,
    attack: str,
    sample: tuple[int, np.random.Generator] | None = None,
) -> Seen:
    """Representations of a split: of its protected rows, or of the corpus' own where none are.

    Rows that an attack planted say nothing about anybody and are left out. Rows are ordered by
    the source's row, so that nothing depends on the order of a published corpus.

    Args:
        release: may be `Published` as well, or have `inputs` (see `Release`).
        corpus: the original corpus, all splits.
        split: which.
        attack: named in errors.
        sample: largest number of rows, drawn uniformly, and the generator of the draw.

    Raises:
        InputError: for a split without rows, or representations that are no finite (rows, d).
    """
    # Where inputs are protected as well, it is protected rows that are represented.
    protected = protected_rows(release)
    shown = corpus.only(split) if protected is None else protected.only(split)
    if not len(shown):
        # Mechanisms that do not protect inputs publish no test rows: those are asked for as is.
        shown = corpus.only(split)
    rows = original_rows(shown, corpus, split)
    chosen = np.flatnonzero(rows >= 0)
    chosen = chosen[np.argsort(shown.origin[chosen], kind="stable")]
    if not len(chosen):
        raise InputError(f"{attack}: the {split} split has no released rows")
    if sample is not None and sample[0] < len(chosen):
        chosen = chosen[np.sort(sample[1].permutation(len(chosen))[: sample[0]])]
    shown = shown.take(chosen)
    inputs = np.asarray(release.representations(shown), dtype=np.float64)
    _check(inputs, len(shown), f"{attack}: representations of the {split} split")
    return Seen(shown, rows[chosen], inputs)


def check_splits(corpus: Corpus, attack: str) -> None:
    """Refuses before training what could not be attacked after it.

    Raises:
        InputError: if an attacker has nothing to learn from, to be chosen by, or to be scored on.
    """
    for split in ("train", "valid", "test"):
        if not corpus.where(split).any():
            raise InputError(
                f"{attack} needs rows of the split {split!r}, and the source has none; attackers "
                "learn from train, are chosen by valid and scored on test"
            )


def original_rows(shown: Corpus, corpus: Corpus, split: str) -> IntArray:
    """(rows shown,) row of the corpus with the same origin, -1 for none."""
    mine = np.flatnonzero(corpus.where(split) & (corpus.origin >= 0))
    largest = max(corpus.origin.max(initial=-1), shown.origin.max(initial=-1))
    # The last place stays -1: it is where an origin of -1 looks.
    position = np.full(int(largest) + 2, -1, dtype=np.int64)
    position[corpus.origin[mine]] = mine
    return position[shown.origin]


def _check(inputs: FloatArray, rows: int, what: str) -> None:
    if inputs.ndim != 2 or len(inputs) != rows or not inputs.shape[1]:
        raise InputError(f"{what} have shape {inputs.shape}; ({rows}, d) is needed")
    bad = np.flatnonzero(~np.isfinite(inputs).all(axis=1))
    if len(bad):
        raise InputError(
            f"{what}: {len(bad)} of {rows} rows are not finite (NaN or infinite), first at {bad[0]}"
        )
