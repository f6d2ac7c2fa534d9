"""Columns of large tables that stay in their files: what is asked of a column is read then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from uedp_bench.files.cell_values import NOT_TEXT, refuse_no_texts, texts_of
from uedp_bench.files.coded_values import Coded, IntArray
from uedp_bench.files.stored_texts import StoredTexts, TextPool
from uedp_bench.files.text_store import ROWS_AT_ONCE, CheckedTexts, States, held_texts

MOST_ROWS_HELD, MOST_BYTES_HELD = 50_000, 2**24
"""A table with no more rows and bytes is held in memory like any other."""


ROWS_A_CHUNK = 2**20
"""Rows of a column whose values are numbered together."""


class ArrowPart(Protocol):
    """A file of a table, or one of its splits."""

    @property
    def rows(self) -> int:
        """The number of its rows."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of its columns."""
        ...

    def column(self, name: str) -> Any:
        """The chunked array of a column."""
        ...

    def texts(self, name: str) -> CheckedTexts | None:
        """The texts of a column that stay in a file; None for values that are no texts."""
        ...

    def classes(self, name: str) -> tuple[str, ...]:
        """Names of classes that the values of a column number; none where they do not."""
        ...


class FoundTexts(NamedTuple):
    """Texts of a column, and what is wrong with some of them (`files.text_store.GOOD`)."""

    texts: StoredTexts
    states: States


