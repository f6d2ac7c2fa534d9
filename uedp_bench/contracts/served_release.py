"""Releases behind a mechanism that answers for them, and the protocols that it needs."""

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
    """A classifier as plain layers, with their public inputs.

    Attributes:
        layers: layers from an input to one logit for each class, without random draws.
        input_shape: shape of one row of the input.
        read: function from a corpus to inputs (rows, *input_shape), float32 on the CPU. Nothing
            that was trained on private rows is in it: the owner of a text computes it alone.
    """

    layers: nn.Sequential
    input_shape: tuple[int, ...]
    read: Callable[[Corpus], Tensor]


@runtime_checkable
class Compilable(Protocol):
    """Release of plain layers, which a protocol between parties can compute."""

    def network(self) -> PlainNetwork:
        """Return the layers and their inputs.

        Raises:
            CapabilityError: if more than plain layers was trained on private rows.
        """
        ...


@capability(None)
@runtime_checkable
class OpenedMessages(Protocol):
    """Release whose answers two parties compute by a protocol, which one of them can watch.

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
            party: party of the view.
            most: most bytes of a row.
            randomness: True if one half of the bytes is of the party's own random numbers, of
                messages of a dealer, and of opened values without its own share of their masks.
        """
        ...


class ServedRelease(Release):
    """Base of releases behind a protocol, which offer less than the release behind.

    The release behind and the parameters of the mechanism are saved, never its randomness: loaded
    again, the mechanism draws anew (`ServingMechanism.serve_again`).

    Args:
        behind: release before the mechanism; no adversary sees it.
        mechanism: mechanism that answers.
    """

    def __init__(self, behind: Release, mechanism: ServingMechanism[Any]) -> None:
        self.behind, self.mechanism = behind, mechanism
        self.events, self.target = behind.events, behind.target
        self.classes, self.takes_vectors = behind.classes, behind.takes_vectors

    def save(self, folder: Path) -> None:
        """See `Release`."""
        self.behind.save(folder)
        text = json.dumps(named(self.mechanism), indent=1)
        (folder / SERVED).write_text(text, encoding="utf-8")


def served_again(release: Release, folder: Path) -> Release:
    """Put a release that was loaded from a folder behind the mechanism that it names, if any."""
    if not (folder / SERVED).is_file():
        return release
    from uedp_bench.components.registry import mechanisms

    record = json.loads((folder / SERVED).read_text(encoding="utf-8"))
    mechanism: ServingMechanism[Any] = mechanisms.create(record["name"], record["params"])
    return mechanism.serve_again(release)
