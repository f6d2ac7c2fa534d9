"""Where runs on other machines leave word of how far they are."""

from __future__ import annotations

from typing import Any

_MOST = 100_000


class Mailbox:
    """Words of all runs of a grid, until they are taken."""

    def __init__(self) -> None:
        self._words: list[tuple[tuple[str, int], Any]] = []

    def tell(self, address: tuple[str, int], told: Any) -> None:
        """Leaves a word; the oldest are forgotten where nobody takes them.

        Args:
            address: id of the run, and number of the attempt.
            told: by the run.
        """
        self._words.append((address, told))
        del self._words[:-_MOST]

    def take(self) -> list[tuple[tuple[str, int], Any]]:
        """All words since the last time."""
        words, self._words = self._words, []
        return words
