"""The opinion lexicon: lists of positive and negative English words."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import SPLITS, Corpus, CorpusStats, InputError, IntArray, Source, SourceParams
from uedp_bench.api.text import named_users, open_text
from uedp_bench.tasks.sources.reading.files import find_file
from uedp_bench.tasks.sources.reading.splits import TRAIN

LABELS: tuple[str, ...] = ("negative", "positive")
FILES: tuple[str, ...] = ("negative-words.txt", "positive-words.txt")
_PUBLISHED = [4_783, 2_006]  # words of each label


class OpinionLexiconParams(SourceParams):
    """Files of the lists, and division of words among the splits."""

    path: Path = Field(
        description="folder with negative-words.txt and positive-words.txt (plain or .gz)"
    )
    valid: float = Field(default=0.1, ge=0, lt=1, description="share of the words in valid")
    test: float = Field(default=0.1, ge=0, lt=1, description="share of the words in test")
    seed: int = Field(default=0, ge=0, description="seed of the hash that puts a word into a split")

    @model_validator(mode="after")
    def _some_are_left(self) -> Self:
        if self.valid + self.test >= 1:
            raise ValueError(
                f"valid={self.valid} and test={self.test} leave no word to train on; their sum "
                "must be below 1"
            )
        return self


class OpinionLexicon(Source[OpinionLexiconParams]):
    """One word a row, labelled negative or positive.

    The lists are a published lexicon, and nobody's text: sizes of the published lists are public
    constants, and what a mechanism hides here is which word was put in, not who wrote it. Each
    word is a user of its own. A hash of the word and the seed decides its split, so that a word
    stays where it is when the lists grow, and a word on both lists stands twice in the same split.
    """

    name: ClassVar[str] = "opinion-lexicon"
    title: ClassVar[str] = "opinion lexicon"
    source: ClassVar[str] = "Hu and Liu, Mining and Summarizing Customer Reviews, KDD 2004"
    Params = OpinionLexiconParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test; negative words first.

        Raises:
            InputError: for a missing list, one without a word, or if no word is left to train on.
        """
        words, labels = self._words()
        split = self._splits(words)
        if not np.any(split == TRAIN):
            raise InputError(
                f"opinion-lexicon: none of {len(words)} words is in train "
                f"(valid={self.params.valid}, test={self.params.test}, seed={self.params.seed})"
            )
        users, names = named_users(words)
        return Corpus(
            texts=words,
            groups={"user": users},
            split=split,
            labels=labels,
            label_names=LABELS,
            user_names=names,
        )

    def documented(self) -> CorpusStats | None:
        """Counts of the train split, if the lists are as long as the published ones."""
        words, labels = self._words()
        if np.bincount(labels).tolist() != _PUBLISHED:
            return None
        train = self._splits(words) == TRAIN
        return CorpusStats(
            users=len(np.unique(named_users(words)[0][train])),
            rows=int(train.sum()),
            sensitive_rows=0,
            entities=0,
            public=True,
        )

    def _words(self) -> tuple[tuple[str, ...], IntArray]:
        lists = [_read(find_file(self.params.path, (name,), self.name)) for name in FILES]
        labels = np.repeat(np.arange(len(lists)), [len(words) for words in lists])
        return tuple(word for words in lists for word in words), labels

    def _splits(self, words: tuple[str, ...]) -> IntArray:
        """(words,) index into `SPLITS`."""
        digests = (hashlib.sha256(f"{self.params.seed}/{word}".encode()) for word in words)
        heads = b"".join(digest.digest()[:8] for digest in digests)
        at = np.frombuffer(heads, dtype="<u8") / 2.0**64
        bounds = np.cumsum([self.params.test, self.params.valid])
        names = np.array([SPLITS.index(name) for name in ("test", "valid", "train")])
        return names[np.searchsorted(bounds, at, side="right")]


def _read(file: Path) -> list[str]:
    """Words of a list, one a line; blank lines and comments (`;`) are left out."""
    with open_text(file, "opinion-lexicon.path", encoding="latin-1") as lines:
        words = [word for line in lines if (word := line.strip()) and word[0] != ";"]
    if not words:
        raise InputError(f"opinion-lexicon.path: {file} holds no word")
    return words
