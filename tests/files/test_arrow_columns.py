"""Columns of many small chunks: they are numbered as one, and not chunk by chunk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from uedp_bench.files import arrow_columns
from uedp_bench.files.arrow_columns import _encoded, _in_few_chunks


def test_many_chunks_become_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_columns, "ROWS_A_CHUNK", 20)
    values = [f"user {at * 7 % 11}" if at % 5 else None for at in range(99)]
    column = pa.chunked_array(
        [pa.array(values[at : at + 2], pa.string()) for at in range(0, 99, 2)]
    )
    assert column.num_chunks == 50
    assert _in_few_chunks(column).num_chunks == 5
    assert _in_few_chunks(column).to_pylist() == values
    found = _encoded(column)
    assert found is not None
    assert [found[1][code] if code >= 0 else None for code in found[0].tolist()] == values
    few = pa.chunked_array([pa.array(values)])
    assert _in_few_chunks(few) is few
    assert _in_few_chunks(pa.chunked_array([], pa.string())).to_pylist() == []
