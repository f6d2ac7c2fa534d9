"""Rows of a large table, in scripts of some hundred rows each.

One page with all of them would be tens of megabytes of text, made and read at once. Pages that are
opened from disk can load scripts, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.index_page import TableData
from uedp_bench.leaderboard.rows import Row

MOST_IN_PAGE = 2000
"""Rows of a table whose page holds them all."""

ROWS = 500
"""Rows of a piece."""


class Pieces:
    """The pieces of a table; none where its page holds its rows.

    Args:
        rows, results: see `TableData`.
    """

    def __init__(self, rows: Sequence[Row], results: Mapping[str, Result]) -> None:
        self._rows, self._results = rows, results
        many = len(rows) > MOST_IN_PAGE
        self.names = [f"assets/rows-{at + 1:03}.js" for at in range(-(-len(rows) // ROWS) * many)]
        """Their files, from the site's root."""

    def files(self) -> dict[str, Callable[[], Iterator[str]]]:
        """Makers of all pieces, by file name."""
        return {name: partial(self._piece, at) for at, name in enumerate(self.names)}

    @cached_property
    def _table(self) -> TableData:
        return TableData(self._rows, self._results)

    def _piece(self, at: int) -> Iterator[str]:
        text = embedded(list(self._table.rows(at * ROWS, (at + 1) * ROWS)))
        quoted = json.dumps(text, ensure_ascii=False)
        yield f"(window.uedpRows ||= []).push(JSON.parse({quoted}));\n"


def embedded(value: Any) -> str:
    """JSON that may stand in a script element: no value of it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text
