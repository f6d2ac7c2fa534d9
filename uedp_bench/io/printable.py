"""Texts of strangers as a terminal may print them."""

from __future__ import annotations


def plain(text: str, most: int | None = None, *, lines: bool = False) -> str:
    r"""Escape everything that a terminal would obey or show out of order.

    Escape sequences, other control characters, and marks that turn the direction of writing are
    written as a Python string would write them: `\x1b`, `\u202e`.

    Args:
        text: text of anybody: a name, a path, a message.
        most: most characters to keep; the last one is `…` if the text is longer.
        lines: True if line breaks and tabs stay.
    """
    cut = text if most is None or len(text) <= most else f"{text[: most - 1]}…"
    if cut.isprintable():
        return cut
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in cut)
