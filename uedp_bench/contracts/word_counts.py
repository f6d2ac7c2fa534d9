"""Words that may be seen, with counts, from a vocabulary mechanism to a task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from uedp_bench.errors import InputError

MOST_TEXTS = 1_000_000
"""Approximate most texts of `WordCounts.texts`; larger counts are scaled down to it."""


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Words with their counts, as a vocabulary mechanism chose them.

    Everybody may see them: events hold the cost of the choice. They are sorted, so that nothing
    that is made of them shows the order of rows.

    Attributes:
        counts: count of each word, above 0; noisy where private text was counted.
        origin: origin in words.

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
        """Repeat every word by its count, each time as a text of its own, in order.

        Trainers of tokenizers take texts and no counts. Counts are rounded to whole numbers, 1 at
        least, and scaled down where they add up to more than `most`.
        """
        total = math.fsum(self.counts.values())
        scale = min(1.0, most / total) if total else 1.0
        texts: list[str] = []
        for word, count in self.counts.items():
            texts += [word] * max(1, round(scale * count))
        return texts
