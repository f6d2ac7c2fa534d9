"""Modules that a network is made of beside PyTorch's own, and sets of them released as one.

A mechanism that trains an ensemble returns a `ModuleSet` from `train`. A task saves and loads its
module through `save_modules` and `load_modules`, which write each module of a set into a folder of
its own, so that a task need not know how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.contracts.model import BringsHead
from uedp_bench.errors import InputError


class Branches(nn.Module):
    """Container that runs its children on one input and joins their outputs along dimension 1.

    Two parties run the branches side by side, in the same rounds.
    """

    def __init__(self, branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, ...) to (rows, the sum of the branches' first dimensions, ...)."""
        return torch.cat([branch(inputs) for branch in self.branches], 1)


class ArgMax(nn.Module):
    """The place of each row's largest logit, the first of equal ones."""

    def forward(self, logits: Tensor) -> Tensor:
        """(rows, classes) to (rows,)."""
        return logits.argmax(-1)


class OutputLayer(NamedTuple):
    """Weights of an output layer: logits are features times `weight`, plus `bias`.

    Attributes:
        weight: (vocabulary, size).
        bias: (vocabulary,), or None.
    """

    weight: Tensor
    bias: Tensor | None


def take_head(encoder: nn.Module, layer: OutputLayer, names: Sequence[str]) -> None:
    """Give a network's last layer the weights that its encoder brings, if it brings any.

    Args:
        encoder: encoder of the network.
        layer: output layer, changed in place; its inputs are the encoder's vectors.
        names: names of the classes, in the order of the layer's outputs.

    Raises:
        InputError: if the encoder's head has other classes or inputs.
    """
    if not isinstance(encoder, BringsHead):
        return
    weight, bias = encoder.head(names)
    if layer.weight.shape != weight.shape or layer.bias is None:
        raise InputError(
            "the model brings the layer on top of its encoder: leave out layers between them "
            "(task.hidden)"
        )
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)


_FOLDER = "module-{}"


class ModuleSet(nn.Module):
    """Modules of one architecture as one module.

    Called as its modules are, it gives log-probabilities: the logarithm of the mean of the
    probabilities that their logits stand for, over the last dimension. Networks in two parts
    (`represent`, `classify`, `width`) keep these: representations stand side by side, and each head
    reads its own.

    Args:
        modules: one at least; they may share weights.

    Raises:
        InputError: if there is none.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        if not modules:
            raise InputError("a ModuleSet needs at least one module")
        self.members = nn.ModuleList(modules)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def forward(self, *args: Any, **names: Any) -> Tensor:
        """Log-probabilities, of the shape of the modules' logits."""
        return _mean([each(*args, **names) for each in self])

    @property
    def width(self) -> int:
        """Numbers of all representations side by side."""
        return sum(_widths(self))

    def represent(self, batch: Any) -> Tensor:
        """(rows, width) representations of all modules side by side."""
        return torch.cat([each.represent(batch) for each in self], dim=-1)  # type: ignore[operator]

    def classify(self, z: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, classes) log-probabilities of representations (rows, width)."""
        parts = torch.split(z, _widths(self), dim=-1)
        logits = [each.classify(part, seeds) for each, part in zip(self, parts, strict=True)]  # type: ignore[operator]
        return _mean(logits)


def modules_of(module: nn.Module) -> tuple[nn.Module, ...]:
    """The modules of a set; a module that is none stands alone."""
    return tuple(module) if isinstance(module, ModuleSet) else (module,)


def save_modules(
    module: nn.Module, folder: Path, save: Callable[[nn.Module, Path], object]
) -> None:
    """Write a module into a folder, or each module of a set into a folder in it.

    Args:
        module: trained module.
        folder: exists.
        save: writes one module into a folder, which exists.
    """
    if not isinstance(module, ModuleSet):
        save(module, folder)
        return
    for number, each in enumerate(module):
        inside = folder / _FOLDER.format(number)
        inside.mkdir(exist_ok=True)
        save(each, inside)


def load_modules(folder: Path, load: Callable[[Path], nn.Module]) -> nn.Module:
    """The module, or the set of modules, that `save_modules` wrote; `load` reads one folder."""
    modules: list[nn.Module] = []
    while (inside := folder / _FOLDER.format(len(modules))).is_dir():
        modules.append(load(inside))
    return ModuleSet(modules) if modules else load(folder)


def _mean(logits: Sequence[Tensor]) -> Tensor:
    logs = torch.stack([torch.log_softmax(each, dim=-1) for each in logits])
    return torch.logsumexp(logs, dim=0) - math.log(len(logits))


def _widths(modules: ModuleSet) -> list[int]:
    return [int(each.width) for each in modules]  # type: ignore[arg-type]
