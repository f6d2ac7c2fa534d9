"""Columns as tables hold them: texts, nulls and numbers, and large columns in Arrow.

A small parquet file becomes Python objects; of a large one Arrow holds the columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from uedp_bench.data.stored_rows import StoredTexts
from uedp_bench.errors import InputError, plain, shown
from uedp_bench.io.files import open_regular, shown_path

NOT_TEXT = re.compile("[\0\ud800-\udfff]")
"""A null character, or half of one: JSON can write both, and a text in UTF-8 has neither."""


def texts_of(values: Sequence[Any], where: str) -> list[str | None]:
    """Values of a column as strings; None is a null.

    Args:
        values: value of each row.
        where: the source and the column, for messages.

    Raises:
        InputError: with the row, for NaN, a list, an object or bytes, or a text with a null
            character or half of a character.
    """
    texts: list[str | None] = []
    for row, value in enumerate(values, start=1):
        if value is None or isinstance(value, str):
            texts.append(value)
            continue
        if isinstance(value, bytes | bytearray | list | tuple | dict | set):
            raise InputError(
                f"{where}, row {row}: {shown(value)} is a {type(value).__name__}; a text or a "
                "number is needed"
            )
        if value != value:
            raise InputError(f"{where}, row {row}: NaN; leave out the value where there is none")
        texts.append(text_of(value))
    check_texts(texts, where)
    return texts


def text_of(value: Any) -> str:
    """A value as text: a number is one text, whatever type a file gives its column."""
    if isinstance(value, Decimal) and value.is_finite():
        # Arithmetic would round to 28 digits; a file may have 76.
        digits = f"{value:f}" if value else "0"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    if isinstance(value, float) and value.is_integer():
        return f"{value + 0.0:.0f}"  # of two zeros there is one
    return str(value)


def is_blank(value: Any) -> bool:
    """True for a value that no text can be made of: null, blank, or with what no text has."""
    if isinstance(value, str):
        return not value.strip() or NOT_TEXT.search(value) is not None
    return value is None


def check_texts(values: Sequence[str | None], where: str) -> None:
    """Refuse values that cannot be written as text.

    Args:
        values: value of each row; None for none.
        where: the source and the column, for messages.

    Raises:
        InputError: with the first row and the number of rows.
    """
    if NOT_TEXT.search("".join(filter(None, values))):
        bad = [row for row, value in enumerate(values) if value and NOT_TEXT.search(value)]
        refuse_no_texts(values[bad[0]] or "", len(bad), bad[0], len(values), where)


def refuse_no_texts(value: str, count: int, first: int, rows: int, where: str) -> NoReturn:
    """Raise that some values of a column cannot be written as text.

    Args:
        value: first bad value.
        count: number of bad values.
        first: row of the first, from 0.
        rows: number of rows of the column.
        where: the source and the column.

    Raises:
        InputError: always.
    """
    null = (NOT_TEXT.search(value) or [""])[0] == "\0"
    what = "a null character" if null else "half of a character (a lone surrogate)"
    raise InputError(
        f"{where}: {count} {'row has' if count == 1 else 'rows have'} {what}, which no text "
        f"has; the first is row {first + 1} of {rows}: {shown(value)}"
    )


IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Coded(NamedTuple):
    """Different values, with the number of each row's value.

    Attributes:
        codes: (rows,) index into `values`, -1 for a null.
        values: different values, in the order in which they come first.
    """

    codes: IntArray
    values: list[str]

    @staticmethod
    def from_values(values: Sequence[str | None]) -> Coded:
        """Number the values of a column."""
        ids: dict[str, int] = {}
        codes = [-1 if value is None else ids.setdefault(value, len(ids)) for value in values]
        return Coded(np.array(codes, dtype=np.int64), list(ids))

    def renamed(self, values: Sequence[str]) -> Coded:
        """Copy with another name for each value; values of one name become one."""
        names = Coded.from_values(values)
        return Coded(np.append(names.codes, -1)[self.codes], names.values)

    def where(self, bad: Sequence[int], *, null: bool = False) -> BoolArray:
        """(rows,) True where a row has one of some values, or `null`."""
        marked = np.zeros(len(self.values) + 1, dtype=bool)
        marked[list(bad)] = True
        marked[-1] = null
        return marked[self.codes]


MOST_ROWS_HELD, MOST_BYTES_HELD = 50_000, 2**24
"""A table with no more rows and bytes becomes Python objects, like one of any other file."""

ROWS_AT_ONCE = 65_536
"""Rows whose values become Python objects together."""

GOOD, NULL, BLANK, NO_TEXT = 0, 1, 2, 3
"""States of a value: a text; none at all; white space; or one with a null character."""

States = NDArray[np.int8]

_DOUBTFUL = "^[^!-~]*$|\\x00"  # a text with a visible character of ASCII and no null is good


class ArrowColumns(Mapping[str, Sequence[Any]]):
    """The columns of a table. `columns[name]` makes Python objects of a whole one.

    Args:
        table: table of Arrow, with the wanted columns.
        names: names of all columns of the file.
        parts: number of rows of each split, in the order of the rows, where it has a file of its
            own.
        numbers: (rows,) numbers of the rows among those of all parts, ascending; None for all of
            them.
    """

    def __init__(
        self,
        table: Any,
        names: Sequence[str],
        parts: Mapping[str, int] | None = None,
        numbers: IntArray | None = None,
    ) -> None:
        import pyarrow as pa

        fields = [
            (field.name, pa.large_string() if _is_of_strings(field.type) else field.type)
            for field in table.schema
        ]
        self.table, self.parts, self.rows = table.cast(pa.schema(fields)), parts or {}, len(table)
        self._names, self._numbers = dict.fromkeys(names), numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> list[Any]:
        values: list[Any] = self.table.column(name).to_pylist()
        return values

    def arrays(self, name: str) -> Iterator[Any]:
        """Arrow arrays of a column, of at most `ROWS_AT_ONCE` rows, one after the other."""
        for batch in self.table.select([name]).to_batches(max_chunksize=ROWS_AT_ONCE):
            yield batch.column(0)

    def taken(self, rows: IntArray) -> ArrowColumns:
        """Take some rows, ascending, which keep their places."""
        numbers = rows if self._numbers is None else self._numbers[rows]
        is_taken = np.zeros(self.rows, dtype=bool)
        is_taken[rows] = True
        return ArrowColumns(self.table.filter(is_taken), [*self], self.parts, numbers)

    def place(self, row: int) -> tuple[str, int]:
        """Part of a row, and its number in the part, from 1."""
        row = row if self._numbers is None else int(self._numbers[row])
        for split, size in self.parts.items():
            if row < size:
                return split, row + 1
            row -= size
        raise IndexError(row)

    def coded(self, name: str, where: str) -> Coded:
        """A column as numbers of its values, which are strings.

        Args:
            name: name of the column.
            where: the source and the column, for messages.

        Raises:
            InputError: see `data.cell_values.texts_of`.
        """
        import pyarrow as pa

        column = self.table.column(name)
        simple = pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean
        if not any(is_one(column.type) for is_one in simple):
            # Dates, decimals, lists: as Python writes them, or refused.
            return Coded.from_values(texts_of(self[name], where))
        # Each chunk would get a dictionary of all values; data sets have chunks of a thousand rows.
        encoded = column.combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        coded = Coded(codes, [*map(str, encoded.dictionary.to_pylist())])
        bad = [at for at, value in enumerate(coded.values) if NOT_TEXT.search(value)]
        if bad:
            rows = np.flatnonzero(coded.where(bad))
            refuse_no_texts(coded.values[codes[rows[0]]], len(rows), int(rows[0]), self.rows, where)
        return coded

    def texts(self, name: str) -> tuple[StoredTexts, States] | None:
        """The texts of a column, nulls empty, and the state of each; None for another column."""
        import pyarrow as pa

        column = self.table.column(name)
        if not pa.types.is_large_string(column.type):
            return None
        states = [np.empty(0, dtype=np.int8), *map(_states, column.chunks)]
        texts = StoredTexts([a.fill_null("") if a.null_count else a for a in column.chunks])
        return texts, np.concatenate(states)


def _states(array: Any) -> States:
    """State of each value of an array of strings."""
    import pyarrow.compute as pc

    states = np.zeros(len(array), dtype=np.int8)
    doubtful = pc.match_substring_regex(array, _DOUBTFUL).fill_null(False)
    for row in np.flatnonzero(doubtful.to_numpy(zero_copy_only=False)).tolist():
        text = array[row].as_py()
        states[row] = NO_TEXT if NOT_TEXT.search(text) else GOOD if text.strip() else BLANK
    states[array.is_null().to_numpy(zero_copy_only=False)] = NULL
    return states


def _is_of_strings(kind: Any) -> bool:
    """True for an Arrow type of strings, encoded by a dictionary or not."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


