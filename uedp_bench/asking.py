"""What attacks and tasks ask of any release, whichever capabilities it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from uedp_bench.corpus import Corpus, IntArray
from uedp_bench.errors import CapabilityError
from uedp_bench.rank_group import shared_out
from uedp_bench.release import (
    Channel,
    Classifier,
    LabelOnly,
    PerturbedInputs,
    Published,
    TrainedRelease,
    WordChannel,
)

Part = TypeVar("Part")
Found = TypeVar("Found")


class Asked(NamedTuple):
    """Who is asked many questions of one kind.

    Attributes:
        release: that is asked.
        how: what all questions have in common.
    """

    release: Any
    how: Any


def answers(
    question: Callable[[Asked, Part], Found],
    asked: Asked,
    parts: Sequence[Part],
    show: Callable[[int], None],
) -> list[Found]:
    """`question(asked, part)` of each part, in their order, by all ranks of the run.

    Each question is asked as one process asks it, so that answers are the same to the last bit. A
    release that is no trained network of this process is asked here.

    Args:
        question: of a module, without a state: it is sent by its name.
        asked: release, and what questions have in common.
        parts: no question depends on another. One that draws has a generator of its own.
        show: called with the number of questions that are answered, before each of this process.
    """
    if isinstance(asked.release, TrainedRelease):
        return shared_out(question, asked, parts, show)
    found = []
    for done, part in enumerate(parts):
        show(done)
        found.append(question(asked, part))
    return found


def class_labels(release: object, corpus: Corpus) -> IntArray:
    """(rows,) number of the class that a `Classifier` or `LabelOnly` release gives each row.

    Raises:
        CapabilityError: for a release that is neither.
    """
    if isinstance(release, LabelOnly):
        return np.asarray(release.labels(corpus), dtype=np.int64)
    if isinstance(release, Classifier):
        return np.asarray(release.class_logprobs(corpus).argmax(axis=1), dtype=np.int64)
    raise CapabilityError(
        f"a {type(release).__name__} tells no classes: it is no Classifier and no LabelOnly"
    )


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
    return release.inputs if isinstance(release, PerturbedInputs) else None
