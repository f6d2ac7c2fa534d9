"""Terms: words without their order, each with a weight that public text gave it."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from uedp_bench.corpus import FloatArray
from uedp_bench.errors import InputError

SPECIALS = 3
"""Ids before those of terms: begin, end and unknown, as in other vocabularies of words."""

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
        self.size = SPECIALS + len(weights)
        self._ids = {word: SPECIALS + i for i, word in enumerate(self.words)}

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
        ranked = sorted(counts, key=lambda term: (-counts[term], term))[: size - SPECIALS]
        counts_of_ranked = np.array([counts[term] for term in ranked], dtype=np.float64)
        weights = np.log((1.0 + len(texts)) / (1.0 + counts_of_ranked)) + 1.0
        return TermVocabulary(ranked, weights, hashed=False, origin=origin, private=private)

    @staticmethod
    def hashing(size: int) -> TermVocabulary:
        """Buckets of equal weight, from no text at all."""
        return TermVocabulary((), np.ones(size - SPECIALS), hashed=True, origin="hashed words")

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
                [SPECIALS + zlib.crc32(term.encode("utf-8", "replace")) % buckets
                 for term in terms(text)]
                for text in texts
            ]  # fmt: skip
        get = self._ids.get
        return [[get(term, 2) for term in terms(text)] for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        """Terms joined by spaces; a bucket of hashed ones has no word and is its number."""
        names = self.words or tuple(f"#{at}" for at in range(len(self.weights)))
        special = {self.begin: "", self.end: "", 2: "<unk>"}
        words = (special.get(int(i), "") or names[int(i) - SPECIALS] for i in tokens if i > 1)
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
