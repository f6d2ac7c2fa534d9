"""A vocabulary of the most frequent words of a text."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from uedp_bench.errors import InputError

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
_SPECIALS = (BEGIN, END, UNKNOWN)


class WordVocabulary:
    """Whitespace-separated words; words outside it are `unknown`.

    There is no padding id: padded positions are masked wherever they would count.

    Args:
        words: words in id order, after the three special ids 0 (begin), 1 (end) and 2 (unknown).
        origin: origin of the words, in words.
        private: True if they come from private text.
    """

    begin, end = 0, 1

    def __init__(self, words: Sequence[str], *, origin: str, private: bool = False) -> None:
        self.unknown: int | None = 2
        self.words = tuple(words)
        self.origin, self.private = origin, private
        self.size = len(_SPECIALS) + len(self.words)
        self._ids = {word: len(_SPECIALS) + i for i, word in enumerate(self.words)}

    @staticmethod
    def build(
        texts: Sequence[str], size: int, *, origin: str, private: bool = False
    ) -> WordVocabulary:
        """The most frequent words of the texts, ties in alphabetical order.

        Args:
            texts: already preprocessed.
            size: largest number of ids, the three special ones included.
            origin: see the class.
            private: see the class.

        Raises:
            InputError: if there is no word at all.
        """
        counts = Counter(word for text in texts for word in text.split())
        for special in _SPECIALS:
            counts.pop(special, None)
        if not counts:
            raise InputError(f"the vocabulary's text ({origin}) has no words")
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return WordVocabulary(ranked[: size - len(_SPECIALS)], origin=origin, private=private)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the words in order."""
        return hashlib.sha256("\n".join(("word", *self.words)).encode()).hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text's words, without begin and end."""
        get, unknown = self._ids.get, _SPECIALS.index(UNKNOWN)
        return [[get(word, unknown) for word in text.split()] for text in texts]

    def id_of(self, word: str) -> int:
        """The id of a word as it is written, else of its lower case, else `unknown`."""
        number = self._ids.get(word)
        return self._ids.get(word.lower(), _SPECIALS.index(UNKNOWN)) if number is None else number

    def decode(self, tokens: Sequence[int]) -> str:
        """Words joined by spaces; begin and end are left out."""
        names = (*_SPECIALS, *self.words)
        return " ".join(names[i] for i in tokens if i not in (self.begin, self.end))

    def save(self, folder: Path) -> None:
        """Write `vocabulary.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {"words": self.words, "origin": self.origin, "private": self.private}
        text = json.dumps(content, ensure_ascii=False, indent=0)
        (folder / "vocabulary.json").write_text(text, encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> WordVocabulary:
        """Read what `save` wrote."""
        content = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        return WordVocabulary(
            content["words"], origin=content["origin"], private=content["private"]
        )
