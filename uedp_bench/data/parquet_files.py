"""Parquet files: a small one becomes Python objects, and Arrow holds the columns of a large one."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from uedp_bench.data.arrow_columns import MOST_BYTES_HELD, MOST_ROWS_HELD, ArrowColumns
from uedp_bench.errors import InputError, MissingExtraError, shown
from uedp_bench.io.printable import plain
from uedp_bench.io.regular_files import open_regular, shown_path

if TYPE_CHECKING:
    from uedp_bench.data.tables import Columns

MOST_ROWS, MOST_BYTES_A_ROW = 10_000_000, 64
"""A parquet file names its number of rows; past the first number, it is believed where the file has
this many bytes for a thousand of them."""


def read_parquet(path: Path, parameter: str, wanted: Collection[str] | None = None) -> Columns:
    """Read the columns of a parquet file.

    Args:
        path: the file.
        parameter: parameter that names the file, for messages.
        wanted: columns to read of a large file; None for all.

    Raises:
        InputError: if the file is missing or malformed, or names a column twice.
        MissingExtraError: if `pyarrow` is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow (reads parquet)", "pip install pyarrow") from None
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
