"""The contract between tasks and training mechanisms: how to turn rows into losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.corpus import Corpus, IntArray
    from uedp_bench.model import Vocabulary
    from uedp_bench.release import Release

Batch = Mapping[str, "Tensor"]
"""Tensors by name, each with rows as its first dimension."""


def row_seeds(rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
    """Seeds of 63 bits, one for each use of a row."""
    seeds: IntArray = rng.integers(2**63 - 1, size=shape)
    return seeds


def on_device(batch: Batch, device: str) -> Batch:
    """The batch with all its tensors there."""
    return {name: value.to(device) for name, value in batch.items()}


class Losses(NamedTuple):
    """Sums of a batch by row: `nats` (rows,) negative log-likelihoods, `targets` (rows,) counts."""

    nats: Tensor
    targets: Tensor


class Learner(Protocol):
    """Something a mechanism can train without knowing the task.

    Attributes:
        module: the network, with its current weights; mechanisms train it in place or copy it.
        vocabulary: None where the task has none.
        private: False for a stage on public data, which is trained without the mechanism and
            emits no events.
        corpus: the rows that `batch` numbers, from 0.
        vectorised: see `LanguageModel.vectorised`.
        row_size: numbers in the largest tensor that one row needs (of a language model, its
            logits): how many rows fit side by side depends on it.
        plan: of a public stage, how it is trained: `epochs`, `batch_size` and `learning_rate`;
            None for the private stage, where the mechanism decides.
    """

    module: nn.Module
    vocabulary: Vocabulary | None
    private: bool
    corpus: Corpus
    vectorised: bool
    row_size: int
    plan: Mapping[str, Any] | None

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """Tensors of these rows, on the CPU.

        What is random about a row (dropout) depends on its own one of the `seeds` (rows,) alone,
        so that it does not matter which rows are computed side by side.
        """
        ...

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Losses of each row; row i depends on row i of the batch and on the module only."""
        ...

    def release(self, module: nn.Module) -> Release:
        """What is released when `module` is."""
        ...


@runtime_checkable
class SplitLearner(Learner, Protocol):
    """A network in two parts: an encoder at the owner of the text, and a head at the server.

    What passes between them is the representation: mechanisms perturb it, attackers see it.
    `losses(module, batch)` is `head_losses(module, encode(module, batch), batch)`.

    Attributes:
        width: d, the size of the representation.
    """

    width: int

    def masked_batch(
        self, rows: Sequence[int] | IntArray, rng: np.random.Generator, rate: float
    ) -> Batch:
        """As `batch`, each word of a text dropped with an independent coin of this rate.

        Coins, and the seeds of the rows, come from `rng`.

        A dropped word becomes the encoder's mask whatever the word was: two texts that differ in a
        dropped word give the same batch.
        """
        ...

    def encode(self, module: nn.Module, batch: Batch) -> Tensor:
        """(rows, d) representations."""
        ...

    def head_losses(self, module: nn.Module, z: Tensor, batch: Batch) -> Losses:
        """Losses of each row given its representation."""
        ...