MOST_ROWS, MOST_BYTES_A_ROW = 10_000_000, 64
"""A parquet file names its number of rows; past the first number, it is believed where the file has
this many bytes for a thousand of them."""


def read_parquet(
    path: Path, parameter: str, wanted: Collection[str] | None = None
) -> Mapping[str, Sequence[Any]]:
    """Read the columns of a parquet file.

    Args:
        path: the file.
        parameter: parameter that names the file, for messages.
        wanted: columns to read of a large file; None for all.

    Raises:
        InputError: if the file is missing or malformed, or names a column twice.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = f"{parameter}: {shown_path(path)}"
    try:
        with open_regular(path, parameter) as file, pq.ParquetFile(file) as parquet:
            rows, names = parquet.metadata.num_rows, parquet.schema_arrow.names
            size = os.fstat(file.fileno()).st_size
            if rows > MOST_ROWS and size * 1000 < rows * MOST_BYTES_A_ROW:
                raise InputError(f"{where} says that {size:,} bytes hold {rows:,} rows")
            if len(set(names)) != len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InputError(f"{where} names a column twice: {shown(twice)}")
            groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
            unpacked = sum(group.total_byte_size for group in groups)
            if rows <= MOST_ROWS_HELD and unpacked <= MOST_BYTES_HELD:
                table = parquet.read()
                return {name: table.column(name).to_pylist() for name in names}
            selected = [name for name in names if wanted is None or name in wanted]
            table = parquet.read(columns=selected)
            if not {*selected} <= {
                *table.column_names
            }:  # a dot in a name is read as a field within
                table = parquet.read()
            table = table.select(selected)
            table.validate(full=True)  # parquet says that texts are UTF-8, and does not look
            if len(table) != rows:
                raise InputError(f"{where} says that it has {rows:,} rows, and has {len(table):,}")
            return ArrowColumns(table, names)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, ArithmeticError, TypeError) as error:
        first = plain((str(error).splitlines() or [""])[0], 200)
        raise InputError(f"{where} is not a parquet file that can be read: {first}") from None
