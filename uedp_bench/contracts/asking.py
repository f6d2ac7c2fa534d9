"""What attacks and tasks ask of any release, whichever capabilities it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uedp_bench.contracts.release import Channel, Classifier, LabelOnly, PerturbedInputs, Published
from uedp_bench.corpus import Corpus, IntArray
from uedp_bench.errors import CapabilityError
from uedp_bench.text.word_occurrences import WordChannel


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
