"""Lists of character spans as Arrow has them, without an object for any of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.files.cell_values import NOT_TEXT

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class ArrowSpans(NamedTuple):
    """Spans of some rows, one row after the other.

    Attributes:
        row: (spans,) row of each, from 0.
        start, end: (spans,) characters; 0 for a null.
        type: (spans,) index into `types`; their number for a null.
        types: names, in any order.
        bad: (spans,) True where one is not there, has no name of a type, or begins before 0 or not
            before its end.
        there: (rows,) False for a row that is null.
    """

    row: IntArray
    start: IntArray
    end: IntArray
    type: IntArray
    types: tuple[str, ...]
    bad: BoolArray
    there: BoolArray


def arrow_spans(array: Any) -> ArrowSpans | None:
    """The spans of an Arrow array of lists of {start, end, type}; None for any other array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_of_spans(array.type):
        return None
    items = array.flatten()
    start, end = (pc.struct_field(items, name) for name in ("start", "end"))
    kind = pc.struct_field(items, "type").cast(pa.large_string()).dictionary_encode()
    types: list[str] = kind.dictionary.to_pylist()
    nameless = np.array([not name or bool(NOT_TEXT.search(name)) for name in types] + [True])
    code = kind.indices.fill_null(len(types)).to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = (
        one.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) for one in (start, end)
    )
    nulls = pc.or_(start.is_null(), end.is_null()).to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return ArrowSpans(
        row=np.repeat(np.arange(len(array)), lengths),
        start=first,
        end=last,
        type=code,
        types=tuple(types),
        bad=nulls | nameless[code] | (first < 0) | (first >= last),
        there=array.is_valid().to_numpy(zero_copy_only=False),
    )


def _is_of_spans(kind: Any) -> bool:
    import pyarrow as pa

    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    item = kind.value_type
    if not pa.types.is_struct(item):
        return False
    fields = [item.field(at) for at in range(item.num_fields)]
    found = {field.name: field.type for field in fields}
    if len(found) < len(fields) or not {"start", "end", "type"} <= {*found}:
        return False
    whole = all(pa.types.is_signed_integer(found[name]) for name in ("start", "end"))
    return whole and (pa.types.is_string(found["type"]) or pa.types.is_large_string(found["type"]))
