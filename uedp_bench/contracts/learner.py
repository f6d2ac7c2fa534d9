"""Contract between tasks and training mechanisms: rows in, losses out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from uedp_bench.contracts.release import Release
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray
from uedp_bench.errors import CapabilityError, InputError, PluginError, UedpBenchError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from uedp_bench.contracts.capabilities import Vocabulary

Batch = Mapping[str, "Tensor"]
"""Tensors by name, each with rows as its first dimension."""

Role = Literal["public", "private", "downstream"]
"""Role of a stage: its trainer and its rows.

* `public`: plainly, on rows that are declared public (the split `public`).
* `private`: the mechanism, on rows that it protects. Only these stages emit events.
* `downstream`: plainly, on rows of the task's second source, which no guarantee speaks of.
"""

Rows = Literal["source", "downstream"]
"""Rows that a stage trains on: the run's own, or those of the task's second source."""


@dataclass(frozen=True)
class Schedule:
    """Ordinary training: epochs of shuffled minibatches on the mean loss a target.

    Attributes:
        epochs: passes over the rows.
        batch_size: rows a step.
        learning_rate: learning rate of `optimizer`.
        weight_decay: decoupled for "adamw", added to the gradient for "sgd".
        optimizer: optimizer of torch.
        momentum: momentum of "sgd".
        order: "shuffled": every epoch shuffles all rows; "by-user": it shuffles users, and each
            user's rows, which come one after the other.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    optimizer: Literal["adamw", "sgd"] = "adamw"
    momentum: float = 0.0
    order: Literal["shuffled", "by-user"] = "shuffled"

    def recorded(self) -> dict[str, Any]:
        """Fields as results hold them, without those at their default."""
        defaults = {field.name: field.default for field in fields(self)}
        return {n: value for n, value in asdict(self).items() if value != defaults[n]}


def row_seeds(rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
    """Seeds of 63 bits, one for each use of a row."""
    return rng.integers(2**63 - 1, size=shape)


EXAMPLE_LENGTHS = (1, 3, 7, 12)


def example_ids(size: int, longest: int | None = None) -> list[list[int]]:
    """Made-up rows of token ids for `Learner.example_batch`, the same at every call.

    Args:
        size: size of the vocabulary; ids are below it.
        longest: most ids of a row; None for no limit.
    """
    rng = np.random.default_rng(0)
    lengths = [max(1, min(length, longest or length)) for length in EXAMPLE_LENGTHS]
    return [rng.integers(size, size=length).tolist() for length in lengths]


def on_device(batch: Batch, device: str) -> Batch:
    """Move all tensors of a batch to a device."""
    return {name: value.to(device) for name, value in batch.items()}


class Losses(NamedTuple):
    """Sums of a batch by row: `nats` (rows,) negative log-likelihoods, `targets` (rows,) counts."""

    nats: Tensor
    targets: Tensor


LENGTHS_AT_ONCE = 4096
"""Rows of a file whose lengths are computed together."""


class LengthsOnDemand:
    """Lengths of rows that stay in a file: each is computed once, on first use.

    Args:
        rows: number of rows.
        longest: length of the longest of the rows that were looked at.
        find: function from (n,) different rows to their (n,) lengths.
    """

    def __init__(self, rows: int, longest: int, find: Callable[[IntArray], IntArray]) -> None:
        self._lengths = np.full(rows, -1, dtype=np.int32)
        self._longest, self._find = longest, find

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, rows: IntArray) -> IntArray:
        """Return lengths in the shape of the row numbers."""
        new = np.unique(rows[self._lengths[rows] < 0])
        for first in range(0, len(new), LENGTHS_AT_ONCE):
            part = new[first : first + LENGTHS_AT_ONCE]
            self._lengths[part] = self._find(part)
        return self._lengths[rows].astype(np.int64)

    def max(self, initial: int = 0) -> int:
        """Length of the longest row that was looked at; `initial` if it is more.

        An array of all lengths has the same method.
        """
        return max(self._longest, initial)


RowLengths: TypeAlias = "IntArray | LengthsOnDemand"
"""(rows,) lengths by number of the row."""


