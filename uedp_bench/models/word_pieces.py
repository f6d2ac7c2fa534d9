"""Rows of words cut into pieces, and vectors of words that a frozen encoder gave."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile

import numpy as np

from uedp_bench.contracts.learner import Batch
from uedp_bench.contracts.model import Vocabulary
from uedp_bench.corpus import FeatureArray, IntArray
from uedp_bench.models.word_rows import Padding, padded
from uedp_bench.text.vector_cache import different_vectors


@dataclass(frozen=True, eq=False)
class PieceRows:
    """Pieces of words, and where each word begins; see `WordRows`.

    Attributes:
        tokens: (pieces of all rows,) ids, begin and end of each row among them.
        pieces: pieces of the rows.
        first: (words of all rows,) place in its row of each word's first piece.
        words: words of the rows.
        truncated, row_size: see `WordRows`.
    """

    tokens: IntArray
    pieces: Padding
    first: IntArray
    words: Padding
    truncated: int
    row_size: int

    @property
    def lengths(self) -> IntArray:
        """(rows,) words that are read."""
        return self.words.lengths

    def batch(self, rows: IntArray) -> Batch:
        """`tokens` (rows, pieces), `pieces`, `lengths` (rows,), `first` (rows, words)."""
        import torch

        arrays = {
            "tokens": padded(self.tokens, *self.pieces.table(rows)),
            "pieces": self.pieces.lengths[rows],
            "first": padded(self.first, *self.words.table(rows)),
            "lengths": self.lengths[rows],
        }
        return {name: torch.from_numpy(value) for name, value in arrays.items()}


@dataclass(frozen=True, eq=False)
class VectorRows:
    """Vectors of words; see `WordRows`.

    Attributes:
        vectors: (different words in their rows, size).
        which: (words of all rows,) numbers of their vectors.
        words: words of the rows.
        truncated, row_size: see `WordRows`.
    """

    vectors: FeatureArray
    which: IntArray
    words: Padding
    truncated: int
    row_size: int

    @property
    def lengths(self) -> IntArray:
        """(rows,) words that have a vector."""
        return self.words.lengths

    def batch(self, rows: IntArray) -> Batch:
        """`vectors` (rows, words, size), 0 in the padding, and `lengths` (rows,)."""
        import torch

        at, inside = self.words.table(rows)
        vectors = padded(self.vectors, padded(self.which, at, inside), inside)
        return {
            "vectors": torch.from_numpy(vectors),
            "lengths": torch.from_numpy(self.lengths[rows]),
        }


def read_pieces(
    words: Sequence[Sequence[str]], vocabulary: Vocabulary, limit: int, *, numbers: int
) -> PieceRows:
    """Pieces of each word by itself, as the tokenizer cuts it after a space.

    A word that the tokenizer leaves nothing of is one unknown piece. A row has the words whose
    first piece is within the limit.

    Args:
        words: words of each row.
        vocabulary: vocabulary of pieces.
        limit: most tokens of a row, begin and end included.
        numbers: count of numbers that a network needs for a piece.
    """
    pieces = pieces_of(words, vocabulary)
    room, tokens, first, lengths, truncated = limit - 2, [], [], [], 0
    for row in words:
        cut = [pieces[min(at, 1), word] for at, word in enumerate(row)]
        starts = np.cumsum([0, *(len(each) for each in cut)])
        ids = list(chain.from_iterable(cut))
        tokens.append([vocabulary.begin, *ids[:room], vocabulary.end])
        first.append([int(at) + 1 for at in takewhile(lambda at: at < room, starts[:-1])])
        lengths.append(len(tokens[-1]))
        truncated += len(ids) > room
    return PieceRows(
        tokens=_flat(tokens),
        pieces=Padding(np.array(lengths, dtype=np.int64)),
        first=_flat(first),
        words=Padding(np.array([len(row) for row in first], dtype=np.int64)),
        truncated=truncated,
        row_size=max(lengths, default=1) * numbers,
    )


def _flat(rows: Sequence[Sequence[int]]) -> IntArray:
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64)


def pieces_of(
    words: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> dict[tuple[int, str], list[int]]:
    """Pieces by word, at the begin of a row (0) and after another word (1)."""
    # Byte-level tokenizers have a space as part of the piece that it stands before.
    both, one, other = vocabulary.encode(["a b", "a", "b"])
    leads = ("", "" if both == one + other else " ")
    unknown = vocabulary.end if vocabulary.unknown is None else vocabulary.unknown
    ids_by_word = {}
    for place, lead in enumerate(leads):
        seen = sorted({word for row in words for word in (row[1:] if place else row[:1])})
        for word, ids in zip(seen, vocabulary.encode([lead + word for word in seen]), strict=True):
            ids_by_word[place, word] = ids or [unknown]
    return ids_by_word


def read_vectors(
    words: Sequence[Sequence[str]],
    read: PieceRows,
    key: Sequence[object],
    compute: Callable[[Sequence[Sequence[str]]], FeatureArray],
    size: int,
) -> VectorRows:
    """Vectors of words, kept on disk: each by the words of its row and its place among them.

    Args:
        words: words of each row.
        read: pieces of them that an encoder reads.
        key: everything but the words that the vectors depend on.
        compute: function from rows to (words, size) vectors of all their words.
        size: size of a vector.
    """
    places = []
    for row, length in zip(words, read.lengths.tolist(), strict=True):
        encoded_row = json.dumps(list(row[:length]))
        places += [f"{encoded_row}\n{at:09d}" for at in range(length)]

    def of_places(some: list[str]) -> FeatureArray:
        encoded_rows, at = zip(*(place.rsplit("\n", 1) for place in some), strict=True)
        rows = {row: json.loads(row) for row in dict.fromkeys(encoded_rows)}
        starts = dict(
            zip(rows, np.cumsum([0, *map(len, rows.values())])[:-1].tolist(), strict=True)
        )
        vectors = compute(list(rows.values()))
        chosen: FeatureArray = vectors[
            [starts[row] + int(i) for row, i in zip(encoded_rows, at, strict=True)]
        ]
        return chosen

    vectors, which = np.empty((0, size), np.float32), np.zeros(0, np.int64)
    if places:
        vectors, which = different_vectors(key, places, of_places, cache=True)
    longest = max(int(read.lengths.max(initial=1)), 1)
    return VectorRows(vectors, which, read.words, read.truncated, longest * size)
