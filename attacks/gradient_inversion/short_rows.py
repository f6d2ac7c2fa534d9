"""Short rows, read word by word.

The order of the words of a short text: the one whose own update looks most like the one seen.

Orders of few words are all tried; of more, the search moves to the best of all swaps, shifts,
repetitions and removals of a word, from several random starts. The likeness is the cosine of the
two updates, so that learning rates, clipping and numbers of rows do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from uedp_bench.api import SPLITS, BoolArray, Corpus, Estimate, FloatArray, InputError, IntArray
from uedp_bench.api.networks import row_seeds
from uedp_bench.api.statistics import fraction_estimate, mean_estimate

if TYPE_CHECKING:
    from torch import Tensor

    from uedp_bench.api import TrainedRelease
    from uedp_bench.api.networks import Vocabulary
    from uedp_bench.attacks.gradient_inversion.attack import Target
    from uedp_bench.attacks.gradient_inversion.seen_updates import Seen


Order = tuple[int, ...]
"""Token ids, one after the other."""

_NUMBERS_AT_ONCE = 2**25


class Likeness:
    """Compares the update of a text with one that was seen.

    Args:
        release: release whose network computes updates.
        vocabulary: vocabulary of the network.
        update: (d,) weights that it started from, and (d,) how they changed.
        label: label of the text, and names of all labels; None where rows have none.
        device: torch device.

    Attributes:
        evaluations: texts that were tried so far.
    """

    def __init__(
        self,
        release: TrainedRelease,
        vocabulary: Vocabulary,
        update: tuple[NDArray[Any], NDArray[Any]],
        label: tuple[int, tuple[str, ...]] | None,
        device: str,
    ) -> None:
        import torch

        self._release, self._vocabulary, self._label = release, vocabulary, label
        self._device, self.evaluations = device, 0
        before, change = (np.asarray(part, np.float32) for part in update)
        self._before = torch.as_tensor(before, device=device)
        self._change = torch.as_tensor(change, device=device)

    def __call__(self, orders: Sequence[Order]) -> FloatArray:
        """(orders,) cosines with the update that was seen."""
        self.evaluations += len(orders)
        size = max(1, _NUMBERS_AT_ONCE // len(self._change))
        parts = [self._cosines(orders[at : at + size]) for at in range(0, len(orders), size)]
        return np.concatenate(parts)

    def _cosines(self, orders: Sequence[Order]) -> FloatArray:
        import torch

        updates = self._updates(orders)
        lengths = torch.linalg.vector_norm(updates, dim=1) * torch.linalg.vector_norm(self._change)
        cosines = updates @ self._change / lengths.clamp(min=1e-30)
        likeness: FloatArray = cosines.double().cpu().numpy()
        return likeness

    def _updates(self, orders: Sequence[Order]) -> Tensor:
        """(orders, d) what a client with one of these rows sends after one step."""
        from uedp_bench.api.training import LocalTraining
        from uedp_bench.training.sampling import Cohort

        learner = self._release.learner(self._corpus(orders))
        trainer = LocalTraining().trainer(learner, self._device)
        trainer.flat.module.eval()  # masks of dropout are the client's secret
        rows = np.arange(len(orders))[:, None]
        seeds = row_seeds(np.random.default_rng(0), (1, *rows.shape))
        return trainer.updates(self._before, Cohort(rows, np.ones(rows.shape), None, seeds))

    def _corpus(self, orders: Sequence[Order]) -> Corpus:
        count = len(orders)
        label, names = self._label or (-1, ())
        return Corpus(
            texts=tuple(self._vocabulary.decode(order) for order in orders),
            groups={"user": np.zeros(count, dtype=np.int64)},
            split=np.full(count, SPLITS.index("train"), dtype=np.int64),
            labels=None if self._label is None else np.full(count, label, dtype=np.int64),
            label_names=names,
        )


def likeliest_order(
    tokens: Sequence[int], likeness: Likeness, budget: int, rng: np.random.Generator
) -> Order:
    """The order of these tokens that looks most like the update, as far as it was looked for.

    Args:
        tokens: different ones; each is in the order at least once.
        likeness: likeness of orders to the update.
        budget: orders to try, about.
        rng: draws where the search starts.
    """
    if len(tokens) < 2:
        return tuple(tokens)
    best, best_height = tuple(tokens), -math.inf
    if math.factorial(len(tokens)) <= budget:
        every = list(permutations(tokens))
        cosines = likeness(every)
        return _climbed(every[int(cosines.argmax())], float(cosines.max()), likeness, budget)[0]
    while likeness.evaluations < budget:
        starts = [tuple(rng.permutation(tokens).tolist()) for _ in range(32)]
        cosines = likeness(starts)
        at = int(cosines.argmax())
        order, height = _climbed(starts[at], float(cosines[at]), likeness, budget)
        if height > best_height:
            best, best_height = order, height
    return best


def _climbed(order: Order, height: float, likeness: Likeness, budget: int) -> tuple[Order, float]:
    """The end of a walk that takes the best move as long as there is a better one."""
    while likeness.evaluations < 2 * budget:
        near = list(islice(_moves(order), 4 * budget))
        cosines = likeness(near)
        if cosines.max() <= height:
            break
        order, height = near[int(cosines.argmax())], float(cosines.max())
    return order, height


def _moves(order: Order) -> Iterator[Order]:
    """Orders that differ by a swap, a shift, one more of a token, or one less of a repeated one."""
    length = len(order)
    for i in range(length):
        rest = order[:i] + order[i + 1 :]
        if order[i] in rest:
            yield rest
        for j in range(length):
            if j != i:
                yield (*rest[:j], order[i], *rest[j:])
            if j > i + 1:
                yield (*order[:i], order[j], *order[i + 1 : j], order[i], *order[j + 1 :])
            yield (*order[: j + 1], order[i], *order[j + 1 :])


def rouge_l(guess: Sequence[int], true: Sequence[int]) -> float:
    """F1 of the longest common subsequence (Lin 2004), as attacks on gradients report it."""
    return 2.0 * LCSseq.similarity(guess, true) / max(len(guess) + len(true), 1)


_RANDOM = 20  # orders of the same words, for the floor


@dataclass(eq=False)
class ShortRows:
    """Orders of words that were worked out from messages with few of them.

    Attributes:
        release: release whose network made the updates.
        target: its reading of rows.
        most: messages to work on.
        words: most different tokens that a message may have.
        orders: tried for a message, about.
        device: torch device.
        rng: random generator for starts and random orders.
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

    def read(self, seen: Seen, in_text: BoolArray) -> None:
        """Works out the order of a message, if it is short and comes from one client.

        An order is compared with the closest row of the client, a random one too: which of its
        rows the client used in the round is not written down.
        """
        public, rows = self.target.public, self.target.rows
        if public is None or seen.before is None or len(seen.owners) > 1 or self.why:
            return
        vocabulary = public.vocabulary
        special = (vocabulary.begin, vocabulary.end)
        tokens = [token for token in np.flatnonzero(in_text).tolist() if token not in special]
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
        self._score(order, [(rows.tokens or ())[row] for row in rows.rows_of(seen.owners[0])])

    def _score(self, order: tuple[int, ...], rows: list[IntArray]) -> None:
        if not rows:
            return
        texts = [row.tolist() for row in rows]

        def closeness(guess: Sequence[int]) -> float:
            return max(rouge_l(guess, text) for text in texts)

        chance = [closeness(self.rng.permutation(order).tolist()) for _ in range(_RANDOM)]
        self._scores.append((list(order) in texts, closeness(order), float(np.mean(chance))))

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

    def details(self) -> dict[str, Any]:
        """Details: the number of short messages, or the reason why no order was looked for."""
        return {"short_messages": len(self._scores)} | ({"order": self.why} if self.why else {})
