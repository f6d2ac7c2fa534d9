"""Mechanisms that replace every word by one that is near to its vector plus noise."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.accounting.published_systems import MetricDP as MetricSystem
from uedp_bench.api import CorpusStats, Events, InputError, Params, PublishingMechanism, Requirement
from uedp_bench.api.events import Claim, NonPrivate, PrivacyEvent, Reading
from uedp_bench.api.text import Rewriting
from uedp_bench.components.component import FAISS, of_embedding
from uedp_bench.mechanisms._noise import spent
from uedp_bench.mechanisms.words.noise import EmbeddingChannel, Noise, WordNoise, word_places
from uedp_bench.text.word_vectors import ApproximateNearest, Embedding, Nearest, read_embedding

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, FloatArray, IntArray, Run
    from uedp_bench.api.capabilities import WordChannel


def read_words(paths: Sequence[Path], field: str) -> frozenset[str]:
    """The words of files with one word a line; blank lines and comments (`;`) do not count.

    Files are plain or `.gz`, in UTF-8, or in Latin-1 where they are not UTF-8, as older lexicons
    often are.

    Raises:
        InputError: if a file cannot be read or has no word.
    """
    words: set[str] = set()
    for path in paths:
        try:
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{field}: {path} cannot be read: {reason}") from None
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        words_of_file = {
            word for line in text.split("\n") if (word := line.strip()) and word[0] != ";"
        }
        if not words_of_file:
            raise InputError(f"{field}: {path} has no word; write one a line")
        words |= words_of_file
    return frozenset(words)


def restrict(embedding: Embedding, words: frozenset[str], field: str) -> Embedding:
    """The embedding of its words that the list has, as written or in lower case, in its order.

    Raises:
        InputError: if there are none.
    """
    forms = words | {word.lower() for word in words}
    kept = [at for at, word in enumerate(embedding.words) if word in forms]
    if not kept:
        raise InputError(f"{field}: none of its {len(words)} words is in the embedding")
    return Embedding(tuple(embedding.words[at] for at in kept), embedding.vectors[kept])


MASK = "<unk>"
"""Replacement of a word outside the vocabulary where the policy is `mask`."""

_BATCH = 8192
_SAMPLE = 2000

APPROXIMATE = (
    "search is hnsw: an approximate index publishes other words than the nearest ones that the "
    "analysis is about"
)

KEPT = "unknown is keep: words outside the vocabulary are published as they are; drop or mask them"


class WordParams(Params):
    """The embedding, the noise, and what becomes of words outside the vocabulary."""

    epsilon: float = Field(gt=0, description="per unit of distance between word vectors")
    embedding: Path | None = Field(
        default=None,
        description="public word vectors: text, a word and its numbers a line (GloVe, fastText, "
        "word2vec; .gz too), gensim's .kv, .model or .bin, the folder of a spaCy pipeline, or "
        "spacy:NAME of an installed one; a run needs them, accounting does not",
    )
    vocabulary: tuple[Path, ...] = Field(
        default=(),
        description="files of public words, one a line: replace only these, and only by these; "
        "without any, all words of the embedding",
    )
    noise: Noise = Field(
        default="laplace",
        description="laplace: density e^(-epsilon |z|); mahalanobis: the same for the regularised "
        "Mahalanobis distance of the embedding",
    )
    regularisation: float | None = Field(
        default=None, ge=0, le=1, description="lambda of mahalanobis, there 0.2 by default"
    )
    unknown: Literal["keep", "drop", "mask"] = Field(
        default="mask",
        description="words outside the vocabulary: published as they are, dropped, or <unk>",
    )
    search: Literal["exact", "hnsw"] = Field(
        default="exact",
        description="how the nearest words are found: exact, or by an approximate index of faiss, "
        "and then nothing is proven",
    )
    words: int = Field(default=1, ge=1, description="words of a row at which epsilon is also given")
    distances: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(), description="distances at which epsilon is also given"
    )

    def requires(self) -> tuple[Requirement, ...]:
        """Packages that read the embedding and find the nearest words."""
        embedding = of_embedding(None if self.embedding is None else str(self.embedding))
        index = (FAISS,) if self.search == "hnsw" else ()
        return (*super().requires(), *embedding, *index)

    @model_validator(mode="after")
    def _lambda_has_a_matrix(self) -> Self:
        if self.noise == "laplace" and self.regularisation is not None:
            raise ValueError("regularisation is given, but noise is laplace; use mahalanobis")
        return self

    @property
    def weight(self) -> float | None:
        """Lambda; None for `laplace`."""
        if self.noise == "laplace":
            return None
        return 0.2 if self.regularisation is None else self.regularisation


Search = Nearest | ApproximateNearest

W = TypeVar("W", bound=WordParams)


class WordMechanism(PublishingMechanism[W]):
    """Every word of a private row gets noise of its own, then the word that `choose` picks.

    A word is what stands between white space if the vocabulary has it, else its runs of letters
    and digits and its other characters, each by itself; words are looked up as written, then in
    lower case, and joined by single spaces. A row's noise is keyed by the run's seed and the row.
    A mention, or another annotation, covers what its words became.
    """

    rowwise = True
    at_inference = True
    fresh_noise = True
    carries = frozenset({"entities", "layers"})

    @abstractmethod
    def choose(self, search: Search, word: IntArray, noisy: FloatArray, coin: FloatArray) -> Any:
        """(n,) words published for n words.

        Args:
            search: over the vectors of the vocabulary.
            word: (n,) private words.
            noisy: (n, d) their vectors plus noise.
            coin: (n,) uniform in [0, 1).
        """

    @abstractmethod
    def unproven(self) -> str:
        """Why nothing can be proven at these parameters; empty where metric DP holds."""

    def candidates(self) -> int:
        """Words that the vocabulary must have."""
        return 1

    def plan(self, stats: CorpusStats) -> Events:
        """Metric DP for one word that is replaced by another of the vocabulary."""
        return self._events(self.params.epsilon)

    def _events(self, epsilon: float) -> Events:
        reason = "; ".join(filter(None, (self.unproven(), self._approximate())))
        if reason:
            return (
                PrivacyEvent(unit="word", adjacency="replace-one", event=NonPrivate(reason=reason)),
            )
        (event,) = self._system(epsilon).plan()
        assumptions = (
            *event.assumptions,
            "neighbours differ in one word, by another of the vocabulary; that a word is outside "
            "of it is published",
            "noise is that of real numbers; labels and users of rows, and the places of "
            "annotations that a task reads, are not protected",
        )
        return (event.model_copy(update={"assumptions": assumptions}),)

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Epsilon per unit of distance, with a note where another mechanism runs."""
        return tuple(
            claim.model_copy(
                update={"note": "; ".join(filter(None, (self._approximate(), claim.note)))}
            )
            for claim in self._system(self.params.epsilon).claims()
        )

    def readings(self) -> tuple[Reading, ...]:
        """Epsilon at the distances asked for."""
        return self._system(self.params.epsilon).readings()

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """The corpus with the words of all rows outside the split `public` replaced.

        Mentions and layers follow their words; labels, users and attributes stay.

        Raises:
            InputError: if the embedding is missing, malformed or too small.
        """
        embedding = self._embedding()
        vectors = embedding.vectors
        noise = self._noise(embedding)
        search = self._search(embedding, run)
        published = Rewriting(corpus)
        private = np.flatnonzero(~corpus.where("public"))
        tally = _Tally()
        for batch in _batches(corpus, private, embedding):
            drawn = [self._draw(row, noise, corpus, run) for row in batch]
            word = np.concatenate([row.word for row in batch])
            in_vocabulary = word >= 0
            noisy = np.concatenate([each for each, _ in drawn])[in_vocabulary]
            noisy += vectors[word[in_vocabulary]]
            coin = np.concatenate([each for _, each in drawn])[in_vocabulary]
            output = np.full(len(word), -1, dtype=np.int64)
            if in_vocabulary.any():
                output[in_vocabulary] = self.choose(search, word[in_vocabulary], noisy, coin)
            tally.add(word, output)
            ends = np.cumsum([len(row.word) for row in batch])[:-1]
            for row, chosen in zip(batch, np.split(output, ends), strict=True):
                new = self._substitutes(row.pieces, chosen, embedding)
                places = zip(row.places, new, strict=True)
                published.words(row.at, [(*place, word) for place, word in places])
            run.progress("replace words", batch[-1].at + 1, len(corpus))
        self._note(tally, embedding, noise, run)
        worth = [noise.spent] if noise.spent else []
        return published.corpus(), self._events(spent(worth, self.params.epsilon))

    def word_channel(self, run: Run) -> WordChannel:
        """The mechanism at these parameters, for any words and any generator."""
        embedding = self._embedding()
        search = self._search(embedding, run)
        return EmbeddingChannel(embedding, self._noise(embedding), partial(self.choose, search))

    def _draw(
        self, row: _Row, noise: WordNoise, corpus: Corpus, run: Run
    ) -> tuple[FloatArray, FloatArray]:
        # The text is part of the key: the same noise on two texts would tell their difference.
        # Planted rows have no origin; their place tells copies apart.
        origin, user = int(corpus.origin[row.at]), int(corpus.users[row.at])
        place = row.at if origin < 0 else -1
        text = hashlib.sha256(corpus.texts[row.at].encode("utf-8", "surrogatepass")).hexdigest()
        rng = run.stream().rng("row", origin, user, place, text)
        return noise.sample(len(row.word), rng), rng.random(len(row.word))

    def _substitutes(
        self, pieces: list[str], chosen: IntArray, embedding: Embedding
    ) -> list[str | None]:
        unknown = {"keep": None, "mask": MASK, "drop": ""}[self.params.unknown]
        return [
            embedding.words[at] if at >= 0 else (piece if unknown is None else unknown or None)
            for piece, at in zip(pieces, chosen.tolist(), strict=True)
        ]

    def _embedding(self) -> Embedding:
        if self.params.embedding is None:
            raise InputError(f"{self.name} needs the parameter 'embedding': a file of word vectors")
        embedding = read_embedding(self.params.embedding, f"{self.name}.embedding")
        field = "embedding"
        if self.params.vocabulary:
            field = "vocabulary"
            words = read_words(self.params.vocabulary, f"{self.name}.vocabulary")
            embedding = restrict(embedding, words, f"{self.name}.vocabulary")
        if len(embedding.words) < self.candidates():
            raise InputError(
                f"{self.name}.{field} has {len(embedding.words)} words; at least "
                f"{self.candidates()} are needed"
            )
        return embedding

    def _search(self, embedding: Embedding, run: Run) -> Search:
        if self.params.search == "exact":
            return Nearest(embedding.vectors, run.device)
        return ApproximateNearest(embedding.vectors)

    def _approximate(self) -> str:
        return "" if self.params.search == "exact" else APPROXIMATE

    def _noise(self, embedding: Embedding) -> WordNoise:
        p = self.params
        return WordNoise(embedding.vectors, p.epsilon, p.weight, self.name)

    def _system(self, epsilon: float) -> MetricSystem:
        p = self.params
        named = "euclidean" if p.weight is None else f"mahalanobis, lambda {p.weight:g}"
        system: MetricSystem = MetricSystem.create(
            {"epsilon": epsilon, "metric": named, "words": p.words, "distances": p.distances}
        )
        return system

    def _note(self, tally: _Tally, embedding: Embedding, noise: WordNoise, run: Run) -> None:
        readings = {**_epsilons(embedding, noise, run), **dict(self.readings())}
        counts = {
            "words_replaced": tally.words,
            "words_unknown": tally.unknown,
            "words_unchanged": tally.unchanged,
        }
        # Training rows and test rows are published by two calls.
        total = {name: run.diagnostics.get(name, 0) + count for name, count in counts.items()}
        run.note(**total, epsilon_at=readings, simulation_only=list(counts))