def take_over(target: nn.Module, source: nn.Module, part: str = "") -> None:
    """Copy the weights of `source` to the weights of the same names in `target`.

    Args:
        target: network that changes in place; weights outside the part stay as they are.
        source: network with weights of the same names and shapes in the part.
        part: dotted name of a submodule that both have ("encoder"); all weights by default.

    Raises:
        CapabilityError: if there is no such part, or names or shapes differ; names the weight.
    """
    weights = list[dict[str, Any]]()
    for which, module in (("stage", target), ("stage before", source)):
        try:
            weights.append(module.get_submodule(part).state_dict(prefix=f"{part}." if part else ""))
        except AttributeError:
            raise CapabilityError(
                f"the stages share the part {part!r}, and the network of the {which} has none"
            ) from None
    new, old = weights
    for name in dict.fromkeys([*new, *old]):
        if name not in new or name not in old:
            raise CapabilityError(
                f"the weight {name} is in the network of the stage"
                f"{'' if name in new else ' before'} alone: take over a part that both have"
            )
        if new[name].shape != old[name].shape:
            raise CapabilityError(
                f"the weight {name} has the shape {tuple(new[name].shape)}, and "
                f"{tuple(old[name].shape)} in the stage before"
            )
    target.get_submodule(part).load_state_dict(source.get_submodule(part).state_dict())


class Learner(Protocol):
    """Something a mechanism can train without knowing the task; derive from it.

    Attributes:
        module: the network, with its current weights; mechanisms train it in place or copy it.
        vocabulary: None where the task has none.
        role: role of its stage.
        schedule: schedule of a public or downstream stage; None if the mechanism decides.
        corpus: the rows that `batch` numbers, from 0.
        vectorised: see `LanguageModel.vectorised`.
        row_size: numbers in the largest tensor that one row needs (of a language model, its
            logits): how many rows fit side by side depends on it.
        row_lengths: (rows,) tokens of each row, where rows of similar length are to be computed
            side by side, because the time of a batch is that of its longest row; None where they
            are not. It decides about speed, never about what is private. Where rows stay in a
            file, lengths are computed on first use.
    """

    module: nn.Module
    vocabulary: Vocabulary | None = None
    role: Role = "private"
    schedule: Schedule | None = None
    corpus: Corpus
    vectorised: bool
    row_size: int
    row_lengths: RowLengths | None = None

    def start_from(self, module: nn.Module) -> None:
        """Take over the weights that the network shares with the one of the stage before.

        By default that is every weight, and the two must have the same names and shapes. A learner
        with a head of its own takes over a part, `take_over(self.module, module, "encoder")`, and
        keeps the initial weights of its head.

        Raises:
            CapabilityError: naming the weight that does not fit.
        """
        take_over(self.module, module)

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """Make tensors of these rows, on the CPU.

        Token ids that the network looks up are called `tokens` (rows, length); the vocabulary's
        `end` fills them up.

        Randomness of a row (dropout) depends on its own one of the `seeds` (rows,) alone, so that
        it does not matter which rows are computed side by side.
        """
        ...

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Losses of each row; row i depends on row i of the batch and on the module only.

        The weights that a network uses for a row, and the operations, must not depend on the
        content of the row; on its length they may (`docs/proofs.md`, section 14).
        """
        ...

    def example_batch(self) -> Batch | None:
        """Made-up rows in the form of `batch`, no number of which comes from the corpus' rows.

        They are different, of different lengths, and the same at every call: token
        ids drawn with a fixed seed (`example_ids`). The engine computes them before
        any row of the corpus, to see whether gradients of this network can be clipped in one
        backward pass. With None, the default, they are not: units are clipped update by update,
        which is slower.
        """
        return None

    def release(self, module: nn.Module) -> Release:
        """Make the release of `module`.

        Derive it from `TrainedRelease`, so that attacks reach it by the losses of its rows.
        """
        ...


@runtime_checkable
class SplitLearner(Learner, Protocol):
    """A network in two parts: an encoder at the owner of the text, and a head at the server.

    What passes between them is the representation: mechanisms perturb it, attackers see it.
    `losses(module, batch)` is `head_losses(module, encode(module, batch), batch)`.

    Attributes:
        width: d, the size of the representation.
        target: attribute that the labels are of: "label", or the name of an attribute.
    """

    width: int
    target: str = "label"

    def masked_batch(
        self, rows: Sequence[int] | IntArray, rng: np.random.Generator, rate: float
    ) -> Batch:
        """Make a batch as `batch` does, with each word dropped by an independent coin of this rate.

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


# ----------------------------------------------------------------------------------- losses of rows


