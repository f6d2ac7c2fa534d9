"""TF-IDF and a linear classifier: the strong baseline that costs next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from uedp_bench.api.networks import TextEncoder, Vocabulary, WordParams
from uedp_bench.models.word_vocabularies import TermVocabulary, terms

if TYPE_CHECKING:
    from torch import nn


class TfidfParams(WordParams):
    """Words that count, and the source of their weights."""

    words: Literal["vocabulary", "hashed"] = Field(
        default="vocabulary",
        description="'vocabulary': the most frequent words of the task's vocabulary text, with "
        "their inverse document frequencies; 'hashed': every word falls into one of "
        "vocabulary_size buckets of equal weight, and no public text is needed",
    )


class Tfidf(TextEncoder[TfidfParams]):
    """Term frequencies times inverse document frequencies, under a linear classifier.

    A representation has a number for every word of the vocabulary: (1 + ln count) times the word's
    weight, scaled to length 1. Only the task's head is trained; without hidden layers that is
    multinomial logistic regression, and a row's gradient is at most as long as sqrt(2), so that it
    is hardly clipped. Words and weights come from public text, never from the training rows
    (unless `task.vocabulary` is "private").
    """

    name = "tfidf"
    source = "Salton and Buckley 1988; Joachims 1998"
    Params = TfidfParams

    @property
    def mask(self) -> str:
        """A dropped word leaves nothing: one sign is no term."""
        return "-"

    def brings_vocabulary(self) -> bool:
        """Hashed words need no text."""
        return self.params.words == "hashed"

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> Vocabulary:
        """The most frequent terms of the texts; buckets where words are hashed."""
        size = self.params.vocabulary_size
        if self.params.words == "hashed":
            return TermVocabulary.hashing(size)
        return TermVocabulary.build(texts, size, origin=origin, private=private)

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Different terms of each text: weights count the texts that have them."""
        return [list(dict.fromkeys(terms(text))) for text in texts]

    def load_vocabulary(self, folder: Path) -> Vocabulary:
        """See `TextModel`."""
        return TermVocabulary.load(folder)

    def has_plain_layers(self) -> bool:
        """Always: it has no weights."""
        return True

    def row_numbers(self, tokens: int, width: int) -> int:
        """A row is one number a term, however long its text."""
        return width

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TextEncoder`; nothing is drawn."""
        from uedp_bench.models.networks.classifier import TfidfNetwork

        if not isinstance(vocabulary, TermVocabulary):
            raise TypeError("tfidf reads a vocabulary of terms")
        return TfidfNetwork(vocabulary.weights)
