"""Releases behind a mechanism that answers for them, and what such a mechanism needs of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uedp_bench.components.component import named
from uedp_bench.contracts.capabilities import capability
from uedp_bench.contracts.release import Release
from uedp_bench.corpus import Corpus

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.contracts.mechanism import ServingMechanism

SERVED = "served.json"
"""File beside those of the release behind; it names the mechanism and its parameters."""


class PlainNetwork(NamedTuple):
    """A classifier as plain layers, behind what everybody may compute.

    Attributes:
        layers: from an input to one logit for each class, without anything that is drawn.
        input_shape: of one row of what they read.
        read: (rows, *input_shape) float32 on the CPU, of rows of a corpus. Nothing that was trained
            on private rows is in it: the owner of a text computes it alone.
    """

    layers: nn.Sequential
    input_shape: tuple[int, ...]
    read: Callable[[Corpus], Tensor]


@runtime_checkable
class Compilable(Protocol):
    """Shows what it computes as plain layers, which a protocol between parties can compute."""

    def network(self) -> PlainNetwork:
        """The layers, and what they read.

        Raises:
            CapabilityError: if what was trained on private rows is more than plain layers.
        """
        ...


@capability(None)
@runtime_checkable
class OpenedMessages(Protocol):
    """Two parties compute its answers by a protocol, which can be watched as one of them sees it.

    Parties are "server", who has the model, and "client", who has the text.
    """

    def opened(
        self,
        corpus: Corpus,
        *,
        party: Literal["server", "client"],
        most: int,
        randomness: bool = False,
    ) -> NDArray[np.uint8]:
        """(rows, at most `most`) bytes that a party sees opened, without the answer.

        Each row is computed on by itself, with fresh randomness, also where rows are equal. Bytes
        are at the same places of every row's messages, evenly spread.

        Args:
            corpus: the rows.
            party: whose view it is.
            most: bytes of a row.
            randomness: one half of the bytes is of the party's own random numbers, of what a dealer
                sent to it, and of opened values without its own share of their masks.
        """
        ...


class ServedRelease(Release):
    """Base of releases that are asked through a protocol, and offer less than what stands behind.

    What is saved is the release behind and the parameters of the mechanism, never its randomness:
    loaded again, the mechanism draws anew (`ServingMechanism.serve_again`).

    Args:
        behind: what the mechanism was given; no adversary sees it.
        mechanism: that answers.
    """

    def __init__(self, behind: Release, mechanism: ServingMechanism[Any]) -> None:
        self.behind, self.mechanism = behind, mechanism
        self.events, self.target = behind.events, behind.target
        self.classes, self.takes_vectors = behind.classes, behind.takes_vectors

    def save(self, folder: Path) -> None:
        """See `Release`."""
        self.behind.save(folder)
        told = json.dumps(named(self.mechanism), indent=1)
        (folder / SERVED).write_text(told, encoding="utf-8")


def served_again(release: Release, folder: Path) -> Release:
    """A release that was loaded from a folder, behind the mechanism that it names, if any."""
    if not (folder / SERVED).is_file():
        return release
    from uedp_bench.components.registry import mechanisms

    told = json.loads((folder / SERVED).read_text(encoding="utf-8"))
    mechanism: ServingMechanism[Any] = mechanisms.create(told["name"], told["params"])
    return mechanism.serve_again(release)
