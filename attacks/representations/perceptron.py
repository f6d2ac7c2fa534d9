"""Released representations with the truth about their rows, and the perceptron that learns it."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import Corpus, FloatArray, InputError, IntArray, Params
from uedp_bench.api.capabilities import Encoder, protected_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from uedp_bench.api import Run

BLOCK = 4096
"""Rows that are scored at once: bounds memory, not results."""


class PerceptronParams(Params):
    """Parameters of the adversary's classifier."""

    hidden: int = Field(
        default=512, ge=0, description="ReLU units of the hidden layer; 0 for a linear classifier"
    )
    epochs: int = Field(default=50, ge=1, description="passes over the train split, at most")
    patience: int = Field(
        default=5, ge=1, description="stop after this many epochs without a better valid loss"
    )
    batch_size: int = Field(default=128, ge=1, description="rows of one step")
    learning_rate: float = Field(default=1e-3, gt=0.0, description="learning rate of Adam")
    train_rows: int | None = Field(
        default=None,
        ge=1,
        description="released training rows whose truth the attacker knows, drawn uniformly; all "
        "of them by default",
    )


class Examples(NamedTuple):
    """Inputs and targets of training.

    Attributes:
        inputs: (rows, d).
        targets: (rows,) classes, or a sparse (rows, labels) matrix of zeros and ones.
    """

    inputs: FloatArray
    targets: Any


@dataclass(frozen=True)
class Perceptron:
    """A fitted classifier.

    Attributes:
        module: from standardised inputs to logits.
        mean, scale: (d,) of the standardisation.
        device: torch device name.
        losses: valid loss (nats a row) after each epoch; the first is that of the prior.
        prior: (classes or labels,) logits without any input.
    """

    module: nn.Module
    mean: FloatArray
    scale: FloatArray
    device: str
    losses: tuple[float, ...]
    prior: FloatArray

    @property
    def epoch(self) -> int:
        """The epoch whose weights these are; 0 is the prior, which no epoch improved on."""
        return int(np.argmin(self.losses))

    def logits(self, inputs: FloatArray) -> FloatArray:
        """(rows, classes or labels)."""
        import torch

        values = _tensor((inputs - self.mean) / self.scale, self.device)
        with torch.no_grad():
            parts = [self.module(values[rows]).cpu() for rows in blocks(len(values))]
        return torch.cat(parts).double().numpy()


def blocks(rows: int) -> Iterator[slice]:
    """Slices of at most `BLOCK` rows."""
    return (slice(start, start + BLOCK) for start in range(0, rows, BLOCK))


def fit(
    examples: tuple[Examples, Examples],
    prior: FloatArray,
    params: PerceptronParams,
    run: Run,
    use: str,
) -> Perceptron:
    """Trains with Adam; keeps the weights with the best loss on `valid`.

    Training starts from the prior: output weights are 0 and output biases are the logits of
    `prior`. It is one of the states to choose from, so that an attacker who learns nothing decides
    as one who saw nothing, and not worse. Inputs are standardised by the train split.

    Args:
        examples: of the train and of the valid split, with classes (cross-entropy) or with sets
            of labels (a cross-entropy each).
        prior: (classes or labels,) logits without any input.
        params: parameters of the network and its training.
        run: device and seed; equal seeds give equal weights.
        use: names the random numbers.

    Raises:
        InputError: if the loss is not finite after an epoch.
    """
    import torch

    train, valid = examples
    generator = torch.Generator().manual_seed(run.shared_seed("perceptron", use))
    module = _network(train.inputs.shape[1], prior, params.hidden, generator).to(run.device)
    mean, scale = train.inputs.mean(axis=0), train.inputs.std(axis=0)
    # A coordinate without variance says nothing; rounding must not blow it up.
    scale[scale <= 1e-12 * np.maximum(1.0, np.abs(mean))] = math.inf
    inputs, held = (_tensor((x.inputs - mean) / scale, run.device) for x in (train, valid))
    optimiser = torch.optim.Adam(module.parameters(), lr=params.learning_rate)
    losses = [_mean_loss(module, held, valid.targets)]
    best = copy.deepcopy(module.state_dict())
    for epoch in range(1, params.epochs + 1):
        order = torch.randperm(len(inputs), generator=generator).numpy()
        for start in range(0, len(order), params.batch_size):
            rows = order[start : start + params.batch_size]
            optimiser.zero_grad()
            _loss(module(inputs[rows]), train.targets[rows]).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        losses.append(_mean_loss(module, held, valid.targets))
        if not math.isfinite(losses[-1]):
            raise InputError(
                f"the attacker's valid loss is {losses[-1]} after epoch {epoch}: lower "
                f"learning_rate, which is {params.learning_rate}"
            )
        if losses[-1] < min(losses[:-1]):
            best = copy.deepcopy(module.state_dict())
        if epoch - int(np.argmin(losses)) >= params.patience:
            break
    module.load_state_dict(best)
    return Perceptron(module, mean, scale, run.device, tuple(losses), prior)


def _network(width: int, prior: FloatArray, hidden: int, generator: torch.Generator) -> nn.Module:
    import torch
    from torch import nn

    # Without torch's own initial weights, which it would draw from its global generator.
    output = nn.Linear(hidden or width, len(prior), device="meta").to_empty(device="cpu")
    with torch.no_grad():
        output.weight.zero_()
        output.bias.copy_(torch.from_numpy(prior))
        if not hidden:
            return output
        first = nn.Linear(width, hidden, device="meta").to_empty(device="cpu")
        bound = 1.0 / math.sqrt(width)
        first.weight.uniform_(-bound, bound, generator=generator)
        first.bias.uniform_(-bound, bound, generator=generator)
    return nn.Sequential(first, nn.ReLU(), output)


def _tensor(values: FloatArray, device: str) -> Tensor:
    import torch

    return torch.from_numpy(values.astype(np.float32)).to(device)


def _loss(logits: Tensor, targets: Any) -> Tensor:
    """(rows,) nats."""
    import torch
    from torch.nn import functional

    if isinstance(targets, np.ndarray):
        classes: IntArray = targets
        class_tensor = torch.from_numpy(classes).to(logits.device)
        return functional.cross_entropy(logits, class_tensor, reduction="none")
    present = torch.from_numpy(targets.toarray()).to(logits.device, logits.dtype)
    return functional.binary_cross_entropy_with_logits(logits, present, reduction="none").sum(1)


def _mean_loss(module: nn.Module, inputs: Tensor, targets: Any) -> float:
    import torch

    with torch.no_grad():
        parts = [
            float(_loss(module(inputs[rows]), targets[rows]).sum()) for rows in blocks(len(inputs))
        ]
    return sum(parts) / len(inputs)


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
    # Protected rows are represented where inputs are protected as well.
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
