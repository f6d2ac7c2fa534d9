"""Sentences by a rule of one line, for corpora too large for a tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

_END = re.compile(r"([.!?…]+[\"')\]’”]*)\s+")
_WORD = re.compile(r"[^\W_]")


def simple_sentences(text: str) -> Iterator[str]:
    """Sentences of a text whose words have single spaces between them.

    A sentence ends at full stops, question or exclamation marks (and closing quotes or brackets
    behind them) before white space. The rule knows no abbreviations: "Mr. Smith" becomes two
    sentences. A piece with neither a letter nor a digit is no sentence and is left out.
    """
    start = 0
    for end in _END.finditer(text):
        if _WORD.search(text, start, end.start()):
            yield text[start : end.end(1)]
        start = end.end()
    if _WORD.search(text, start):
        yield text[start:]
