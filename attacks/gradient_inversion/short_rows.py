"""Short rows, read word by word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.attacks.gradient_inversion.order import Likeness, likeliest_order, rouge_l
from uedp_bench.corpus import BoolArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.results import Estimate
from uedp_bench.statistics.intervals import fraction_estimate, mean_estimate

if TYPE_CHECKING:
    from uedp_bench.attacks.gradient_inversion.attack import Target
    from uedp_bench.attacks.gradient_inversion.seen_updates import Seen
    from uedp_bench.release import TrainedRelease

_RANDOM = 20  # orders of the same words, for the floor


@dataclass(eq=False)
class ShortRows:
    """Orders of words that were worked out from messages with few of them.

    Attributes:
        release: whose network made the updates.
        target: how it reads rows.
        most: messages to work on.
        words: most different tokens that a message may have.
        orders: tried for a message, about.
        device: torch device.
        rng: of starts and of random orders.
        why: no order was looked for, if none was.
    """

    release: TrainedRelease
    target: Target
    most: int
    words: int
    orders: int
    device: str
    rng: np.random.Generator
    why: str | None = None
    _scores: list[tuple[bool, float, float]] = field(default_factory=list)

    def read(self, seen: Seen, found: BoolArray) -> None:
        """Works out the order of a message, if it is short and comes from one client.

        What counts is the row of the client that is closest: which of its rows it used in the round
        is not written down.
        """
        known, rows = self.target.known, self.target.rows
        if known is None or seen.before is None or len(seen.owners) > 1 or self.why:
            return
        vocabulary = known.vocabulary
        special = (vocabulary.begin, vocabulary.end)
        tokens = [token for token in np.flatnonzero(found).tolist() if token not in special]
        if not 1 < len(tokens) <= self.words or len(self._scores) >= self.most:
            return
        label = None
        if rows.labels is not None and rows.label_names:
            heights = self.target.layers.labels_of(seen.payload)
            label = None if heights is None else (int(heights.argmax()), rows.label_names)
        likeness = Likeness(
            self.release, vocabulary, (seen.before, seen.payload), label, self.device
        )
        try:
            order = likeliest_order(tokens, likeness, self.orders, self.rng)
        except InputError as refused:
            self.why = f"the task reads no texts without what they are annotated with: {refused}"
            return
        self._score(order, [(rows.tokens or ())[row] for row in rows.of(seen.owners[0])])

    def _score(self, order: tuple[int, ...], rows: list[IntArray]) -> None:
        if not rows:
            return
        likes = [rouge_l(order, row.tolist()) for row in rows]
        closest = rows[int(np.argmax(likes))].tolist()
        chance = [rouge_l(self.rng.permutation(order).tolist(), closest) for _ in range(_RANDOM)]
        self._scores.append((list(order) == closest, max(likes), float(np.mean(chance))))

    def metrics(self, rng: np.random.Generator) -> dict[str, Estimate]:
        """Rows that were read word by word, and ROUGE-L beside that of random orders."""
        if not self._scores:
            return {}
        exact, likes, chance = zip(*self._scores, strict=True)
        return {
            "rows_recovered": fraction_estimate(sum(exact), len(exact)),
            "rows_rouge_l": mean_estimate(likes, rng),
            "rows_rouge_l_random": mean_estimate(chance, rng),
        }

    def told(self) -> dict[str, Any]:
        """Details: the number of short messages, or the reason why no order was looked for."""
        return {"short_messages": len(self._scores)} | ({"order": self.why} if self.why else {})
