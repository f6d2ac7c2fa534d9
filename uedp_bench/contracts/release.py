"""The release: what leaves the protected side.

The engine adds products of mechanisms to it: published rows, the channel of replaced words, the
detector of replaced pieces, and the move of weights. Each is a capability, and a release without
such a thing lacks the attribute.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.contracts.capabilities import capability
from uedp_bench.corpus import Corpus, Layer
from uedp_bench.text.word_occurrences import WordChannel

if TYPE_CHECKING:
    from torch import Tensor, nn


class Release:
    """Base of everything that is released.

    Attributes:
        events: uses of private data to make it; the accountants' only input.
        view: the adversary's view, in words ("model weights", "sanitised text").
        target: predicted attribute: "label", or the name of an attribute.
        classes: names of the classes that it tells apart; none if it tells none apart, or does not
            name them.
        takes_vectors: True if it reads published vectors, not text.
        inputs: rows as they enter the model, where mechanisms perturb inputs and do not publish
            them. They are not released, but classes and representations of inputs are theirs.
    """

    view: ClassVar[str] = "model"
    events: tuple[PrivacyEvent, ...] = ()
    target: str = "label"
    classes: tuple[str, ...] = ()
    takes_vectors: bool = False
    inputs: Corpus | None = None

    def showing(self, **more: Any) -> Self:
        """Copy with more attributes: `events`, `published` and others.

        The run adds attributes that the learner cannot know. The original stays as it is.
        """
        other = copy.copy(self)
        for name, value in more.items():
            setattr(other, name, value)
        return other

    @property
    def draws_noise(self) -> bool:
        """True if files of `save` hold the key of noise that is drawn on each question."""
        return False

    def save(self, folder: Path) -> None:
        """Write everything that answers need into a folder that exists."""
        raise TypeError(f"{type(self).__name__} cannot be saved")


class PublishedOnly(Release):
    """Published text or vectors, and no model."""

    view = "published corpus"

    def save(self, folder: Path) -> None:
        """Save nothing: any run makes the published corpus again."""


@capability(None)
@runtime_checkable
class Published(Protocol):
    """Release with the published corpus itself.

    Attributes:
        published: its rows. Test rows are among them where inputs are protected too. `origin` has
            the source row of each: it is truth for the scorer of an attacker, and `seen_of` is the
            attacker's view.
    """

    published: Corpus


@capability(None)
@runtime_checkable
class Channel(Published, Protocol):
    """Release of published text with words replaced one by one.

    Attributes:
        word_channel: mechanism as an adversary who knows it can run it.
    """

    word_channel: WordChannel


class EntityDetector(Protocol):
    """Detector of the pieces of text that a mechanism replaces, as anybody can run it."""

    def find(self, corpus: Corpus) -> Layer:
        """Detect pieces in original texts: spans by row, their types, and all rows as complete.

        Spans of a row depend on the text of that row alone, or on its labels of the source.
        """
        ...


@capability(lambda release, rows: release.update)
@runtime_checkable
class Updates(Protocol):
    """Release with the move of weights by private training: initial weights are public.

    Attributes:
        update: (d,) final minus initial weights, in the order of the module's trainable parameters.
    """

    update: NDArray[np.float32]


def published_of(release: object) -> Corpus | None:
    """Published corpus; None if nothing was published."""
    return release.published if isinstance(release, Published) else None


def seen_of(release: object) -> Corpus | None:
    """Published corpus as an attacker sees it: without the row that each was made from.

    `Corpus.origin` of `published_of` is for the scorer of the attacker, and is not released. Nor
    are ids and names of rows, and names of users, which may be digests of what they wrote.
    """
    if (shown := published_of(release)) is None:
        return None
    nowhere = np.full(len(shown), -1, dtype=np.int64)
    return replace(shown, origin=nowhere, ids=None, row_names=None, user_names=None)


def word_channel_of(release: object) -> WordChannel | None:
    """Channel that replaced words one by one; None if there was none, or it is not known."""
    return release.word_channel if isinstance(release, Channel) else None


def protected_rows(release: object) -> Corpus | None:
    """Rows as mechanisms made them, published or not; None where the model reads original rows."""
    if isinstance(release, Published):
        return release.published
    return release.inputs if isinstance(release, Release) else None


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
