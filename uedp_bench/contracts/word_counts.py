"""Words that may be seen, with counts: what a vocabulary mechanism gives to a task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from uedp_bench.errors import InputError

MOST_TEXTS = 1_000_000
"""Texts that `WordCounts.texts` makes, about; larger counts are scaled down to it."""


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Words and how often they occur, as a vocabulary mechanism chose them.

    Everybody may see them: whatever it cost to choose them is in events. They are sorted, so that
    nothing that is made of them shows the order in which they were found.

    Attributes:
        counts: of each word, above 0; noisy where private text was counted.
        origin: where they come from, in words.

    Raises:
        InputError: for a count that is not above 0 or not finite.
    """

    counts: Mapping[str, float]
    origin: str

    def __post_init__(self) -> None:
        for word, count in self.counts.items():
            if not (count > 0.0 and math.isfinite(count)):
                raise InputError(f"the count of the word {word!r} is {count}: it must be above 0")
        object.__setattr__(self, "counts", dict(sorted(self.counts.items())))

    def texts(self, most: int = MOST_TEXTS) -> list[str]:
        """Every word as often as its count says, each time as a text of its own, in order.

        Trainers of tokenizers take texts and no counts. Counts are rounded to whole numbers, 1 at
        least, and scaled down where they add up to more than `most`.
        """
        total = math.fsum(self.counts.values())
        scale = min(1.0, most / total) if total else 1.0
        found: list[str] = []
        for word, count in self.counts.items():
            found += [word] * max(1, round(scale * count))
        return found
