"""Columns that know in which line of which file each row stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uedp_bench.corpus import normal_id
from uedp_bench.data.arrow_columns import ArrowColumns
from uedp_bench.data.tables import Columns, FileColumns
from uedp_bench.errors import InputError, shown

SPLIT = "split of the file"
"""Column that says which file a row is from, where a folder has a file a split."""


DOCUMENT = "document"
"""Column with the number of the document, in files of tokens that mark documents."""


def joined(parts: Mapping[str, Columns]) -> Columns:
    """The rows of several files, by the split that each is.

    A column that a file lacks is null there. Numbers of documents start anew in each file, so that
    a document is called by its split too.
    """
    some_large = any(isinstance(part, ArrowColumns) for part in parts.values())
    if some_large and not any(isinstance(part, FileColumns) for part in parts.values()):
        whole = _joined_tables(parts)
        if whole is not None:
            return whole
    out = FileColumns("", ())
    sizes = {split: len(next(iter(columns.values()), ())) for split, columns in parts.items()}
    for split, columns in parts.items():
        if isinstance(columns, FileColumns):
            out.places += columns.places
            out.by_word |= columns.by_word
        else:
            out.places += [(split, row + 1) for row in range(sizes[split])]
    for name in dict.fromkeys(name for columns in parts.values() for name in columns):
        out[name] = [
            f"{split} {value}" if out.by_word and name == DOCUMENT else value
            for split, columns in parts.items()
            for value in columns.get(name, [None] * sizes[split])
        ]
    out[SPLIT] = [split for split, size in sizes.items() for _ in range(size)]
    return out


def _joined_tables(parts: Mapping[str, Columns]) -> ArrowColumns | None:
    """Tables of Arrow as one; None where files share no column, or one has two types."""
    import pyarrow as pa

    names = [name for columns in parts.values() for name in columns]
    large = [columns for columns in parts.values() if isinstance(columns, ArrowColumns)]
    large_names = {name for columns in large for name in columns.table.column_names}
    tables, sizes = [], {}
    try:
        for split, columns in parts.items():
            if not isinstance(columns, ArrowColumns):
                held = {name: values for name, values in columns.items() if name in large_names}
                if not held:
                    return None
                columns = ArrowColumns(pa.table(held), [*held])
            sizes[split] = columns.rows
            tables.append(columns.table.append_column(SPLIT, pa.repeat(split, columns.rows)))
        whole = pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException:
        return None
    return ArrowColumns(whole, [*names, SPLIT], sizes)


def place_of(columns: Columns, row: int, owner: str, word: int = 0) -> str:
    """File and line of a row, or of one of its words, where they are known; else its number."""
    if isinstance(columns, FileColumns):
        where, line = columns.places[row]
        return f"{where}, line {line + (word if columns.by_word else 0)}"
    if isinstance(columns, ArrowColumns) and columns.parts:
        where, line = columns.place(row)
        return f"{where}, line {line}"
    return f"{owner}: row {row + 1}"


def check_one_type(columns: Columns, name: str, owner: str) -> None:
    """Refuses a column of ids in which one file has 7 as well as "7", or truths beside others.

    Nobody knows then if they are one. Over several files the value decides.

    Raises:
        InputError: naming a row of each type.
    """
    if not isinstance(columns, FileColumns):
        return
    values = columns[name]
    if len({*map(type, values)} - {type(None)}) < 2:
        return
    first: dict[tuple[str, str | None], tuple[object, int]] = {}
    for row, (value, (where, _)) in enumerate(zip(values, columns.places, strict=True)):
        if value is None:
            continue
        kind = _kind_of(value)
        for key, form in ((None, kind == "truth"), (normal_id(value), kind)):
            form_before, before = first.setdefault((where, key), (form, row))
            if form_before != form:
                raise InputError(
                    f"{place_of(columns, row, owner)}, column {shown(name)}: {shown(value)} is a "
                    f"{kind}, and {shown(values[before])} in line {columns.places[before][1]} is a "
                    f"{_kind_of(values[before])}; write all ids of a column alike"
                )


def _kind_of(value: Any) -> str:
    kinds = {str: "text", int: "number", float: "number", bool: "truth"}
    return kinds.get(type(value), type(value).__name__)
