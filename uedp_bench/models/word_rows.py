"""Rows of words as padded tensors: their ids, features, pieces, and vectors of a frozen encoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.learner import Batch
from uedp_bench.corpus import BoolArray, FeatureArray, IntArray
from uedp_bench.models.word_vocabularies import WordVocabulary
from uedp_bench.text.pretrained import different_vectors

_UNKNOWN, _BEGIN, _END = 1, 2, 3  # 0 stands for no character
_KNOWN = (*range(0x20, 0x7F), *range(0xA0, 0x180))
_IDS = {chr(code): _END + 1 + at for at, code in enumerate(_KNOWN)}
ALPHABET = _END + 1 + len(_KNOWN)
"""Ids of characters: none, unknown, begin and end of a word, ASCII, and the letters of Latin-1 and
of Latin Extended-A. It is fixed, so that no text is looked at to make it."""

CASES = 8
"""Ids of `case_of`."""

MOST_CHARACTERS = 20
"""Characters of a word that count: a longer one keeps its first and its last ten."""


class WordFeatures(NamedTuple):
    """Features of different words.

    Attributes:
        characters: (words, longest) ids with begin and end of the word, 0 after the last.
        cases: (words,) see `case_of`.
    """

    characters: IntArray
    cases: IntArray


def features_of(words: Sequence[str]) -> WordFeatures:
    """Read the features of words."""
    ids = [_characters(word) for word in words]
    table = np.zeros((len(words), MOST_CHARACTERS + 2), dtype=np.int64)
    for row, characters in zip(table, ids, strict=True):
        row[: len(characters)] = characters
    return WordFeatures(table, np.array([case_of(word) for word in words], dtype=np.int64))


def _characters(word: str) -> list[int]:
    if len(word) > MOST_CHARACTERS:
        half = MOST_CHARACTERS // 2
        word = word[:half] + word[-half:]
    return [_BEGIN, *(_IDS.get(character, _UNKNOWN) for character in word), _END]


def case_of(word: str) -> int:
    """0 neither letters nor digits; 1 digits alone; 2 digits without letters; 3 both.

    Letters alone: 4 all lower; 5 all upper (two or more); 6 the first upper; 7 mixed.
    """
    digits = any(character.isdigit() for character in word)
    letters = [character for character in word if character.isalpha()]
    if not letters:
        return (1 if word.isdigit() else 2) if digits else 0
    if digits:
        return 3
    upper = [letter.isupper() for letter in letters]
    if not any(upper):
        return 4
    if all(upper):
        return 5 if len(upper) > 1 else 6
    return 6 if upper[0] and not any(upper[1:]) else 7


class Padding:
    """Positions of the items of ragged rows, and tables of some rows.

    Args:
        lengths: (rows,) items of each row, which lie one row after the other.
    """

    def __init__(self, lengths: IntArray) -> None:
        self.lengths = lengths
        self._starts: IntArray = np.cumsum(lengths) - lengths

    def table(self, rows: IntArray) -> tuple[IntArray, BoolArray]:
        """(rows, longest) numbers of the items, and where there is one; at least one column."""
        lengths = self.lengths[rows]
        columns = np.arange(max(int(lengths.max(initial=1)), 1))
        inside: BoolArray = columns < lengths[:, None]
        return np.where(inside, self._starts[rows][:, None] + columns, 0), inside


def padded(items: NDArray[Any], at: IntArray, inside: BoolArray) -> NDArray[Any]:
    """(rows, longest, ...) items by their numbers, 0 where there is none."""
    if not len(items):
        return np.zeros((*at.shape, *items.shape[1:]), dtype=items.dtype)
    table = items[at]
    table[~inside] = 0
    return table


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Word ids, and the features of words; see `WordRows`.

    Attributes:
        tokens: (words of all rows,) ids in the vocabulary.
        which: (words of all rows,) numbers in the table of features.
        features: features of different words.
        padding: padding of the rows.
        truncated, row_size: see `WordRows`.
    """

    tokens: IntArray
    which: IntArray
    features: WordFeatures
    padding: Padding
    truncated: int
    row_size: int

    @property
    def lengths(self) -> IntArray:
        """(rows,) words that are read."""
        return self.padding.lengths

    def batch(self, rows: IntArray) -> Batch:
        """`tokens`, `cases` (rows, words), `characters` (rows, words, longest), `lengths`."""
        import torch

        at, inside = self.padding.table(rows)
        which = padded(self.which, at, inside)
        characters = padded(self.features.characters, which, inside)
        longest = int((characters > 0).sum(axis=2).max(initial=1))
        arrays = {
            "tokens": padded(self.tokens, at, inside),
            "lengths": self.lengths[rows],
            "characters": np.ascontiguousarray(characters[:, :, :longest]),
            "cases": padded(self.features.cases, which, inside),
        }
        return {name: torch.from_numpy(value) for name, value in arrays.items()}


def read_features(
    words: Sequence[Sequence[str]],
    vocabulary: WordVocabulary,
    max_tokens: int,
    numbers: int,
) -> FeatureRows:
    """Rows of ids, each of the word as it is written, else in lower case, else unknown.

    Args:
        words: words of each row.
        vocabulary: gives the ids.
        max_tokens: words of a row past this many are left out.
        numbers: count of numbers that a network needs for a word.
    """
    kept = [row[:max_tokens] for row in words]
    lengths = np.array([len(row) for row in kept], dtype=np.int64)
    numbered: dict[str, int] = {}
    which = np.array(
        [numbered.setdefault(word, len(numbered)) for word in chain.from_iterable(kept)],
        dtype=np.int64,
    )
    return FeatureRows(
        tokens=np.array([vocabulary.id_of(word) for word in numbered], dtype=np.int64)[which],
        which=which,
        features=features_of(list(numbered)),
        padding=Padding(lengths),
        truncated=sum(len(row) > max_tokens for row in words),
        row_size=max(int(lengths.max(initial=1)), 1) * numbers,
    )


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
        return vectors[[starts[row] + int(i) for row, i in zip(encoded_rows, at, strict=True)]]

    vectors, which = np.empty((0, size), np.float32), np.zeros(0, np.int64)
    if places:
        vectors, which = different_vectors(key, places, of_places, cache=True)
    longest = max(int(read.lengths.max(initial=1)), 1)
    return VectorRows(vectors, which, read.words, read.truncated, longest * size)
