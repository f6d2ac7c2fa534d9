"""Stable names of rows and users, as digests: the keys of public randomness.

A name depends on nobody else: it is that of the data (a user's id, a row's id), or else the content
of the row itself. So whatever is drawn by it (`uedp_bench.corpus.public_numbers`) stays as it is
when others come or go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from uedp_bench.corpus.normal_form import normal_id
from uedp_bench.corpus.row_index import IntArray

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
