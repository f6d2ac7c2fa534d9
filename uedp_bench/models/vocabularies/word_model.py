"""Base of word-level models: a vocabulary of the most frequent words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from uedp_bench.components.component import Params
from uedp_bench.contracts.model import LanguageModel, TextModel, Vocabulary
from uedp_bench.models.vocabularies.words import WordVocabulary


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
