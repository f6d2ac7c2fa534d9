"""Public text from files, added to a corpus as its split `public`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus, IntArray
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources._read import open_text

if TYPE_CHECKING:
    from uedp_bench.source import SourceParams

PUBLIC = SPLITS.index("public")
ROWS_PER_USER = 20
"""Files of plain text have no authors: this many consecutive lines count as one."""


def add_public(corpus: Corpus, params: SourceParams) -> Corpus:
    """The corpus with the rows of the files in `params.public` appended as split `public`.

    With `params.valid_is_public`, the corpus' own split `valid` is public too. Appended rows have
    users of their own, no entities, no label and no attributes. At most `params.public_rows` public
    rows are kept, those that the source made itself first.

    Raises:
        InputError: for a file that is missing, unreadable or without a sentence, or if users of the
            split `valid` are to be public and train as well.
    """
    if params.valid_is_public:
        _check_apart(corpus)
        corpus = corpus.with_split(corpus.where("valid"), "public")
    own = np.flatnonzero(corpus.split == PUBLIC)
    room = None if params.public_rows is None else max(params.public_rows - len(own), 0)
    texts = read_public(params.public, room)
    if texts:
        corpus = _append(corpus, texts)
    if params.public_rows is not None and len(own) > params.public_rows:
        keep = np.setdiff1d(np.arange(len(corpus)), own[params.public_rows :])
        corpus = replace(corpus.take(keep), origin=np.arange(len(keep)))
    return corpus


def _check_apart(corpus: Corpus) -> None:
    """Text of a training user that were called public would be trained on without protection."""
    train, valid = (np.unique(corpus.users[corpus.where(name)]) for name in ("train", "valid"))
    both = np.intersect1d(train, valid)
    shared = int((both >= 0).sum())
    if shared:
        raise InputError(
            f"valid_is_public: {shared} users of the split valid are in train too, so their text "
            "is not public; only text of other users can be"
        )


def read_public(files: tuple[Path, ...], room: int | None = None) -> list[str]:
    """Sentences of all files in order, at most `room`; every file must hold one.

    Raises:
        InputError: for a file that is missing, unreadable or without a sentence.
    """
    texts: list[str] = []
    for path in files:
        with open_text(path, "public") as lines:
            sentences = _sentences(lines)
            first = next(sentences, None)
            if first is None:
                raise InputError(f"public: {path} holds no sentence")
            left = None if room is None else room - len(texts)
            texts += islice(chain([first], sentences), left)
    return texts


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    """Lines with single spaces; blank ones and WikiText headings (` = = Title = = `) are left out.

    A heading is a line that starts and ends with an equals sign.
    """
    for raw in lines:
        line = " ".join(raw.split())
        if line and not (line[0] == "=" == line[-1]):
            yield line


def _append(corpus: Corpus, texts: list[str]) -> Corpus:
    rows = len(texts)

    def extend(column: IntArray, value: int = -1) -> IntArray:
        return np.concatenate([column, np.full(rows, value, dtype=np.int64)])

    users = corpus.user_count + np.arange(rows) // ROWS_PER_USER
    groups = {name: extend(ids) for name, ids in corpus.groups.items()}
    groups["user"] = np.concatenate([corpus.users, users])
    return replace(
        corpus,
        texts=(*corpus.texts, *texts),
        groups=groups,
        split=extend(corpus.split, PUBLIC),
        labels=None if corpus.labels is None else extend(corpus.labels),
        attributes={name: extend(ids) for name, ids in corpus.attributes.items()},
        origin=np.arange(len(corpus) + rows),
        targets=None if corpus.targets is None else (*corpus.targets, *([""] * rows)),
    )
