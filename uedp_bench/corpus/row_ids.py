"""The ids by which rows are known outside of a run: in files that other tools read and write."""

from __future__ import annotations

import hashlib
from collections import Counter

from uedp_bench.corpus.table import Corpus

PLANTED = "planted-"
"""How the ids of rows begin that an attack planted."""


def row_ids(corpus: Corpus) -> list[str]:
    """(rows,) the id of each row: the source's own, else the row's number in the source's corpus.

    They are the same for a part of the corpus. A row that an attack planted says something else
    than the row whose place it takes, so it has an id of its own, which is made of its user and its
    text: a file that was made before the planting, or for another seed, does not have it.
    """
    own, origin, users = corpus.ids, corpus.origin.tolist(), corpus.users.tolist()
    before: Counter[str] = Counter()
    out: list[str] = []
    for row, source in enumerate(origin):
        if source >= 0:
            out.append(str(source) if own is None else own[row])
            continue
        said = f"{users[row]}\0{corpus.texts[row]}".encode("utf-8", "surrogatepass")
        name = PLANTED + hashlib.sha256(said).hexdigest()[:16]
        out.append(f"{name}-{before[name]}" if before[name] else name)
        before[name] += 1
    return out
