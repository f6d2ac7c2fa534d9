"""Pairs of a text and its translation, and a test for faulty ones."""

from __future__ import annotations

from uedp_bench.corpus.normal_form import normal_surface

Pair = tuple[str, str]
"""A text and its translation."""

LEAST_WORDS = 3
"""A text of fewer words may stand in its translation by chance: names and numbers often do."""


def holds_text(pair: Pair) -> bool:
    """True if the translation holds the whole text and more: then it is not a translation alone.

    A text of fewer than `LEAST_WORDS` words may be part of its translation ("in"), and one that is
    its own translation may be right (a name, a code): both are False.
    """
    text, target = map(normal_surface, pair)
    return text != target and text in target and len(text.split()) >= LEAST_WORDS
