"""A public list of surfaces, and where a text has one of them.

An occurrence begins and ends at the border of a word and has the surface of a line, both in their
normal form: as two mentions are of the same entity. A word is a run of letters, digits and their
marks; any other character that is not white space is a word by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from uedp_bench.api import InputError
from uedp_bench.corpus import normal_surface
from uedp_bench.io.files import read_text, shown_path
from uedp_bench.mechanisms.deidentification.mentions import Interval
from uedp_bench.text.comparison import NormalWord, normal_words

MOST_BYTES = 2**28
"""Size of a list, at most."""

Trie: TypeAlias = "dict[str, Trie]"
"""Words that may follow, each after a space where one stands before it; "" ends a surface."""


class PublicList:
    """Surfaces to look for; the time for a text does not grow with their number.

    Attributes:
        surfaces: normalised.
    """

    def __init__(self, surfaces: Iterable[str]) -> None:
        self.surfaces = frozenset(filter(None, map(normal_surface, surfaces)))
        self._root: Trie = {}
        for surface in self.surfaces:
            node = self._root
            for word in normal_words(surface):
                node = node.setdefault(f" {word.form}" if word.spaced else word.form, {})
            node[""] = {}

    @staticmethod
    def read(path: Path, field: str) -> PublicList:
        """The list in a text file of one surface a line, in UTF-8; blank lines do not count.

        Args:
            path: path of the file.
            field: the parameter that names it, for messages.

        Raises:
            InputError: if there is no such file, it is not UTF-8, or has no surface.
        """
        public_list = PublicList(read_text(path, field, MOST_BYTES).split("\n"))
        if not public_list.surfaces:
            raise InputError(f"{field}: {shown_path(path)} has no surface; write one a line")
        return public_list

    def keeps(self, placeholders: Iterable[str], field: str) -> None:
        """Checks that no surface occurs in a placeholder, or could reach into one.

        Raises:
            InputError: otherwise.
        """
        for surface in sorted(self.surfaces):
            if "<" in surface or ">" in surface:
                raise InputError(
                    f"{field}: {surface!r} has an angle bracket, which marks placeholders; use "
                    "style=remove or leave it out"
                )
        for placeholder in placeholders:
            if self.occurrences(placeholder):
                raise InputError(
                    f"{field}: a surface of the list is part of the placeholder {placeholder}; use "
                    "style=remove or leave it out"
                )

    def occurrences(self, text: str) -> list[Interval]:
        """The pieces of the text that occurrences cover, in order; overlapping ones are one."""
        words = normal_words(text)
        covered: list[Interval] = []
        for i, (_, start, _, _) in enumerate(words):
            end = self._longest(words, i)
            if end is None:
                continue
            if covered and start < covered[-1][1]:
                start, last = covered.pop()
                end = max(end, last)
            covered.append((start, end))
        return covered

    def _longest(self, words: Sequence[NormalWord], first: int) -> int | None:
        """End of the longest occurrence that begins at a word."""
        node, end = self._root.get(words[first].form), None
        at = first
        while node is not None:
            if "" in node:
                end = words[at].end
            at += 1
            if at == len(words):
                break
            word = words[at]
            node = node.get(f" {word.form}" if word.spaced else word.form)
        return end