_TIMES_ON_A_GPU = 2**3
"""A GPU has no cache to stay in, and idles between calls. GPT-2 small takes 10 GB at that."""


def numbers_per_call(numbers: int, device: torch.device | str) -> int:
    """Numbers that one call computes on, where a call on a CPU computes on `numbers`.

    The kind of the device alone decides, so that all processes of a run agree.
    """
    return numbers if str(device).startswith("cpu") else _TIMES_ON_A_GPU * numbers


_NUMBERS_AT_ONCE = 2**23
"""Numbers in the largest tensor of one batch (32 MB), by `Learner.row_size`."""

_ROWS_AT_ONCE = 512

_ROUNDING = 1e-5
"""Nats below 0 that are rounding."""


def row_losses(learner: Learner, rows: int) -> FloatArray:
    """(rows,) mean nats of each row's predictions, under the module in evaluation mode.

    Args:
        learner: learner of these rows.
        rows: number of rows that it should have.

    Raises:
        PluginError: if the learner has other rows, or losses that are not one a row and at least 0.
    """
    if len(learner.corpus) != rows:
        raise PluginError(
            f"{type(learner).__name__} keeps {len(learner.corpus)} of {rows} rows, and one loss a "
            "row was asked for: say in `scorable` which rows have none"
        )
    import torch

    out = np.empty(rows)
    with torch.no_grad():
        for chosen, batch in batches_of(learner):
            out[chosen] = _losses(learner, chosen, batch)
    if (out < -_ROUNDING).any():
        raise PluginError(
            f"{type(learner).__name__}.losses gives {out.min():.3g} nats for a row: losses are at "
            "least 0, and 0 for a perfect prediction"
        )
    return np.maximum(out, 0.0)


def batches_of(learner: Learner) -> Iterator[tuple[IntArray, Batch]]:
    """Yield numbers of some rows and their batch on the device, until all rows are done.

    The module is put into evaluation mode.
    """
    device = str(next((weight.device for weight in learner.module.parameters()), "cpu"))
    numbers = numbers_per_call(_NUMBERS_AT_ONCE, device)
    size = max(1, min(_ROWS_AT_ONCE, numbers // max(learner.row_size, 1)))
    learner.module.eval()
    for start in range(0, len(learner.corpus), size):
        rows = np.arange(start, min(start + size, len(learner.corpus)))
        # No dropout in evaluation mode. Other draws of a learner (tokens that it hides) come from
        # the seed 0, so that every call gives the same losses.
        yield rows, on_device(learner.batch(rows, np.zeros_like(rows)), device)


def _losses(learner: Learner, chosen: IntArray, batch: Batch) -> FloatArray:
    """(rows,) mean nats of some rows."""
    losses = learner.losses(learner.module, batch)
    nats: FloatArray = (losses.nats.double() / losses.targets.double().clamp(min=1)).cpu().numpy()
    if nats.shape != chosen.shape:
        raise PluginError(
            f"{type(learner).__name__}.losses gives nats of shape {nats.shape} for "
            f"{len(chosen)} rows"
        )
    return nats


class TrainedRelease(Release, ABC):
    """Base of releases of a trained module: they are `RowScorer`s, whatever the task is.

    A task says how its learner reads other rows; the losses are those of `Learner.losses`.
    """

    @abstractmethod
    def learner(self, corpus: Corpus) -> Learner:
        """Make the learner of other rows, in their order, with the released module as its own."""

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `RowScorer`; all rows, unless a task says otherwise."""
        return np.ones(len(corpus), dtype=bool)

    def row_losses(self, corpus: Corpus) -> FloatArray:
        """See `RowScorer`.

        Raises:
            InputError: for a row that is not `scorable`.
            UedpBenchError: if a loss is NaN.
        """
        refused = np.flatnonzero(~self.scorable(corpus))
        if len(refused):
            raise InputError(
                f"row_losses: {len(refused)} of {len(corpus)} rows have nothing that "
                f"{type(self).__name__} predicts, first row {refused[0]}; `scorable` says which"
            )
        if not len(corpus):
            return np.empty(0)
        losses = row_losses(self.learner(corpus), len(corpus))
        if np.isnan(losses).any():
            raise UedpBenchError(
                f"the loss of row {int(np.isnan(losses).argmax())} is NaN: the weights are not "
                "finite"
            )
        return losses
