"""Keys of rows, users and entities: rows by key, normal forms of names, and names as digests.

Normal forms decide if two spellings are one person or entity. Ids (of users, rows, records, coins,
classes) keep their case; surfaces (of entities, and words that texts are compared by) lose it. Both
lose characters that nobody sees.

Names as digests are the keys of public randomness. A name depends on nobody else: it is that of the
data (a user's id, a row's id), or else the content of the row itself. So whatever is drawn by it
(`uedp_bench.corpus.stable_names`) stays as it is when others come or go.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from uedp_bench.data.table_columns import text_of

IntArray = NDArray[np.int64]
"""Ids, counts and row numbers."""

BoolArray = NDArray[np.bool_]
"""Masks."""

FloatArray = NDArray[np.float64]
"""Scores and vectors, in double precision."""

FeatureArray = NDArray[np.float32]
"""Vectors of a frozen encoder, in single precision."""


def distinct(ids: IntArray) -> IntArray:
    """The different ids, sorted, as `np.unique` gives them; without its table of all rows.

    Args:
        ids: (rows,) ids, dense from 0, -1 for none: each of them is counted.
    """
    return np.flatnonzero(np.bincount(ids + 1)) - 1


@dataclass(frozen=True, eq=False)
class Index:
    """Rows of each key in compressed form: key k has rows `rows[offsets[k]:offsets[k + 1]]`."""

    offsets: IntArray
    rows: IntArray

    @staticmethod
    def build(keys: IntArray, rows: IntArray, size: int) -> Index:
        """Index of (key, row) pairs; each pair is kept once, negative keys are left out."""
        inside = keys >= 0
        if not inside.all():
            keys, rows = keys[inside], rows[inside]
        if len(keys) and (np.diff(rows) <= 0).any():  # else every row stands there once, in order
            width = int(rows.max()) + 1
            keys, rows = np.divmod(np.unique(keys * width + rows), width)
        counts = np.bincount(keys, minlength=size)
        order = np.argsort(keys, kind="stable")
        return Index(np.concatenate([[0], np.cumsum(counts)]), rows[order])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> IntArray:
        """(keys,) number of rows of each key."""
        return np.diff(self.offsets)

    def __getitem__(self, key: int) -> IntArray:
        return self.rows[self.offsets[key] : self.offsets[key + 1]]

    def take(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of several keys at once: (position in `keys`, row), both (pairs,)."""
        counts = self.counts[keys]
        owner = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return owner, self.rows[self.offsets[keys][owner] + within]


_IGNORABLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\N{ZERO WIDTH NO-BREAK SPACE}]+")
"""Characters without a picture of their own: soft hyphens, joiners, variation selectors, marks."""
_WHOLE_FLOAT = re.compile(r"([+-]?\d+)\.0+")
"""Whole number as written by a table whose column also had an empty cell."""


def without_ignorables(text: str) -> str:
    """Remove the characters that Unicode lets a reader ignore (UAX #44)."""
    return _IGNORABLE.sub("", text)


def normal_id(value: Any) -> str:
    """Normal form of an id: numbers by value, Unicode NFC, no ignorable character, case kept.

    7, 7.0, "7" and "7.0" are one id; "007" is another.

    Args:
        value: text or number, as a file gives it.
    """
    text = unicodedata.normalize("NFC", without_ignorables(text_of(value))).strip()
    whole = _WHOLE_FLOAT.fullmatch(text)
    return whole[1] if whole else text


def normal_spelling(word: str) -> str:
    """Normal form of a word whose case counts: NFKC, no ignorable character, single spaces."""
    return " ".join(without_ignorables(unicodedata.normalize("NFKC", word)).split())


def normal_surface(surface: str) -> str:
    """Normal form of a surface: NFKC, no ignorable character, case-folded, single spaces.

    Folding can undo a composition, so the form is composed again (Unicode, chapter 3, D147).
    """
    if surface.isascii():
        return " ".join(surface.split()).casefold()
    seen = without_ignorables(unicodedata.normalize("NFKC", surface)).casefold()
    return " ".join(unicodedata.normalize("NFKC", seen).split())


NameArray = NDArray[np.uint8]
"""(names, 16) digests; two names agree only where two documents without names have equal rows."""

WIDTH = 16
"""Bytes of a name."""


class Names:
    """Names in the order of rows, or of user ids; computed when they are first needed.

    Args:
        make: function that returns the names (names, 16).
        of_content: True if some of them are made of content, so that a unit whose content is
            replaced has another one.
    """

    def __init__(self, make: Callable[[], NameArray], *, of_content: bool) -> None:
        self._make: Callable[[], NameArray] | None = make
        self._array: NameArray | None = None
        self.of_content = of_content

    @property
    def array(self) -> NameArray:
        """(names, 16) the digests."""
        if self._array is None and self._make is not None:
            self._array, self._make = self._make(), None
        if self._array is None:
            raise RuntimeError("names are neither computed nor can they be")
        return self._array

    def take(self, rows: IntArray) -> Names:
        """Names of some rows."""
        return Names(lambda: self.array[rows], of_content=self.of_content)

    def followed_by(self, other: Names) -> Names:
        """These names, then those of `other`."""
        return Names(
            lambda: np.concatenate([self.array, other.array]),
            of_content=self.of_content or other.of_content,
        )

    def __getstate__(self) -> tuple[NameArray, bool]:
        return self.array, self.of_content

    def __setstate__(self, state: tuple[NameArray, bool]) -> None:
        self._make = None
        self._array, self.of_content = state


def digest_of(*parts: str | bytes) -> bytes:
    """Digest (16 bytes) of a name of several parts, the first of which is its kind."""
    hashed = blake2b(digest_size=WIDTH)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hashed.update(len(content).to_bytes(8, "little") + content)
    return hashed.digest()


def as_array(digests: Iterable[bytes]) -> NameArray:
    """Pack digests into an array (names, 16)."""
    packed = bytearray()
    for digest in digests:
        packed += digest  # joining them would hold an object a name
    return np.frombuffer(bytes(packed), dtype=np.uint8).reshape(-1, WIDTH)


def names_of_ids(kind: str, ids: Iterable[object], *, of_content: bool = False) -> Names:
    """Names made of ids in their normal form (`normal_id`).

    Args:
        kind: kind of the named unit, "user" or "row".
        ids: texts or numbers, as the data have them.
        of_content: True if the ids are themselves made of content, as a digest of a document is.
    """
    return Names(
        lambda: as_array(digest_of(kind, normal_id(one)) for one in ids), of_content=of_content
    )


def each_once(digests: Iterable[bytes], owners: Iterable[int] = repeat(0)) -> Iterable[bytes]:
    """Tell equal digests of one owner apart by the number of times that they came before.

    Args:
        digests: digests of all rows, or of all users, in order.
        owners: owner of each digest; by default all are of one owner.
    """
    before: dict[bytes, int] = {}
    for digest, owner in zip(digests, owners, strict=False):
        key = digest + owner.to_bytes(8, "little", signed=True)
        times = before.get(key, 0)
        before[key] = times + 1
        yield digest_of(digest, str(times)) if times else digest
