"""Tables in Markdown for the scripts that print pages of docs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table in Markdown and an empty line; all columns but the first are numbers."""
    print(f"| {' | '.join(head)} |")
    print(f"|{' :-- |'}{' --: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()
