"""Releases that show by how much training moved their weights: what audits of updates look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uedp_bench.release import Release

if TYPE_CHECKING:
    from torch import nn

_FILE = "update.npy"
"""File of a saved release that holds the change of its weights."""


class ShowsUpdate(Release):
    """A release that is `Updates` as well: initial weights are public, so their change is released.

    Derive from it and from the release's own class, in this order.

    Args:
        release: the trained model.
        update: (d,) by how much its trainable weights moved.
    """

    def __init__(self, release: Release, update: NDArray[np.float32]) -> None:
        self.__dict__.update(vars(release))
        self._update = update

    def update(self) -> NDArray[np.float32]:
        """See `Updates`."""
        return self._update

    def save(self, folder: Path) -> None:
        """Writes the release, and the update beside it."""
        super().save(folder)
        np.save(folder / _FILE, self._update)


def saved_update(folder: Path) -> NDArray[np.float32] | None:
    """The update of a saved release; None for one that shows none."""
    file = folder / _FILE
    return np.load(file, allow_pickle=False) if file.is_file() else None


def difference(trained: nn.Module, initial: nn.Module) -> NDArray[np.float32]:
    """(d,) trained minus initial weights, in the order of the trainable parameters."""
    before = dict(initial.named_parameters())
    parts = [
        (after.detach().cpu().double() - before[name].detach().cpu().double()).reshape(-1)
        for name, after in trained.named_parameters()
        if after.requires_grad
    ]
    return np.concatenate([part.numpy().astype(np.float32) for part in parts])
