"""Texts of a column, looked at once and written to an Arrow file that is mapped into memory.

A parquet file is compressed, and nobody reads one row of it without a thousand others. The file
beside it is in the cache, under the SHA-256 of the parquet file and the column's name: a file that
changed in any way, even with the same size and time, has another name, so nothing is ever read that
is not in the data. It is written to a neighbour and renamed. It holds the texts in clear, for its
owner alone; whoever deletes it loses some seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.files.cache_folder import cache_folder
from uedp_bench.files.cell_values import NOT_TEXT
from uedp_bench.files.output_folder import write_atomically
from uedp_bench.files.stored_texts import STATE, TEXT, HeldTexts, MappedTexts

GOOD, NULL, BLANK, NO_TEXT = 0, 1, 2, 3
"""What a value is: a text; none at all; white space; or one with a null character."""

ROWS_AT_ONCE = 65_536
"""Rows of a parquet file that are read together."""

States = NDArray[np.int8]

_FORMAT = 1  # of the files; raised when the same name would mean something else
_DOUBTFUL = "^[^!-~]*$|\\x00"  # a text with a visible character of ASCII and no null is good


class CheckedTexts(NamedTuple):
    """Texts, and what is wrong with some of them.

    Attributes:
        block: of them all; a null is empty.
        states: (rows,) `GOOD`, `NULL`, `BLANK` or `NO_TEXT`.
    """

    block: MappedTexts | HeldTexts
    states: States


def digest_of_file(file: BufferedReader) -> str:
    """SHA-256 of an open file, from its beginning; it is at its beginning again then."""
    file.seek(0)
    found = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return found


def stored_texts(
    name: Sequence[str], rows: int, arrays: Callable[[], Iterator[Any]]
) -> CheckedTexts:
    """The texts of a column, from the cache if it has them.

    Args:
        name: what makes the texts what they are: the digest of their file, and their column.
        rows: how many there are.
        arrays: gives Arrow arrays of strings, where the cache does not have them.

    Raises:
        pyarrow.ArrowException: if a string is not UTF-8.
    """
    key = hashlib.sha256(json.dumps([_FORMAT, *name]).encode()).hexdigest()
    path = cache_folder() / "texts" / f"{key}.arrow"
    found = _read(path, rows)
    if found is None:
        try:
            _write(path, arrays())
        except OSError as error:
            warnings.warn(f"texts are held in memory, for they cannot be written: {error}",
                          stacklevel=2)  # fmt: skip
            return held_texts(arrays())
        found = _read(path, rows)
    if found is None:
        raise OSError(f"{path.name} is not what was written to it")
    return found


def held_texts(arrays: Iterator[Any]) -> CheckedTexts:
    """The same texts in memory.

    Raises:
        pyarrow.ArrowException: if a string is not UTF-8.
    """
    texts, states = [], []
    for array in arrays:
        text, state = _checked(array)
        texts.append(text)
        states.append(state)
    return CheckedTexts(HeldTexts(tuple(texts)), np.concatenate([np.empty(0, np.int8), *states]))


def _write(path: Path, arrays: Iterator[Any]) -> None:
    import pyarrow as pa

    schema = pa.schema([(TEXT, pa.large_string()), (STATE, pa.int8())])
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")  # for its owner alone
    try:
        with os.fdopen(handle, "wb") as out, pa.ipc.new_file(out, schema) as writer:
            for array in arrays:
                text, state = _checked(array)
                writer.write_batch(pa.record_batch([text, pa.array(state)], schema=schema))
        _sum(path).unlink(missing_ok=True)
        with Path(part).open("rb") as file:
            digest = digest_of_file(file)
        Path(part).replace(path)
        write_atomically(_sum(path), digest, private=True)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _sum(path: Path) -> Path:
    """File with the digest of a store: Arrow has no checksums of its own."""
    return path.with_suffix(".sha256")


def _read(path: Path, rows: int) -> CheckedTexts | None:
    """What `_write` wrote; None where it is not there, or damaged."""
    import pyarrow as pa

    try:
        with path.open("rb") as file:
            if digest_of_file(file) != _sum(path).read_text(encoding="ascii"):
                return None
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
            if table.column_names != [TEXT, STATE] or len(table) != rows:
                return None
            states = table.column(STATE).to_numpy()
    except (OSError, ValueError, pa.ArrowException):
        return None
    return CheckedTexts(MappedTexts(path), states)


def _checked(array: Any) -> tuple[Any, States]:
    """The texts of an array of strings, nulls empty, and what each is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = array.cast(pa.large_string())
    array.validate(full=True)  # parquet says that they are UTF-8, and does not look
    states = np.zeros(len(array), dtype=np.int8)
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    array = array.fill_null("")
    doubtful = pc.match_substring_regex(array, _DOUBTFUL).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(doubtful).tolist():
        text = array[row].as_py()
        states[row] = NO_TEXT if NOT_TEXT.search(text) else GOOD if text.strip() else BLANK
    states[nulls] = NULL
    return array, states
