"""Public word vectors: GloVe, fastText and word2vec text here, formats of libraries beside."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.components import component
from uedp_bench.errors import InputError, plain, shown
from uedp_bench.io.files import open_regular


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

    Args:
        name: name of an installed pipeline, or its folder.
        field: the parameter that names it, for messages.

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
    return None, _again(first, numbered)


def _again(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _vector(values: list[str], where: str) -> NDArray[np.float32]:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if not np.isfinite(vector).all():
        raise InputError(f"{where}: a value is not a finite number")
    return vector
