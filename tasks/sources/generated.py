"""Base of generated sources: read without files, once, and counted in public."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np

from uedp_bench.api import Corpus, CorpusStats, Source, SourceParams

P = TypeVar("P", bound=SourceParams)

_SHARED = {name: field.default for name, field in SourceParams.model_fields.items()}


class GeneratedSource(Source[P]):
    """A source whose corpus is made from a seed; anybody can make it again."""

    needs_path: ClassVar[bool] = False
    generated: ClassVar[bool] = True

    @abstractmethod
    def generate(self) -> Corpus:
        """The corpus, from the source's own parameters.

        Those that all sources share (`SourceParams`) are at their defaults: the corpus is the same
        whatever they are, and is made once for all of them.
        """

    def read(self) -> Corpus:
        """See `Source`; users of train, valid, test and public in this order, rows by user."""
        return _generated(type(self), self.params.model_copy(update=_SHARED).model_dump_json())

    def documented(self) -> CorpusStats:
        """Counts of the train split, which anybody can generate: they are public."""
        train = self.read().only("train")
        return CorpusStats(
            users=len(np.unique(train.users)),
            rows=len(train),
            sensitive_rows=int(train.sensitive.sum()),
            entities=len(np.unique(train.entities.entity)),
            public=True,
        )


@lru_cache(maxsize=4)
def _generated(kind: type[GeneratedSource[Any]], params: str) -> Corpus:
    return kind(kind.Params.model_validate_json(params)).generate()
