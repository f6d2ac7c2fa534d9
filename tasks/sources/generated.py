"""What generated sources share: what is generated, and public counts of it."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from uedp_bench.corpus import Corpus
from uedp_bench.mechanism import CorpusStats
from uedp_bench.source import SourceParams

P = TypeVar("P", bound=SourceParams)

_SHARED = {name: field.default for name, field in SourceParams.model_fields.items()}


def as_generated(params: P) -> P:
    """Parameters without those that all sources share, on which what is generated never depends."""
    return params.model_copy(update=_SHARED)


def generated_stats(corpus: Corpus) -> CorpusStats:
    """Counts of the train split, which anybody can generate: they are public."""
    train = corpus.only("train")
    return CorpusStats(
        users=len(np.unique(train.users)),
        rows=len(train),
        sensitive_rows=int(train.sensitive.sum()),
        entities=len(np.unique(train.entities.entity)),
        public=True,
    )
