"""The release: what leaves the protected side.

The harness shows what mechanisms made beside it: published rows, how words were replaced, what
found the replaced pieces, and by how much weights moved. Each is a capability, and a release lacks
the attribute where there is no such thing.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.contracts.capabilities import capability
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, Layer
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.text.word_occurrences import WordChannel

if TYPE_CHECKING:
    from uedp_bench.contracts.learner import Learner


class Release:
    """Base of everything that is released.

    Attributes:
        events: what happened to private data to make it; the accountants' only input.
        view: what the adversary sees, in words ("model weights", "sanitised text").
        target: what it predicts: "label", or the name of an attribute.
        classes: names of the classes that it tells apart; none where it tells no classes apart, or
            does not say which.
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
        """The same release with more to be seen: `events`, `published` and whatever else.

        The run adds what the learner that made the release cannot know. This one stays as it is.
        """
        other = copy.copy(self)
        for name, value in more.items():
            setattr(other, name, value)
        return other

    @property
    def draws_noise(self) -> bool:
        """True if what `save` writes holds the key of noise that is drawn when asked."""
        return False

    def save(self, folder: Path) -> None:
        """Writes everything that is needed to ask the release again into a folder that exists."""
        raise TypeError(f"{type(self).__name__} cannot be saved")


class TrainedRelease(Release, ABC):
    """Base of releases of a trained module: they are `RowScorer`s, whatever the task is.

    A task says how its learner reads other rows; the losses are those of `Learner.losses`.
    """

    @abstractmethod
    def learner(self, corpus: Corpus) -> Learner:
        """The learner of other rows, in their order, with the released module as its own."""

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
        from uedp_bench.contracts.row_losses import row_losses

        losses = row_losses(self.learner(corpus), len(corpus))
        if np.isnan(losses).any():
            raise UedpBenchError(
                f"the loss of row {int(np.isnan(losses).argmax())} is NaN: the weights are not "
                "finite"
            )
        return losses


class PublishedOnly(Release):
    """Published text or vectors, and no model."""

    view = "published corpus"

    def save(self, folder: Path) -> None:
        """Nothing but the published corpus was released, and any run makes it again."""


@capability(None)
@runtime_checkable
class Published(Protocol):
    """The protected corpus itself was published.

    Attributes:
        published: its rows. Test rows are among them where inputs are protected too. `origin` says
            from which source row each was made: it is truth for whoever scores an attacker, and
            `seen_of` is what the attacker sees.
    """

    published: Corpus


@capability(None)
@runtime_checkable
class Channel(Published, Protocol):
    """Words were replaced one by one, and the text was published.

    Attributes:
        word_channel: mechanism as an adversary who knows it can run it.
    """

    word_channel: WordChannel


class EntityDetector(Protocol):
    """What finds the pieces of text that a mechanism replaces, as anybody can run it."""

    def find(self, corpus: Corpus) -> Layer:
        """What it finds in original texts: spans by row, their types, and all rows as complete.

        What a row has depends on the text of that row alone, or on labels that the source gave it.
        """
        ...


@capability(None)
@runtime_checkable
class Deidentified(Published, Protocol):
    """Pieces of texts were found and replaced, and the text was published.

    Attributes:
        entity_detector: what found them.
    """

    entity_detector: EntityDetector


@capability(lambda asked, rows: asked.update)
@runtime_checkable
class Updates(Protocol):
    """Shows by how much private training moved the weights: initial weights are public.

    Attributes:
        update: (d,) final minus initial weights, in the order of the module's trainable parameters.
    """

    update: NDArray[np.float32]


def published_of(release: object) -> Corpus | None:
    """What was published; None where nothing was."""
    return release.published if isinstance(release, Published) else None


def seen_of(release: object) -> Corpus | None:
    """What was published, as an attacker sees it: without the row that each was made from.

    `Corpus.origin` of `published_of` is for whoever scores the attacker, and is not released.
    """
    shown = published_of(release)
    return None if shown is None else replace(shown, origin=np.full(len(shown), -1, dtype=np.int64))


def word_channel_of(release: object) -> WordChannel | None:
    """How words were replaced one by one; None where they were not, or nobody can say how."""
    return release.word_channel if isinstance(release, Channel) else None


def protected_rows(release: object) -> Corpus | None:
    """Rows as mechanisms made them, published or not; None where the model reads original rows."""
    if isinstance(release, Published):
        return release.published
    return release.inputs if isinstance(release, Release) else None
