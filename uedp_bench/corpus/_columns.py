"""Kinds of columns of a corpus, with the effect of taking, joining and blanking rows on each.

A column is declared once, in `uedp_bench.corpus.table.COLUMNS`. What a corpus does with its rows
loops over that declaration, so that a new column is one line there.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from uedp_bench.corpus.keys import BoolArray, IntArray, Names
from uedp_bench.corpus.spans import Layer, LostSpans, Spans
from uedp_bench.data.stored_rows import StoredTexts, joined_texts, replaced_texts, taken_texts
from uedp_bench.errors import InputError

Facts = Mapping[str, tuple[str, ...]]
"""Facts about a user: values by key."""

K = TypeVar("K", bound="Kind")


@dataclass(frozen=True)
class Texts:
    """Texts of two corpora that are joined, and the number of rows of the first."""

    all: Sequence[str]
    shift: int


class Kind(ABC):
    """Kind of column. A column that a corpus does not have is None, and stays None."""

    @abstractmethod
    def check(self, value: Any, name: str, rows: int) -> None:
        """Refuse a column that does not fit a corpus of `rows` rows.

        Raises:
            InputError: naming the column.
        """

    @abstractmethod
    def take(self, value: Any, rows: IntArray, users: IntArray) -> Any:
        """Take rows in an order.

        Args:
            value: the column.
            rows: (taken,) rows in that order; one may come twice.
            users: (taken,) user of each row, -1 for none.
        """

    @abstractmethod
    def join(self, first: Any, second: Any, texts: Texts) -> Any:
        """Join the rows of the first column and the rows of the second.

        Raises:
            InputError: if the two contradict each other.
        """

    @abstractmethod
    def blank(self, value: Any, rows: BoolArray, users: IntArray) -> Any:
        """Blank some rows of the column.

        Args:
            value: the column.
            rows: (rows,) True for rows to blank.
            users: (rows,) user of each row.
        """

    @abstractmethod
    def digest(self, value: Any, digest: hashlib._Hash) -> None:
        """Add the column to a fingerprint."""

    def lose(self, value: Any, publisher: str, rows: int) -> Any:
        """Substitute for a column that a publisher did not carry; None by default.

        Args:
            value: the column before publishing.
            publisher: name of the publisher.
            rows: number of published rows.
        """
        return None


class TextColumn(Kind):
    """Text of each row."""

    def check(self, value: Sequence[str], name: str, rows: int) -> None:
        _check_length(len(value), name, rows)

    def take(self, value: Sequence[str], rows: IntArray, users: IntArray) -> Sequence[str]:
        return taken_texts(value, rows)

    def join(self, first: Sequence[str], second: Sequence[str], texts: Texts) -> Sequence[str]:
        return joined_texts(first, second)

    def blank(self, value: Sequence[str], rows: BoolArray, users: IntArray) -> Sequence[str]:
        silent = np.flatnonzero(rows)
        return replaced_texts(value, silent, [""] * len(silent))

    def digest(self, value: Sequence[str], digest: hashlib._Hash) -> None:
        if isinstance(value, StoredTexts):
            value.add_to(digest)
            return
        for text in value:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")


class ArrayColumn(Kind):
    """Number of each row, or several."""

    def __init__(self, empty: float, *, whole: bool = True, seen: bool = True) -> None:
        """Declare the column.

        Args:
            empty: value of a blank row.
            whole: True if the numbers are integers.
            seen: True if fingerprints look at it.
        """
        self.empty, self.whole, self.seen = empty, whole, seen

    def check(self, value: Any, name: str, rows: int) -> None:
        _check_length(len(value), name, rows)

    def take(self, value: Any, rows: IntArray, users: IntArray) -> Any:
        return value[rows]

    def join(self, first: Any, second: Any, texts: Texts) -> Any:
        return np.concatenate([first, second])

    def blank(self, value: Any, rows: BoolArray, users: IntArray) -> Any:
        out = value.copy()
        out[rows] = self.empty
        return out

    def digest(self, value: Any, digest: hashlib._Hash) -> None:
        if self.seen:
            if self.whole:
                _digest_whole(value, digest)
            else:
                digest.update(np.ascontiguousarray(value).tobytes())


class ArraysColumn(Kind):
    """Several columns of whole numbers by name."""

    def __init__(self) -> None:
        self.each = ArrayColumn(-1)

    def check(self, value: Mapping[str, Any], name: str, rows: int) -> None:
        for key, column in value.items():
            self.each.check(column, key, rows)

    def take(self, value: Mapping[str, Any], rows: IntArray, users: IntArray) -> Any:
        return {key: column[rows] for key, column in value.items()}

    def join(self, first: Mapping[str, Any], second: Mapping[str, Any], texts: Texts) -> Any:
        return {key: self.each.join(column, second[key], texts) for key, column in first.items()}

    def blank(self, value: Mapping[str, Any], rows: BoolArray, users: IntArray) -> Any:
        return {key: self.each.blank(column, rows, users) for key, column in value.items()}

    def digest(self, value: Mapping[str, Any], digest: hashlib._Hash) -> None:
        for key in sorted(value):
            self.each.digest(value[key], digest)


class SpansColumn(Kind):
    """Character spans in the texts."""

    def check(self, value: Spans, name: str, rows: int) -> None:
        if not value.lost and len(value) and not 0 <= value.row[0] <= value.row[-1] < rows:
            raise InputError(
                f"corpus: {name} has a span in row {value.row[-1]}, and there are {rows} rows"
            )

    def take(self, value: Spans, rows: IntArray, users: IntArray) -> Spans:
        return value.take(rows)

    def join(self, first: Spans, second: Spans, texts: Texts) -> Spans:
        for spans in (first, second):
            if spans.lost:
                return spans
        moved = second.table()
        moved[:, 0] += texts.shift
        return first.followed_by(texts.all, moved)

    def blank(self, value: Spans, rows: BoolArray, users: IntArray) -> Spans:
        return value.outside(rows)

    def digest(self, value: Spans, digest: hashlib._Hash) -> None:
        if not value.lost:  # ids of entities follow from these
            for column in (value.row, value.start, value.end, value.type):
                _digest_whole(column, digest)

    def lose(self, value: Spans, publisher: str, rows: int) -> Spans:
        return LostSpans(publisher)


class LayersColumn(Kind):
    """Annotations by name."""

    def __init__(self) -> None:
        self.spans = SpansColumn()

    def check(self, value: Mapping[str, Layer], name: str, rows: int) -> None:
        for key, layer in value.items():
            where = f"layer {key}"
            _check_length(len(layer.rows), where, rows)
            if layer.rows.dtype != np.bool_:
                raise InputError(f"corpus: {where} marks rows by {layer.rows.dtype}, not by bool")
            self.spans.check(layer.spans, where, rows)
            if not layer.spans.lost and layer.spans.type.max(initial=-1) >= len(layer.types):
                raise InputError(
                    f"corpus: {where} has a span of type number {layer.spans.type.max()}, and "
                    f"declares {len(layer.types)}"
                )

    def take(self, value: Mapping[str, Layer], rows: IntArray, users: IntArray) -> Any:
        return {
            name: Layer(layer.spans.take(rows), layer.types, layer.rows[rows])
            for name, layer in value.items()
        }

    def join(self, first: Mapping[str, Layer], second: Mapping[str, Layer], texts: Texts) -> Any:
        """Join layers; rows of a corpus without a layer are not annotated in it."""
        out = {}
        for name in dict.fromkeys((*first, *second)):
            layers = [side[name] for side in (first, second) if name in side]
            if layers[0].types != layers[-1].types:
                raise InputError(
                    f"corpora whose layers {name!r} declare different types do not concatenate"
                )
            sizes = (texts.shift, len(texts.all) - texts.shift)
            one, two = (
                side.get(name, Layer(Spans.none(), layers[0].types, np.zeros(size, dtype=bool)))
                for side, size in zip((first, second), sizes, strict=True)
            )
            spans = self.spans.join(one.spans, two.spans, texts)
            out[name] = Layer(spans, one.types, np.concatenate([one.rows, two.rows]))
        return out

    def blank(self, value: Mapping[str, Layer], rows: BoolArray, users: IntArray) -> Any:
        return {
            name: Layer(layer.spans.outside(rows), layer.types, layer.rows & ~rows)
            for name, layer in value.items()
        }

    def digest(self, value: Mapping[str, Layer], digest: hashlib._Hash) -> None:
        for name in sorted(value):
            self.spans.digest(value[name].spans, digest)
            if not value[name].spans.lost and not value[name].rows.all():
                _digest_whole(value[name].rows, digest)

    def lose(self, value: Mapping[str, Layer], publisher: str, rows: int) -> Any:
        """Keep names and types, which are declared in public; nothing is known of the rows."""
        nowhere = np.zeros(rows, dtype=bool)
        return {
            name: Layer(LostSpans(publisher, f"the spans of layer {name}"), layer.types, nowhere)
            for name, layer in value.items()
        }


class RowNames(Kind):
    """Stable names of rows. Fingerprints tell rows with ids apart by these ids, not by names."""

    def check(self, value: Names, name: str, rows: int) -> None:
        """Check nothing: names are not computed before they are needed."""

    def take(self, value: Names, rows: IntArray, users: IntArray) -> Names:
        return value.take(rows)

    def join(self, first: Names, second: Names, texts: Texts) -> Names:
        return first.followed_by(second)

    def blank(self, value: Names, rows: BoolArray, users: IntArray) -> Names:
        return value

    def digest(self, value: Names, digest: hashlib._Hash) -> None:
        """Add nothing: names follow from ids, or from the content."""


class UserNames(RowNames):
    """Stable names of users by id; a user without a row left keeps its own."""

    def take(self, value: Names, rows: IntArray, users: IntArray) -> Names:
        return value

    def join(self, first: Names, second: Names, texts: Texts) -> Names:
        """Join names; ids of users are shared: the second's names begin where the first's end."""
        return Names(
            lambda: np.concatenate([first.array, second.array[len(first.array) :]]),
            of_content=first.of_content or second.of_content,
        )

    def digest(self, value: Names, digest: hashlib._Hash) -> None:
        if not value.of_content:
            digest.update(value.array.tobytes() + b"|")


class UserColumn(Kind):
    """Facts by user id. A user without a row left has none: ids stay, facts go.

    Users beyond its end have none either.
    """

    def check(self, value: Sequence[Facts], name: str, rows: int) -> None:
        for user, facts in enumerate(value):
            for key, values in facts.items():
                if not isinstance(values, tuple):
                    raise InputError(
                        f"corpus: {name} of user {user}: {key!r} is a {type(values).__name__}, "
                        "not a tuple of texts"
                    )

    def take(self, value: Sequence[Facts], rows: IntArray, users: IntArray) -> tuple[Facts, ...]:
        present = set(users.tolist())
        return tuple(facts if user in present else {} for user, facts in enumerate(value))

    def join(self, first: Sequence[Facts], second: Sequence[Facts], texts: Texts) -> Any:
        out: list[Facts] = []
        for user in range(max(len(first), len(second))):
            one, two = (side[user] if user < len(side) else {} for side in (first, second))
            if one and two and one != two:
                raise InputError(
                    f"corpora that know different facts of user {user} do not concatenate"
                )
            out.append(one or two)
        return tuple(out)

    def blank(self, value: Sequence[Facts], rows: BoolArray, users: IntArray) -> Any:
        return self.take(value, np.flatnonzero(~rows), users[~rows])

    def digest(self, value: Sequence[Facts], digest: hashlib._Hash) -> None:
        facts = [sorted((key, list(values)) for key, values in user.items()) for user in value]
        digest.update(json.dumps(facts).encode() + b"|")


def _digest_whole(numbers: Any, digest: hashlib._Hash) -> None:
    digest.update(np.ascontiguousarray(numbers, dtype=np.int64).data)  # not a copy of it
    digest.update(b"|")


def _check_length(length: int, name: str, rows: int) -> None:
    if length != rows:
        raise InputError(f"corpus: {name} has {length} entries for {rows} rows")
