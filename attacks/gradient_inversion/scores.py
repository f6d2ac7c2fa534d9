"""Precision and recall of what was found, beside those of a guess of equal size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from uedp_bench.corpus import BoolArray, IntArray
from uedp_bench.results import Estimate
from uedp_bench.statistics.intervals import ratio_estimate


@dataclass(eq=False)
class Sets:
    """Sets that were found in messages, beside what is true and what a guess finds.

    Attributes:
        name: of what they are sets ("words").
        counts: of each message, members that were found rightly, found, true, guessed rightly.
    """

    name: str
    counts: list[tuple[int, int, int, int]] = field(default_factory=list)
    _owners: list[int] = field(default_factory=list)

    def add(self, owner: int, found: BoolArray, true: BoolArray, guess: BoolArray) -> None:
        """Counts one message.

        Args:
            owner: number of whose text it was made of; messages of one are resampled together.
            found: (n,) members that the adversary names.
            true: (n,) members that are in the text.
            guess: (n,) what a guess of equal size names.
        """
        self._owners.append(owner)
        self.counts.append(
            (
                int((found & true).sum()),
                int(found.sum()),
                int(true.sum()),
                int((guess & true).sum()),
            )
        )

    def metrics(self, rng: np.random.Generator) -> dict[str, Estimate]:
        """Precision, recall, and the same of guesses; over all messages together.

        What has no denominator is left out.
        """
        if not self.counts:
            return {}
        hits, found, true, lucky = np.array(self.counts, dtype=np.float64).T
        _, owners = np.unique(self._owners, return_inverse=True)
        wanted = {
            "precision": (hits, found), "recall": (hits, true),
            "precision_guessed": (lucky, found), "recall_guessed": (lucky, true),
        }  # fmt: skip
        return {
            f"{self.name}_{what}": ratio_estimate(top, bottom, rng, owners.astype(np.int64))
            for what, (top, bottom) in wanted.items()
            if bottom.sum() > 0
        }


def members(ids: IntArray, size: int) -> BoolArray:
    """(size,) True for members of a set of ids."""
    found = np.zeros(size, dtype=bool)
    found[ids] = True
    return found
