"""The order of the words of a short text: the one whose own update looks most like the one seen.

Orders of few words are all tried; of more, the search moves to the best of all swaps, shifts,
repetitions and removals of a word, from several random starts. The likeness is the cosine of the
two updates, so that learning rates, clipping and numbers of rows do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.corpus import SPLITS, Corpus, FloatArray
from uedp_bench.learner import row_seeds

if TYPE_CHECKING:
    from torch import Tensor

    from uedp_bench.model import Vocabulary
    from uedp_bench.release import TrainedRelease

Order = tuple[int, ...]
"""Token ids, one after the other."""

_NUMBERS_AT_ONCE = 2**25


class Likeness:
    """Compares the update of a text with one that was seen.

    Args:
        release: whose network computes updates.
        vocabulary: of the network.
        update: (d,) weights that it started from, and (d,) how they changed.
        label: of the text, and names of all labels; None where rows have none.
        device: torch device.

    Attributes:
        asked: texts that were tried so far.
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
        self._device, self.asked = device, 0
        before, change = (np.asarray(part, np.float32) for part in update)
        self._before = torch.as_tensor(before, device=device)
        self._change = torch.as_tensor(change, device=device)

    def __call__(self, orders: Sequence[Order]) -> FloatArray:
        """(orders,) cosines with the update that was seen."""
        self.asked += len(orders)
        size = max(1, _NUMBERS_AT_ONCE // len(self._change))
        parts = [self._cosines(orders[at : at + size]) for at in range(0, len(orders), size)]
        return np.concatenate(parts)

    def _cosines(self, orders: Sequence[Order]) -> FloatArray:
        import torch

        updates = self._updates(orders)
        lengths = torch.linalg.vector_norm(updates, dim=1) * torch.linalg.vector_norm(self._change)
        cosines = updates @ self._change / lengths.clamp(min=1e-30)
        found: FloatArray = cosines.double().cpu().numpy()
        return found

    def _updates(self, orders: Sequence[Order]) -> Tensor:
        """(orders, d) what a client with one of these rows sends after one step."""
        from uedp_bench.training.cohort import Cohort
        from uedp_bench.training.local import LocalTraining

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
        likeness: of orders to the update.
        budget: orders to try, about.
        rng: draws where the search starts.
    """
    if len(tokens) < 2:
        return tuple(tokens)
    best, found = tuple(tokens), -math.inf
    if math.factorial(len(tokens)) <= budget:
        every = list(permutations(tokens))
        cosines = likeness(every)
        start = every[int(cosines.argmax())]
        return _climbed(start, float(cosines.max()), likeness, budget)[0]
    while likeness.asked < budget:
        starts = [tuple(rng.permutation(tokens).tolist()) for _ in range(32)]
        cosines = likeness(starts)
        at = int(cosines.argmax())
        order, height = _climbed(starts[at], float(cosines[at]), likeness, budget)
        if height > found:
            best, found = order, height
    return best


def _climbed(order: Order, height: float, likeness: Likeness, budget: int) -> tuple[Order, float]:
    """The end of a walk that takes the best move as long as there is a better one."""
    while likeness.asked < 2 * budget:
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


def rouge_l(found: Sequence[int], true: Sequence[int]) -> float:
    """F1 of the longest common subsequence (Lin 2004), as attacks on gradients report it."""
    if not len(found) or not len(true):
        return 0.0
    longest = np.zeros(len(true) + 1, dtype=np.int64)
    for token in found:
        before = longest.copy()
        for at, other in enumerate(true):
            longest[at + 1] = before[at] + 1 if token == other else max(longest[at], before[at + 1])
    return float(2.0 * longest[-1] / (len(found) + len(true)))
