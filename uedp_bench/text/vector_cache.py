"""Vectors of texts by pretrained encoders, kept on disk text by text.

A text is computed once, whatever texts are asked for beside it. Vectors lie in
`$UEDP_BENCH_CACHE`, else in `~/.cache/uedp-bench`, in parts that are written as they are computed,
so that a run that is stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from uedp_bench.corpus import BoolArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.io.array_cache import load_arrays, save_arrays
from uedp_bench.io.cache_folder import cache_folder

if TYPE_CHECKING:
    from uedp_bench.corpus import FeatureArray

_FORMAT = 2  # of the cached files; raised when the same key would mean something else
_PART = 4096
"""Texts computed before their vectors are written."""

Compute = Callable[[list[str]], "FeatureArray"]
Names = NDArray[np.uint64]


def cached_vectors(
    key: Sequence[object], texts: Sequence[str], compute: Compute, *, cache: bool
) -> FeatureArray:
    """Vector of each text; see `different_vectors`."""
    vectors, which = different_vectors(key, texts, compute, cache=cache)
    chosen: FeatureArray = vectors[which]
    return chosen


def different_vectors(
    key: Sequence[object], texts: Sequence[str], compute: Compute, *, cache: bool
) -> tuple[FeatureArray, IntArray]:
    """Vectors of texts; equal texts are computed once, and kept on disk for the next run.

    Args:
        key: everything but the texts that the vectors depend on.
        texts: at least one.
        compute: function from n different texts, sorted, to (n, size) vectors.
        cache: False neither reads nor writes files.

    Returns:
        (different texts, size) vectors, and (texts,) which of them is a text's.

    Raises:
        InputError: if a vector is not finite.
    """
    unique = sorted(set(texts))
    vectors = _kept(key, unique, compute) if cache else _finite(compute(unique))
    at = {text: index for index, text in enumerate(unique)}
    return vectors, np.fromiter((at[text] for text in texts), dtype=np.int64, count=len(texts))


def _kept(key: Sequence[object], unique: list[str], compute: Compute) -> FeatureArray:
    model = hashlib.sha256(json.dumps([_FORMAT, *key]).encode()).hexdigest()[:16]
    folder = cache_folder() / "vectors" / model
    names = np.array([_name(text) for text in unique], dtype=np.uint64)
    try:
        (folder / "locks").mkdir(parents=True, exist_ok=True)
    except OSError:
        return _finite(compute(unique))
    held = _Held(folder, names)
    held.read()
    while len(missing := np.flatnonzero(~held.present)[:_PART]):
        # Another process with the same texts waits for a part of them, and reads it.
        with FileLock(folder / "locks" / _digest(names[missing])[:2]):
            held.read()
            rows = missing[~held.present[missing]]
            if len(rows):
                vectors = _finite(compute([unique[row] for row in rows]))
                held.put(rows, vectors)
                _write(folder, names[rows], vectors)
    if held.vectors is None:
        raise ValueError("at least one text is needed")
    return held.vectors


class _Held:
    """Vectors by name that were read or computed so far.

    Args:
        folder: folder of the parts.
        names: (names,) wanted names.

    Attributes:
        present: (names,) True where there is a vector.
        vectors: (names, size) vectors where present; None as long as there is none.
    """

    def __init__(self, folder: Path, names: Names) -> None:
        self._folder, self._names = folder, names
        self._seen: set[Path] = set()
        self.present: BoolArray = np.zeros(len(names), dtype=bool)
        self.vectors: FeatureArray | None = None

    def read(self) -> None:
        """Read new parts."""
        for file in sorted(set(self._folder.glob("*.npz")) - self._seen):
            self._seen.add(file)
            names = _names_in(file)
            at = np.searchsorted(names, self._names)
            hit = at < len(names)
            hit[hit] = names[at[hit]] == self._names[hit]
            vectors = load_arrays(file, partial(_vectors_at, at[hit])) if hit.any() else None
            if vectors is not None:
                self.put(np.flatnonzero(hit), vectors)

    def put(self, rows: IntArray, vectors: FeatureArray) -> None:
        """Set vectors (rows, size) of some of the names."""
        if self.vectors is None:
            self.vectors = np.empty((len(self._names), vectors.shape[1]), np.float32)
        self.vectors[rows] = vectors
        self.present[rows] = True


_names_of: dict[Path, Names] = {}
"""Names in parts that were read before: a part is called by its names, and they never change."""


def _names_in(file: Path) -> Names:
    """The names in a part, sorted; none in one that is damaged."""
    if file in _names_of:
        return _names_of[file]
    names = load_arrays(file, _names_at)
    if names is None:
        return np.empty(0, dtype=np.uint64)
    _names_of[file] = names
    return names


def _names_at(data: Mapping[str, Any]) -> Names:
    names: Names = data["names"]
    return names


def _vectors_at(rows: IntArray, data: Mapping[str, Any]) -> FeatureArray:
    vectors: FeatureArray = data["vectors"][rows]
    return vectors


def _write(folder: Path, names: Names, vectors: FeatureArray) -> None:
    order = np.argsort(names)
    file = folder / f"{_digest(names[order])}.npz"
    save_arrays(file, "vectors of texts", names=names[order], vectors=vectors[order])


def _digest(names: Names) -> str:
    return hashlib.sha256(names.tobytes()).hexdigest()[:16]


def _name(text: str) -> int:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def _finite(vectors: FeatureArray) -> FeatureArray:
    if not np.isfinite(vectors).all():
        raise InputError("the pretrained encoder gives vectors that are not finite numbers")
    return vectors
