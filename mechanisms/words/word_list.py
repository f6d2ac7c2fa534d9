"""Public word lists, to which a vocabulary can be restricted."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from uedp_bench.errors import InputError
from uedp_bench.text.embedding import Embedding


def read_words(paths: Sequence[Path], field: str) -> frozenset[str]:
    """The words of files with one word a line; blank lines and comments (`;`) do not count.

    Files are plain or `.gz`, in UTF-8, or in Latin-1 where they are not UTF-8, as older lexicons
    often are.

    Raises:
        InputError: if a file cannot be read or has no word.
    """
    words: set[str] = set()
    for path in paths:
        try:
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{field}: {path} cannot be read: {reason}") from None
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        found = {word for line in text.split("\n") if (word := line.strip()) and word[0] != ";"}
        if not found:
            raise InputError(f"{field}: {path} has no word; write one a line")
        words |= found
    return frozenset(words)


def restrict(embedding: Embedding, words: frozenset[str], field: str) -> Embedding:
    """The embedding of its words that the list has, as written or in lower case, in its order.

    Raises:
        InputError: if there are none.
    """
    known = words | {word.lower() for word in words}
    kept = [at for at, word in enumerate(embedding.words) if word in known]
    if not kept:
        raise InputError(f"{field}: none of its {len(words)} words is in the embedding")
    return Embedding(tuple(embedding.words[at] for at in kept), embedding.vectors[kept])
