"""Pairs of a text and its translation, and what is wrong with some."""

from __future__ import annotations

Pair = tuple[str, str]
"""A text and its translation."""

LEAST_WORDS = 3
"""Words of a text that is in its translation by more than chance: names and numbers often are."""


def holds_text(pair: Pair) -> bool:
    """True if the translation holds the whole text and more: then it is not a translation alone.

    A text of fewer than `LEAST_WORDS` words may be part of its translation ("in"), and one that is
    its translation may need none (a name, a code): these are not meant.
    """
    text, target = pair
    return text != target and text in target and len(text.split()) >= LEAST_WORDS
