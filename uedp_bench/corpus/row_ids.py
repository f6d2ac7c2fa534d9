"""Ids of rows outside of a run: in files that other tools read and write."""

from __future__ import annotations

import hashlib
from collections import Counter

from uedp_bench.corpus.table import Corpus

PLANTED = "planted-"
"""Prefix of the ids of rows that an attack planted."""


def row_ids(corpus: Corpus) -> list[str]:
    """(rows,) id of each row: the source's own, else the row's number in the source's corpus.

    They are equal in a part of the corpus. A row that an attack planted has another text than the
    row whose place it takes, so it has an id of its own, which is made of its user and its text: a
    file that was made before the planting, or for another seed, does not have it.
    """
    own, origin, users = corpus.ids, corpus.origin.tolist(), corpus.users.tolist()
    before: Counter[str] = Counter()
    out: list[str] = []
    for row, source in enumerate(origin):
        if source >= 0:
            out.append(str(source) if own is None else own[row])
            continue
        content = f"{users[row]}\0{corpus.texts[row]}".encode("utf-8", "surrogatepass")
        name = PLANTED + hashlib.sha256(content).hexdigest()[:16]
        out.append(f"{name}-{before[name]}" if before[name] else name)
        before[name] += 1
    return out
