"""True classes, in the original corpus, of a released classifier's target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uedp_bench.api import InputError

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, IntArray, Release


def true_classes(release: Release, corpus: Corpus, attack: str) -> IntArray:
    """(rows,) true class of each row as the release counts them, -1 for none.

    Args:
        release: a classifier; its `target` says what it predicts, which its classes do not: many
            attributes may have the same.
        corpus: the original one.
        attack: named in errors.

    Raises:
        InputError: if the corpus has no such classes.
    """
    target = release.target
    if target == "label":
        truth, names = corpus.labels, corpus.label_names
    else:
        truth, names = corpus.attributes.get(target), corpus.attribute_names.get(target, ())
    classes = release.classes or tuple(names)
    if truth is None or classes != tuple(names):
        raise InputError(
            f"{attack}: the release tells {', '.join(classes) or 'no classes'} apart, "
            f"and these are not the corpus' classes of {target!r}"
        )
    return truth
