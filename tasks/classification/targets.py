"""Targets of a classifier: the labels of a source, or one of its attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, IntArray


def classes_of(corpus: Corpus, target: str) -> tuple[IntArray | None, tuple[str, ...]]:
    """(rows,) class of each row, -1 for none, and the names of the classes.

    Args:
        corpus: any.
        target: "label", or the name of an attribute.

    Returns:
        None and no names where the corpus has no such classes.
    """
    if target == "label":
        return corpus.labels, tuple(corpus.label_names)
    return corpus.attributes.get(target), tuple(corpus.attribute_names.get(target, ()))


def with_target(corpus: Corpus, target: str) -> Corpus:
    """The corpus with what is predicted as its labels."""
    labels, names = classes_of(corpus, target)
    return corpus if target == "label" else replace(corpus, labels=labels, label_names=names)
