"""Parquet files: small ones are read, and large ones are asked for their columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uedp_bench.errors import InputError, MissingExtraError, shown
from uedp_bench.files.arrow_columns import (
    MOST_BYTES_HELD,
    MOST_ROWS_HELD,
    ArrowColumns,
    is_of_strings,
)
from uedp_bench.files.printable import plain
from uedp_bench.files.regular_files import open_regular, shown_path
from uedp_bench.files.text_store import ROWS_AT_ONCE, CheckedTexts, digest_of_file, stored_texts

if TYPE_CHECKING:
    from uedp_bench.files.tables import Columns

MOST_ROWS, MOST_BYTES_A_ROW = 10_000_000, 64
"""A parquet file names its number of rows; past the first number, it is believed where the file has
this many bytes for a thousand of them."""

WHOLE = "row"
"""Name of the only part of a table that is one file."""


def read_parquet(path: Path, parameter: str) -> Columns:
    """The columns of a parquet file: in memory if it is small, else `ArrowColumns`.

    Args:
        path: the file.
        parameter: that named it, for messages.

    Raises:
        InputError: if the file is missing or malformed, or names a column twice.
        MissingExtraError: if `pyarrow` is not installed.
    """
    with _opened(path, parameter) as (file, found):
        rows = found.metadata.num_rows
        size = os.fstat(file.fileno()).st_size
        if rows > MOST_ROWS and size * 1000 < rows * MOST_BYTES_A_ROW:
            where = f"{parameter}: {shown_path(path)}"
            raise InputError(f"{where} says that {size:,} bytes hold {rows:,} rows")
        names = found.schema_arrow.names
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(
                f"{parameter}: {shown_path(path)} names a column twice: {shown(twice)}"
            )
        groups = (found.metadata.row_group(at) for at in range(found.metadata.num_row_groups))
        unpacked = sum(group.total_byte_size for group in groups)
        if rows <= MOST_ROWS_HELD and unpacked <= MOST_BYTES_HELD:
            table = found.read()
            return {name: table.column(name).to_pylist() for name in names}
        digest = digest_of_file(file)
    return ArrowColumns({WHOLE: ParquetPart(path, parameter, digest, rows, tuple(names))})


@dataclass(frozen=True)
class ParquetPart:
    """A parquet file as a part of a table; see `files.arrow_columns.ArrowPart`.

    Attributes:
        path: of the file.
        parameter: that named it, for messages.
        digest: SHA-256 of the file as it was when it was looked at first.
        rows: how many it has.
        names: of its columns.
    """

    path: Path
    parameter: str
    digest: str
    rows: int
    names: Sequence[str]

    def column(self, name: str) -> Any:
        """See `ArrowPart`; nothing but this column is read."""
        with _opened(self.path, self.parameter) as (_, found):
            table = found.read(columns=[name])
            if name not in table.column_names:
                table = found.read()
            return self._whole(table.column(name))

    def texts(self, name: str) -> CheckedTexts | None:
        """See `ArrowPart`; they stay in a file of the cache."""
        with _opened(self.path, self.parameter) as (file, found):
            if not is_of_strings(found.schema_arrow.field(name).type):
                return None

            def arrays() -> Iterator[Any]:
                for batch in found.iter_batches(ROWS_AT_ONCE, columns=[name]):
                    yield batch.column(name)
                # Before what was read gets a name that says what it was read from.
                if digest_of_file(file) != self.digest:
                    raise _changed(self.path, self.parameter)

            return stored_texts([self.digest, name], self.rows, arrays)

    def classes(self, name: str) -> tuple[str, ...]:
        """None: parquet declares no classes."""
        return ()

    def _whole(self, column: Any) -> Any:
        if len(column) != self.rows:
            raise _changed(self.path, self.parameter)
        return column


def _changed(path: Path, parameter: str) -> InputError:
    return InputError(f"{parameter}: {shown_path(path)} changed while it was read")


@contextmanager
def _opened(path: Path, parameter: str) -> Iterator[tuple[Any, Any]]:
    """The file, and what Arrow says of it."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow (reads parquet)", "pip install pyarrow") from None
    try:
        with open_regular(path, parameter) as file:
            yield file, pq.ParquetFile(file)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, ArithmeticError, TypeError) as error:
        first = plain((str(error).splitlines() or [""])[0], 200)
        raise InputError(
            f"{parameter}: {shown_path(path)} is not a parquet file that can be read: {first}"
        ) from None