class ArrowColumns(Mapping[str, Sequence[Any]]):
    """The columns of a table of one part or several; a column that a part lacks is null there.

    `columns[name]` reads a whole column into memory. Users, classes and splits are asked for as
    numbers (`coded`), and texts stay where they are (`texts`).

    Args:
        parts: by the name of their split, in their order.
        split: column that says which part a row is from, if there is one.
        rows: of all parts, ascending, that the table has; None for all.
    """

    def __init__(
        self,
        parts: Mapping[str, ArrowPart],
        split: str | None = None,
        rows: IntArray | None = None,
    ) -> None:
        self.parts, self._split, self._chosen = parts, split, rows
        names = dict.fromkeys(name for part in parts.values() for name in part.names)
        self._names = (*names, *([] if split is None else [split]))
        self._sizes = [part.rows for part in parts.values()]
        self.rows = sum(self._sizes) if rows is None else len(rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._names:
            raise KeyError(name)
        values: list[Any] = []
        for key, part in self.parts.items():
            values += self._values(key, part, name)
        return values if self._chosen is None else [values[row] for row in self._chosen.tolist()]

    def arrays(self, name: str) -> Iterator[Any]:
        """Arrow arrays of a column, of at most `ROWS_AT_ONCE` rows, one after the other.

        What numbers classes is read as `columns[name]` has it.

        Raises:
            KeyError: if there is no such column.
        """
        import pyarrow as pa

        if name not in self._names:
            raise KeyError(name)
        before = 0
        for key, part in self.parts.items():
            known = name in part.names and name != self._split
            values = [] if known else self._values(key, part, name)
            column = part.column(name) if known else pa.chunked_array([pa.array(values)])
            classes = part.classes(name) if known else ()
            if self._chosen is not None:
                here = (self._chosen >= before) & (self._chosen < before + part.rows)
                column = column.take(pa.array(self._chosen[here] - before))
            before += part.rows
            for chunk in column.chunks:
                for first in range(0, len(chunk), ROWS_AT_ONCE):
                    some = chunk.slice(first, ROWS_AT_ONCE)
                    yield pa.array(_named(some.to_pylist(), classes)) if classes else some

    def taken(self, rows: IntArray) -> ArrowColumns:
        """Some rows, which stand where they stood."""
        chosen = rows if self._chosen is None else self._chosen[rows]
        return ArrowColumns(self.parts, self._split, chosen)

    def place(self, row: int) -> tuple[str, int]:
        """The part in which a row is, and its number there, from 1."""
        row = row if self._chosen is None else int(self._chosen[row])
        for key, size in zip(self.parts, self._sizes, strict=True):
            if row < size:
                return key, row + 1
            row -= size
        raise IndexError(row)

    def declared(self) -> dict[str, tuple[str, ...]]:
        """Names of classes by column, where the data themselves name them."""
        found = ((name, part.classes(name)) for part in self.parts.values() for name in part.names)
        return {name: classes for name, classes in found if classes}

    def coded(self, name: str, where: str) -> Coded:
        """A column as numbers of its values, which are strings.

        Args:
            name: of the column.
            where: the source and the column, for messages.

        Raises:
            InputError: see `files.cell_values.texts_of`.
        """
        ids: dict[str, int] = {}
        codes = []
        for key, part in self.parts.items():
            found = self._coded(key, part, name, where)
            here = np.array([ids.setdefault(value, len(ids)) for value in found.values] + [-1])
            codes.append(here[found.codes])
        every = Coded(np.concatenate(codes), list(ids))
        bad = [at for at, value in enumerate(every.values) if NOT_TEXT.search(value)]
        if bad:
            rows = np.flatnonzero(every.where(bad))
            value = every.values[every.codes[rows[0]]]
            refuse_no_texts(value, len(rows), int(rows[0]), len(every.codes), where)
        return every if self._chosen is None else every.taken(self._chosen)

    def texts(self, name: str) -> FoundTexts | None:
        """The texts of a column, which stay in files; None where it holds something else."""
        found = []
        for part in self.parts.values():
            texts = part.texts(name) if name in part.names else None
            if texts is None:
                return None
            found.append(texts)
        stored = StoredTexts(TextPool(tuple(texts.block for texts in found)))
        states = np.concatenate([texts.states for texts in found])
        if self._chosen is None:
            return FoundTexts(stored, states)
        return FoundTexts(stored.take(self._chosen), states[self._chosen])

    def _values(self, key: str, part: ArrowPart, name: str) -> list[Any]:
        if name == self._split:
            return [key] * part.rows
        if name not in part.names:
            return [None] * part.rows
        values: list[Any] = part.column(name).to_pylist()
        classes = part.classes(name)
        return _named(values, classes) if classes else values

    def _coded(self, key: str, part: ArrowPart, name: str, where: str) -> Coded:
        if name == self._split:
            return Coded(np.zeros(part.rows, dtype=np.int64), [key])
        if name not in part.names:
            return Coded(np.full(part.rows, -1, dtype=np.int64), [])
        column, classes = part.column(name), part.classes(name)
        found = _encoded(column)
        if found is None:  # dates, decimals, lists: as Python writes them, or refused
            return Coded.of(texts_of(self._values(key, part, name), where))
        codes, values = found
        if not classes:
            return Coded(codes, [*map(str, values)])
        names = _named(values, classes)
        known = [at for at, one in enumerate(names) if one is not None]
        number = np.full(len(names) + 1, -1, dtype=np.int64)
        number[known] = np.arange(len(known))
        return Coded(number[codes], [str(names[at]) for at in known])


class HeldPart:
    """A small table as a part of a large one.

    Args:
        columns: in memory, each of values of one type.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns, self.names = columns, tuple(columns)
        self.rows = len(next(iter(columns.values()), ()))

    def column(self, name: str) -> Any:
        """See `ArrowPart`."""
        import pyarrow as pa

        return pa.chunked_array([pa.array(self._columns[name])])

    def texts(self, name: str) -> CheckedTexts | None:
        """See `ArrowPart`; they stay in memory."""
        column = self.column(name)
        return held_texts(iter(column.chunks)) if is_of_strings(column.type) else None

    def classes(self, name: str) -> tuple[str, ...]:
        """None."""
        return ()


def _named(values: Sequence[Any], classes: Sequence[str]) -> list[Any]:
    """Numbers of classes by their names, in lists too; a number below 0 is a null."""
    if any(isinstance(value, list) for value in values):
        return [None if row is None else [classes[at] for at in row] for row in values]
    return [None if value is None or value < 0 else classes[value] for value in values]


def _encoded(column: Any) -> tuple[IntArray, list[Any]] | None:
    """Codes and values of a column of strings, whole numbers or truths; None for any other."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    simple = (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
    )
    if not simple:
        return None
    if not len(column):
        return np.empty(0, dtype=np.int64), []
    column = _in_few_chunks(column).dictionary_encode().unify_dictionaries()
    codes = [
        chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        for chunk in column.chunks
    ]
    values: list[Any] = column.chunk(0).dictionary.to_pylist()
    return np.concatenate(codes), values


def _in_few_chunks(column: Any) -> Any:
    """The column in chunks of a million rows or more: each gets a dictionary of all values.

    Files of `datasets` have chunks of a thousand rows.
    """
    import pyarrow as pa

    each = max(ROWS_A_CHUNK * column.num_chunks // max(len(column), 1), 1)
    if each == 1:
        return column
    groups = (column.chunks[at : at + each] for at in range(0, column.num_chunks, each))
    return pa.chunked_array([pa.concat_arrays(group) for group in groups], type=column.type)


def is_of_strings(kind: Any) -> bool:
    """True for an Arrow type of strings, encoded by a dictionary or not."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
