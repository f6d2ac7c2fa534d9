"""Public word vectors: read in several formats, and searched for nearest neighbours."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.components import component
from uedp_bench.components.component import FAISS
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError, plain, shown
from uedp_bench.io.files import open_regular

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Embedding:
    """A public vocabulary and a vector for each of its words.

    Attributes:
        words: words in the order of the file.
        vectors: (words, d) vectors, float32.
    """

    words: tuple[str, ...]
    vectors: NDArray[np.float32]

    @property
    def dimension(self) -> int:
        """Number of coordinates of a vector (d)."""
        return int(self.vectors.shape[1])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: at for at, word in enumerate(self.words)}

    def find(self, word: str) -> int:
        """Index of the word as it is written, else of its lower case; -1 for neither."""
        index = self._index.get(word)
        return self._index.get(word.lower(), -1) if index is None else index


GENSIM = (".kv", ".model", ".bin")
"""Endings of gensim's own files (KeyedVectors, or a model that has some) and word2vec's binary."""

SPACY = "spacy:"
"""Prefix of the name of an installed spaCy pipeline."""


def _read_gensim(path: Path, field: str) -> Embedding:
    """Vectors of `KeyedVectors.save`, of a saved model, or of a word2vec file in binary format.

    Raises:
        InputError: if it cannot be read, gensim is missing, or a vector is not finite.
    """
    component.GENSIM.check(field)
    from gensim.models import KeyedVectors
    from gensim.utils import SaveLoad

    try:
        if path.suffix == ".bin":
            loaded: Any = KeyedVectors.load_word2vec_format(str(path), binary=True)
        else:
            loaded = SaveLoad.load(str(path))
    except Exception as error:  # a pickle can fail in any way
        raise _unreadable(field, path, error) from None
    vectors = getattr(loaded, "wv", loaded)
    if not isinstance(vectors, KeyedVectors):
        raise InputError(f"{field}: {path} holds a {type(loaded).__name__}, no word vectors")
    return _embedding(vectors.index_to_key, vectors.vectors, f"{field}: {path.name}")


@lru_cache(maxsize=1)
def _read_spacy(name: str, field: str) -> Embedding:
    """The vectors of a spaCy pipeline; words that share a vector each have it.

    Raises:
        InputError: if there is no such pipeline, or it has no vectors.
    """
    import spacy

    try:
        vocabulary = spacy.load(name).vocab
    except Exception as error:  # a folder that is none can fail in any way
        raise _unreadable(field, name, error) from None
    table = vocabulary.vectors
    if not len(table.key2row):
        raise InputError(f"{field}: the spaCy pipeline {name} has no word vectors")
    keys = list(table.key2row)
    rows = np.array([table.key2row[key] for key in keys], dtype=np.int64)
    words = [vocabulary.strings[key] for key in keys]
    return _embedding(words, np.asarray(table.data)[rows], f"{field}: {name}")


def _embedding(words: Iterable[str], vectors: NDArray[Any], where: str) -> Embedding:
    """Make an embedding without words that no text can have between white space."""
    every = list(words)
    kept = [at for at, word in enumerate(every) if word.split() == [word]]
    table = np.asarray(vectors, dtype=np.float32)
    if len(every) != len(table):
        raise InputError(f"{where}: has {len(every)} words and {len(table)} vectors")
    if not kept:
        raise InputError(f"{where}: has no words")
    bad = np.flatnonzero(~np.isfinite(table[kept]).all(axis=1))
    if len(bad):
        word = every[kept[int(bad[0])]]
        raise InputError(f"{where}: a value of the word {word!r} is not a finite number")
    return Embedding(tuple(every[at] for at in kept), table[kept])


def _unreadable(field: str, where: Path | str, error: Exception) -> InputError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return InputError(f"{field}: {where} cannot be read: {lines[0]}")


def read_embedding(path: Path | str, field: str) -> Embedding:
    """Read the embedding in a file: text in UTF-8, `.gz` or plain, a word and d numbers a line.

    A first line of two whole numbers declares the number of words and d (fastText, word2vec).
    Files that end as gensim's do are read by it; a folder is a pipeline of spaCy, and
    `spacy:NAME` an installed one.

    Args:
        path: file, folder or `spacy:NAME`.
        field: the parameter that names it, for messages.

    Raises:
        InputError: if it cannot be read, or a line has another number of values than the first,
            a value that is no finite number, or a word that was there before; it names the line.
    """
    if str(path).startswith(SPACY):
        name = str(path).removeprefix(SPACY)
        if Path(name).is_dir():
            raise InputError(f"{field}: {path} is a folder; give it without {SPACY!r}")
        return _read_spacy(name, field)
    path = Path(path)
    if path.is_dir():
        return _read_spacy(str(path), field)
    try:
        status = path.stat()
        return _read(path.resolve(), field, status.st_mtime_ns, status.st_size)
    except UnicodeDecodeError as error:
        raise InputError(f"{field}: {path} is not UTF-8 (byte {error.start})") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{field}: {path} cannot be read: {reason}") from None


@lru_cache(maxsize=1)
def _read(path: Path, field: str, changed: int, size: int) -> Embedding:
    # Time and size are arguments so that a file that was written anew is read anew.
    if path.suffix in GENSIM:
        return _read_gensim(path, field)
    with open_regular(path, field) as raw:
        binary = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        with io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as file:
            return _parse(file, f"{field}: {plain(path.name)}")


def _parse(lines: Iterable[str], where: str) -> Embedding:
    declared, numbered = _header(lines)
    seen: dict[str, int] = {}
    rows: list[NDArray[np.float32]] = []
    width = None if declared is None else declared[1]
    for number, line in numbered:
        word, *values = line.rstrip(" \r\n").split(" ")
        if not values:
            raise InputError(f"{where}, line {number}: no vector; write a word and its numbers")
        if width is None:
            width = len(values)
        if len(values) != width:
            source = "the first line declares" if declared else "the first line has"
            raise InputError(
                f"{where}, line {number}: the word has {len(values)} numbers; {source} {width}"
            )
        if word in seen:
            raise InputError(
                f"{where}, line {number}: the word {shown(word)} is in line {seen[word]} already"
            )
        seen[word] = number
        rows.append(_vector(values, f"{where}, line {number}"))
    if declared is not None and declared[0] != len(rows):
        raise InputError(
            f"{where}: the first line declares {declared[0]} words; {len(rows)} follow"
        )
    if not rows:
        raise InputError(f"{where}: has no words")
    return Embedding(tuple(seen), np.stack(rows))


def _header(lines: Iterable[str]) -> tuple[tuple[int, int] | None, Iterator[tuple[int, str]]]:
    """Declared sizes, if the first line has them, and the numbered lines that are left."""
    numbered = enumerate(lines, start=1)
    first = next(numbered, None)
    if first is None:
        return None, iter(())
    fields = first[1].split()
    if len(fields) == 2 and all(field.isascii() and field.isdigit() for field in fields):
        return (int(fields[0]), int(fields[1])), numbered
    return None, chain([first], numbered)


def _vector(values: list[str], where: str) -> NDArray[np.float32]:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if not np.isfinite(vector).all():
        raise InputError(f"{where}: a value is not a finite number")
    return vector


# ------------------------------------------------------------------------------- nearest neighbours
# Exactly, by a blocked matrix product and exact distances, or by a graph.

_BLOCK_ENTRIES = 1 << 24
"""Scores held at once: 32 or 64 MiB."""

_PAIR_ENTRIES = 1 << 22
"""Numbers held at once while candidates are compared exactly."""

_HALVINGS = 5
"""Scores are looked at in groups of 2^5 points."""

_GROUPED = 4096
"""Fewer points than this are looked at one by one."""

_UNIT = 2.0**-23
"""Twice the unit roundoff of float32."""


class Nearest:
    """Find the points nearest to queries in Euclidean distance.

    Scores |y|^2 / 2 - x.y of queries x and points y come from one product in float32, with a bound
    on its error. All points whose score is within the bound of the k-th best are compared in
    float64, so the result is that of comparing every pair in float64; equal distances go to the
    smaller index.

    Args:
        points: (points, d).
        device: torch device of the products.
    """

    def __init__(self, points: NDArray[Any], device: str = "cpu") -> None:
        import torch

        self._points: FloatArray = np.asarray(points, dtype=np.float64)
        self._halvings = _HALVINGS if len(self._points) >= _GROUPED else 0
        # The mean of the points changes no distance, and without it numbers are small.
        self._mean: FloatArray = self._points.mean(axis=0)
        moved = self._points - self._mean
        norms = (moved**2).sum(axis=1)
        table = torch.from_numpy(-moved).float()
        half = torch.from_numpy(norms / 2).float()
        self._far = float(_norms(self._points).max())
        self._largest = float(np.sqrt(norms.max()))
        self._residual = float(_norms(moved + table.double().numpy()).max())
        self._half_residual = float(np.abs(half.double().numpy() - norms / 2).max())
        padding = -len(moved) % 2**self._halvings
        self._table = torch.nn.functional.pad(table, (0, 0, 0, padding)).to(device)
        self._half = torch.nn.functional.pad(half, (0, padding), value=torch.inf).to(device)

    def __call__(
        self, queries: FloatArray, k: int = 1, excluded: IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Indices and distances (queries, k) of the k nearest points, nearest first.

        Args:
            queries: (queries, d), float64.
            k: at most the number of points, less one where one is excluded.
            excluded: (queries,) a point for each query that does not count.

        Raises:
            ValueError: if there are not so many points.
        """
        points = len(self._points)
        if not 1 <= k <= points - (excluded is not None):
            raise ValueError(f"k is {k}; there are {points} points")
        indices = np.empty((len(queries), k), dtype=np.int64)
        distance = np.empty((len(queries), k))
        block = max(1, _BLOCK_ENTRIES // points)
        for start in range(0, len(queries), block):
            part = slice(start, start + block)
            without = None if excluded is None else excluded[part]
            owner, candidate = self._candidates(queries[part], k, without)
            indices[part], distance[part] = self._best(queries[part], owner, candidate, k)
        return indices, distance

    def _candidates(
        self, queries: FloatArray, k: int, excluded: IntArray | None
    ) -> tuple[IntArray, IntArray]:
        """(query, point) of all pairs that can be among the k nearest, ordered by query."""
        import torch

        scores, error = self._scores(queries)
        if excluded is not None:
            rows = torch.arange(len(queries), device=scores.device)
            scores[rows, torch.from_numpy(excluded).to(scores.device)] = torch.inf
        least = scores
        # Group g holds the points g, g + groups, ...: halves are compared entry by entry.
        for _ in range(self._halvings if k <= scores.shape[1] >> self._halvings else 0):
            middle = least.shape[1] // 2
            least = torch.minimum(least[:, :middle], least[:, middle:])
        # The k-th best group is no better than the k-th best point.
        kth = least.amin(1) if k == 1 else least.topk(k, largest=False).values[:, -1]
        limit = self._limit(kth, error)
        row, group = (least <= limit[:, None]).nonzero(as_tuple=True)
        members = torch.arange(0, scores.shape[1], least.shape[1], device=scores.device)
        point = group[:, None] + members
        pair, place = (scores[row[:, None], point] <= limit[row, None]).nonzero(as_tuple=True)
        owner, candidate = row[pair].cpu().numpy(), point[pair, place].cpu().numpy()
        counts = candidate < len(self._points)  # the rest is padding
        if excluded is not None:
            counts &= candidate != excluded[owner]
        return owner[counts], candidate[counts]

    def _scores(self, queries: FloatArray) -> tuple[Tensor, FloatArray]:
        """(queries, points and padding) scores, and what rounding changed of a query's at most."""
        import torch

        dimension = queries.shape[1]
        moved = queries - self._mean
        rounded = torch.from_numpy(moved).float()
        scores = torch.nn.functional.linear(rounded.to(self._table.device), self._table, self._half)
        cast = rounded.double().numpy()
        reach, far = _norms(moved) + self._largest, _norms(queries) + self._far
        error = _norms(moved - cast) * self._largest + _norms(cast) * self._residual
        error += self._half_residual
        # Sums of products in float32, in any order.
        error += (dimension + 8) * _UNIT * (_norms(cast) + self._largest) * (2 * self._largest)
        # Errors of the move, and of comparing in float64.
        error += (dimension + 8) * 2.0**-51 * reach * (reach + far)
        return scores, error

    def _limit(self, kth: Tensor, error: FloatArray) -> Tensor:
        """(queries,) scores above which no point is among the k nearest.

        Args:
            kth: (queries,) the k-th smallest score, or more.
            error: as `_scores` returned it.
        """
        import torch

        # The score of a point is within `error` and one rounding of the true one, both ways.
        top = kth.double().cpu().numpy()
        top = top + _UNIT * np.abs(top) + 2.0 * error
        top = np.where(top > 0, top / (1.0 - _UNIT), top / (1.0 + _UNIT))
        nearest = torch.from_numpy(top).float()
        return torch.nextafter(nearest, torch.full_like(nearest, torch.inf)).to(kth.device)

    def _best(
        self, queries: FloatArray, owner: IntArray, candidate: IntArray, k: int
    ) -> tuple[IntArray, FloatArray]:
        squared = np.empty(len(owner))
        step = max(1, _PAIR_ENTRIES // queries.shape[1])
        for start in range(0, len(owner), step):
            part = slice(start, start + step)
            difference = queries[owner[part]] - self._points[candidate[part]]
            squared[part] = (difference**2).sum(axis=1)
        order = np.lexsort((candidate, squared, owner))
        first = np.searchsorted(owner, np.arange(len(queries)))
        chosen = order[first[:, None] + np.arange(k)]
        return candidate[chosen], np.sqrt(squared[chosen])


def _norms(rows: FloatArray) -> FloatArray:
    norms: FloatArray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


_LINKS, _BREADTH = 32, 64


class ApproximateNearest:
    """Points that a graph of faiss (HNSW) finds near to queries; called as `Nearest` is.

    Args:
        points: (points, d).
    """

    def __init__(self, points: NDArray[Any]) -> None:
        FAISS.check()
        import faiss

        self._points: FloatArray = np.asarray(points, dtype=np.float64)
        self._index = faiss.IndexHNSWFlat(int(points.shape[1]), _LINKS)
        self._index.hnsw.efSearch = _BREADTH
        threads = faiss.omp_get_max_threads()
        # Threads add points in an order of their own, and the graph depends on it.
        faiss.omp_set_num_threads(1)
        try:
            self._index.add(np.ascontiguousarray(points, dtype=np.float32))
        finally:
            faiss.omp_set_num_threads(threads)

    def __call__(
        self, queries: FloatArray, k: int = 1, excluded: IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Indices and distances (queries, k), nearest first; see `Nearest`.

        Raises:
            ValueError: if there are not so many points.
        """
        points = len(self._points)
        if not 1 <= k <= points - (excluded is not None):
            raise ValueError(f"k is {k}; there are {points} points")
        wanted = k + (excluded is not None)
        indices = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), wanted)[1]
        indices = indices.astype(np.int64)
        difference = queries[:, None, :] - self._points[indices]
        distance = np.sqrt((difference**2).sum(axis=2))
        # Places that the graph did not reach are -1.
        distance[indices < 0] = np.inf
        if excluded is not None:
            distance[indices == excluded[:, None]] = np.inf
        order = np.lexsort((indices, distance), axis=1)[:, :k]
        nearest, far = (np.take_along_axis(each, order, axis=1) for each in (indices, distance))
        lost = np.flatnonzero(np.isinf(far).any(axis=1))
        if len(lost):
            without = None if excluded is None else excluded[lost]
            nearest[lost], far[lost] = Nearest(self._points)(queries[lost], k, without)
        return nearest, far
