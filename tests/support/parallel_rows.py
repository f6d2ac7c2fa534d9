"""The smallest parallel corpus and translator that go through a whole run."""

from __future__ import annotations

from typing import Any

from uedp_bench.corpus import Corpus
from uedp_bench.models.translators import TransformerSmall, TransformerSmallParams
from uedp_bench.tasks.sources.parallel_embedded.source import (
    ParallelEmbedded,
    ParallelEmbeddedParams,
)
from uedp_bench.tasks.translation.translator import PairReader, TranslatorRelease

SOURCE = {
    "documents": 30, "valid_documents": 1, "test_documents": 3, "sentences": 3,
    "test_sentences_each": 3, "general_pairs": 60, "untranslated": 20, "medicines": 3,
}  # fmt: skip
MODEL = {"vocabulary_size": 330, "layers": 1, "width": 16, "inner": 16, "heads": 2}


def corpus() -> Corpus:
    """A few documents."""
    return ParallelEmbedded(ParallelEmbeddedParams(**SOURCE)).load()


def model() -> TransformerSmall:
    """A transformer with six thousand weights."""
    return TransformerSmall(TransformerSmallParams(**MODEL))


def reader(**options: Any) -> PairReader:
    """Reads pairs by a vocabulary of the public text."""
    public, one = corpus().only("public"), model()
    texts = [*public.texts, *(public.targets or ())]
    vocabulary = one.vocabulary(texts, origin="public split", private=False)
    return PairReader(one, vocabulary, **{"max_tokens": 64, **options})


def release(seed: int = 1, **options: Any) -> TranslatorRelease:
    """An untrained translator."""
    read = reader(**options)
    return TranslatorRelease(read, read.model.build_translator(read.vocabulary, seed))
