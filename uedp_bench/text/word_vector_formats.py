"""Word vectors as gensim and spaCy write them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench import requirements
from uedp_bench.errors import InputError
from uedp_bench.text.embedding import Embedding

GENSIM = (".kv", ".model", ".bin")
"""Endings of gensim's own files (KeyedVectors, or a model that has some) and word2vec's binary."""

SPACY = "spacy:"
"""Begins the name of an installed spaCy pipeline."""


def read_gensim(path: Path, field: str) -> Embedding:
    """Vectors of `KeyedVectors.save`, of a saved model, or of a word2vec file in binary format.

    Raises:
        InputError: if it cannot be read, gensim is missing, or a vector is not finite.
    """
    requirements.GENSIM.check(field)
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
def read_spacy(name: str, field: str) -> Embedding:
    """The vectors of a spaCy pipeline; words that share a vector each have it.

    Args:
        name: of an installed pipeline, or its folder.
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
    """Words that no text can have between white space, and the empty one, are left out."""
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
