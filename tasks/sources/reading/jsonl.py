"""Data sets that come as one jsonl file a split, an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from uedp_bench.corpus import SPLITS, IntArray
from uedp_bench.data.cell_values import NOT_TEXT
from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.io.files import open_text, shown_path
from uedp_bench.io.messages import plain
from uedp_bench.tasks.sources.reading.files import find_file, find_optional

Record = tuple[str, ...]
"""The values of the fields that were asked for, in their order."""

_OPTIONAL: dict[str, tuple[str, ...]] = {
    "valid": ("valid.jsonl", "dev.jsonl", "valid*.jsonl", "dev*.jsonl"),
    "test": ("test.jsonl", "test*.jsonl"),
}


def find_splits(folder: Path, owner: str) -> dict[str, Path]:
    """The file of each split that the folder has; train must be there.

    Raises:
        InputError: if the folder or its training file is missing.
    """
    files = {"train": find_file(folder, ("train.jsonl", "train*.jsonl"), owner)}
    optional = {split: find_optional(folder, names, owner) for split, names in _OPTIONAL.items()}
    return files | {split: file for split, file in optional.items() if file is not None}


def read_splits(
    files: dict[str, Path], fields: Sequence[str], owner: str
) -> tuple[list[Record], IntArray]:
    """Records of all files, and (records,) the index into `SPLITS` of each.

    Raises:
        InputError: as `read_records`.
    """
    parts = {split: list(read_records(file, fields, owner)) for split, file in files.items()}
    counts = [len(part) for part in parts.values()]
    split = np.repeat([SPLITS.index(name) for name in parts], counts)
    return [record for part in parts.values() for record in part], split.astype(np.int64)


def read_records(file: Path, fields: Sequence[str], owner: str) -> Iterator[Record]:
    """The named fields of each line of a file; other fields are not looked at.

    Raises:
        InputError: naming file and line, for a line that is not an object with these fields, or a
            field that is not a string or blank; for an empty file.
    """
    number = 0
    with open_text(file, f"{owner}.path") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{owner}.path: {shown_path(file)}, line {number}"
            try:
                content = json.loads(line)
                record = tuple(content[name] for name in fields)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InputError(
                    f"{where} is not an object with {', '.join(fields)}: {plain(repr(error), 200)}"
                ) from None
            for name, value in zip(fields, record, strict=True):
                if not isinstance(value, str) or not value.strip():
                    raise InputError(
                        f"{where}: {name} is null, blank or not a string: {shown(value)}"
                    )
                if NOT_TEXT.search(value):
                    raise InputError(f"{where}: {name} has half of a character or a null one: "
                                     f"{shown(value)}")  # fmt: skip
            yield record
    if not number:
        raise InputError(f"{owner}.path: {file} is empty: there is not one row")


def class_ids(values: Sequence[str], names: Sequence[str], owner: str, field: str) -> IntArray:
    """(values,) index into `names` of each value.

    Raises:
        InputError: for a value that is not one of them, with the nearest that is.
    """
    index = {name: at for at, name in enumerate(names)}
    unknown = next((value for value in values if value not in index), None)
    if unknown is not None:
        near = nearest(unknown, names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names)}"
        raise InputError(f"{owner}.path: {field} {shown(unknown)} is not known; {hint}")
    return np.array([index[value] for value in values], dtype=np.int64)
