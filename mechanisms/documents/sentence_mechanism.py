"""Documents as vectors of their sentences, and what mechanisms that protect sentences share."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from uedp_bench.api import (
    CorpusStats,
    Events,
    InputError,
    MayBePath,
    Params,
    PublishingMechanism,
    Requirement,
)
from uedp_bench.mechanisms._noise import spent
from uedp_bench.text.pretrained import PretrainedModel

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Run

_BLOCK = 2048  # documents that are embedded at once

ASSUMPTIONS = (
    "neighbours differ in one sentence; how many sentences a document has, its label and its user "
    "are not protected",
    "the vector of a sentence, up to rounding, and where it ends depend on that sentence alone",
    "noise is that of real numbers, and of its own for each document",
)
"""Conditions of every guarantee for a sentence."""


class DocumentParams(Params):
    """The sentence encoder, and what becomes of documents with too few sentences."""

    encoder: Annotated[str, MayBePath()] = Field(
        default="sentence-transformers/all-MiniLM-L6-v2",
        description="public encoder of sentence-transformers: hub id or directory",
    )
    epsilon: float = Field(gt=0, description="for one sentence of a document")
    min_sentences: int = Field(
        default=2, ge=1, description="documents with fewer sentences are short"
    )
    short: Literal["refuse", "drop"] = Field(
        default="refuse", description="short documents are an error, or dropped and counted"
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The encoder itself."""
        return (*super().requires(), PretrainedModel(self.encoder, "encoder"))


D = TypeVar("D", bound=DocumentParams)
F = TypeVar("F")


@dataclass(frozen=True, eq=False)
class Documents:
    """Sentence vectors of documents, one document after the other.

    Attributes:
        vectors: (sentences, d) of all documents.
        lengths: (documents,) sentences of each, at least one.
    """

    vectors: NDArray[np.float32]
    lengths: IntArray

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> IntArray:
        """(documents + 1,) where each document's sentences end, after a 0."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def take(self, rows: IntArray) -> Documents:
        """The given documents in the given order."""
        lengths = self.lengths[rows]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return Documents(self.vectors[np.repeat(self.ends[rows], lengths) + within], lengths)

    def means(self) -> FloatArray:
        """(documents, d) mean of each document's sentence vectors (equation 1)."""
        if not len(self):
            return np.empty((0, self.vectors.shape[1]))
        sums = np.add.reduceat(self.vectors, self.ends[:-1], axis=0, dtype=np.float64)
        return sums / self.lengths[:, None]


class DocumentMechanism(PublishingMechanism[D], Generic[D, F]):
    """Publishes a vector for each document, made of the vectors of its sentences.

    What it fits depends on the documents of the split `public` alone, and is kept for the run's
    second call: training rows and test rows are published one after the other.
    """

    unit = "sentence"
    fresh_noise = True
    rowwise = True
    at_inference = True

    def __init__(self, params: D | None = None) -> None:
        super().__init__(params)
        self._fitted: tuple[tuple[int, str, str], F] | None = None

    @abstractmethod
    def fit(self, public: Documents, run: Run) -> F:
        """Fit the mechanism to public documents.

        Raises:
            InputError: if they are too few.
        """

    @abstractmethod
    def protect(
        self, documents: Documents, fitted: F, rngs: Sequence[np.random.Generator]
    ) -> tuple[FloatArray, float]:
        """(documents, d) what is published of each, with the noise of its own generator.

        Returns:
            that, and the epsilon for a sentence that the noise drawn was worth (`_noise`).
        """

    @abstractmethod
    def events(self, epsilon: float) -> Events:
        """The events of what was published, with noise that is worth so much."""

    def plan(self, stats: CorpusStats) -> Events:
        """One noisy vector or choice a document."""
        return self.events(self.params.epsilon)

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """The corpus with vectors in place of texts; public rows are published as private ones.

        Raises:
            InputError: if short documents are refused, public ones too few, or the encoder cannot
                be read.
        """
        from uedp_bench.text.sentences import SentenceEmbedder, split_sentences

        embedder = SentenceEmbedder(self.params.encoder, run.device, f"{self.name}.encoder")
        sentences = split_sentences(corpus.texts)
        lengths = np.array([len(epsilons) for epsilons in sentences], dtype=np.int64)

        def embedded(rows: IntArray) -> Documents:
            flat = [sentence for row in rows.tolist() for sentence in sentences[row]]
            return Documents(embedder.embed(flat), lengths[rows])

        enough = self._enough(lengths, corpus, run)
        public, private = (
            np.flatnonzero(enough & (corpus.where("public") == which)) for which in (True, False)
        )
        shown = embedded(public)
        fitted = self._fit(shown, [corpus.texts[row] for row in public.tolist()], run)
        vectors = np.empty((len(corpus), shown.vectors.shape[1]))
        starts = range(0, len(private), _BLOCK)
        done, epsilons = 0, list[float]()
        for block in (public, *(private[at : at + _BLOCK] for at in starts)):
            rngs = [row_rng(corpus, row, run) for row in block.tolist()]
            documents = shown if block is public else embedded(block)
            vectors[block], worth = self.protect(documents, fitted, rngs)
            epsilons += [worth] if len(block) else []
            done += len(block)
            run.progress("protect documents", done, int(enough.sum()))
        kept = np.flatnonzero(enough)
        drawn = self.events(spent(epsilons, self.params.epsilon))
        return corpus.take(kept).with_vectors(vectors[kept]), drawn

    def _fit(self, public: Documents, texts: list[str], run: Run) -> F:
        digest = hashlib.sha256()
        for text in texts:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        key = (run.seed, run.device, digest.hexdigest())
        if self._fitted is None or self._fitted[0] != key:
            self._fitted = (key, self.fit(public, run))
        return self._fitted[1]

    def _enough(self, lengths: IntArray, corpus: Corpus, run: Run) -> BoolArray:
        least = self.params.min_sentences
        enough: BoolArray = lengths >= least
        if self.params.short == "refuse" and not enough.all():
            raise InputError(
                f"{self.name} publishes no document of fewer than {least} sentences "
                f"({self.name}.min_sentences), and {int((~enough).sum())} of {len(corpus)} are "
                f"such; leave them out with source.min_sentences={least} or {self.name}.short=drop"
            )
        short = int((~enough & ~corpus.where("public")).sum())
        # Training rows and test rows are published by two calls.
        total = run.diagnostics.get("documents_dropped", 0) + short
        run.note(documents_dropped=total, simulation_only=["documents_dropped"])
        return enough


def row_rng(corpus: Corpus, row: int, run: Run) -> np.random.Generator:
    """The generator of a row's noise: the same when it is asked for again.

    The text is part of the key: the same noise on two texts would tell their difference.
    """
    text = hashlib.sha256(corpus.texts[row].encode("utf-8", "surrogatepass")).hexdigest()
    return run.stream().rng("row", int(corpus.keys[row]), int(corpus.users[row]), text)
