"""Vocabularies of words: the most frequent ones of a text, or weighted terms of public text."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import Field

from uedp_bench.components.component import Params
from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.model import LanguageModel, TextModel
from uedp_bench.corpus import FloatArray
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


class WordParams(Params):
    """The size of a vocabulary of words."""

    vocabulary_size: int = Field(
        default=10_000, ge=4, description="most words, three special ones included"
    )


W = TypeVar("W", bound=WordParams)


class WordText(TextModel[W]):
    """A model that reads whitespace-separated words."""

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> Vocabulary:
        """The most frequent whitespace-separated words of the texts."""
        size = self.params.vocabulary_size
        return WordVocabulary.build(texts, size, origin=origin, private=private)

    def load_vocabulary(self, folder: Path) -> Vocabulary:
        """See `LanguageModel`."""
        return WordVocabulary.load(folder)


class WordModel(WordText[W], LanguageModel[W]):
    """A language model over whitespace-separated words."""


FIRST_TERM = len(_SPECIALS)
"""Id of the first term."""

_TERM = re.compile(r"\b\w\w+\b")


def terms(text: str) -> list[str]:
    """Lower-cased words of two letters or digits or more, as scikit-learn's vectorizers split."""
    return _TERM.findall(text.lower())


class TermVocabulary:
    """The terms that a classifier knows: those of a text, or all of them, hashed into buckets.

    Args:
        words: words in the order of their ids; empty where terms are hashed.
        weights: (terms,) inverse document frequencies.
        hashed: a term's id is the CRC-32 of its UTF-8 bytes modulo the number of weights: no text
            is needed, and different terms may share a bucket.
        origin: origin of words and weights.
        private: True if that is private text.
    """

    begin, end = 0, 1

    def __init__(
        self,
        words: Sequence[str],
        weights: FloatArray,
        *,
        hashed: bool,
        origin: str,
        private: bool = False,
    ) -> None:
        self.words, self.weights, self.hashed = tuple(words), weights, hashed
        self.origin, self.private = origin, private
        self.unknown: int | None = None if hashed else 2
        self.size = FIRST_TERM + len(weights)
        self._ids = {word: FIRST_TERM + i for i, word in enumerate(self.words)}

    @staticmethod
    def build(
        texts: Sequence[str], size: int, *, origin: str, private: bool = False
    ) -> TermVocabulary:
        """The terms that occur in most of the texts, ties in alphabetical order.

        The weight of a term in n of N texts is ln((1 + N) / (1 + n)) + 1 (scikit-learn's smooth
        inverse document frequency).

        Args:
            texts: already preprocessed.
            size: largest number of ids, the three special ones included.
            origin: see the class.
            private: see the class.

        Raises:
            InputError: if there is no term at all.
        """
        counts = Counter(term for text in texts for term in set(terms(text)))
        if not counts:
            raise InputError(f"the vocabulary's text ({origin}) has no words")
        ranked = sorted(counts, key=lambda term: (-counts[term], term))[: size - FIRST_TERM]
        counts_of_ranked = np.array([counts[term] for term in ranked], dtype=np.float64)
        weights = np.log((1.0 + len(texts)) / (1.0 + counts_of_ranked)) + 1.0
        return TermVocabulary(ranked, weights, hashed=False, origin=origin, private=private)

    @staticmethod
    def hashing(size: int) -> TermVocabulary:
        """Buckets of equal weight, from no text at all."""
        return TermVocabulary((), np.ones(size - FIRST_TERM), hashed=True, origin="hashed words")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the terms in order and their weights."""
        digest = hashlib.sha256("\n".join(("terms", *self.words)).encode())
        digest.update(self.weights.astype("<f8").tobytes())
        return digest.hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text's terms, without begin and end; what is no term is left out."""
        if self.hashed:
            buckets = len(self.weights)
            return [
                [FIRST_TERM + zlib.crc32(term.encode("utf-8", "replace")) % buckets
                 for term in terms(text)]
                for text in texts
            ]  # fmt: skip
        get = self._ids.get
        return [[get(term, 2) for term in terms(text)] for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        """Terms joined by spaces; a bucket of hashed ones has no word and is its number."""
        names = self.words or tuple(f"#{at}" for at in range(len(self.weights)))
        special = {self.begin: "", self.end: "", 2: "<unk>"}
        words = (special.get(int(i), "") or names[int(i) - FIRST_TERM] for i in tokens if i > 1)
        return " ".join(words)

    def save(self, folder: Path) -> None:
        """Write `vocabulary.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "words": self.words, "weights": self.weights.tolist(), "hashed": self.hashed,
            "origin": self.origin, "private": self.private,
        }  # fmt: skip
        text = json.dumps(content, ensure_ascii=False)
        (folder / "vocabulary.json").write_text(text, encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> TermVocabulary:
        """Read what `save` wrote."""
        content = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        weights = np.array(content.pop("weights"), dtype=np.float64)
        return TermVocabulary(content.pop("words"), weights, **content)