@dataclass(frozen=True)
class _Row:
    at: int
    places: list[tuple[int, int]]
    pieces: list[str]
    word: IntArray


@dataclass
class _Tally:
    words: int = 0
    unknown: int = 0
    unchanged: int = 0

    def add(self, word: IntArray, output: IntArray) -> None:
        self.words += int((word >= 0).sum())
        self.unknown += int((word < 0).sum())
        self.unchanged += int(((word >= 0) & (word == output)).sum())


def _batches(corpus: Corpus, rows: IntArray, embedding: Embedding) -> Iterator[list[_Row]]:
    batch: list[_Row] = []
    size = 0
    for at in rows.tolist():
        text = corpus.texts[at]
        places = word_places(text, embedding)
        pieces = [text[start:end] for start, end in places]
        word = np.array([embedding.find(piece) for piece in pieces], dtype=np.int64)
        batch.append(_Row(at, places, pieces, word))
        size += len(pieces)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _epsilons(embedding: Embedding, noise: WordNoise, run: Run) -> dict[str, float]:
    """Epsilon d at percentiles of distances between words: a fact of the embedding alone."""
    count = len(embedding.words)
    if count < 2:
        return {}
    rng = np.random.Generator(np.random.PCG64(0))
    points = noise.coordinates(embedding.vectors)
    some = rng.choice(count, size=min(count, _SAMPLE), replace=False)
    _, nearest = Nearest(points, run.device)(points[some], excluded=some)
    first = rng.integers(count, size=10 * _SAMPLE)
    second = (first + rng.integers(1, count, size=10 * _SAMPLE)) % count
    pairs = np.linalg.norm(points[first] - points[second], axis=1)
    return {
        f"{kind}, {percent}th percentile": float(noise.epsilon * np.percentile(distances, percent))
        for kind, distances in (("nearest neighbour", nearest[:, 0]), ("random pair", pairs))
        for percent in (5, 50, 95)
    }
