"""Rows of a corpus outside of a run: their ids, and files of them that other tools read."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np

from uedp_bench.corpus.table import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.io.files import shown_path

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


COLUMNS = ("id", "split", "user", "text")
"""Columns of the file: the row's id, its split, the number of its user (-1 for none), its text."""

ENDINGS = (".jsonl", ".csv")
"""Kinds of files that are written."""


def write_rows(corpus: Corpus, out: Path) -> int:
    """Write the rows outside the split `public`, in order, for their owner alone to read.

    Args:
        corpus: corpus of a source, with planted rows.
        out: new file, whose ending decides its kind.

    Returns:
        Number of written rows.

    Raises:
        InputError: if the ending is another, there is such a file, or it cannot be written.
    """
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"--out {shown_path(out)} must end in {' or '.join(ENDINGS)}")
    private = np.flatnonzero(~corpus.where("public")).tolist()
    ids, users = row_ids(corpus), corpus.users.tolist()
    rows = ((ids[at], SPLITS[int(corpus.split[at])], users[at], corpus.texts[at]) for at in private)
    try:
        out.touch(mode=0o600, exist_ok=False)
        with out.open("w", encoding="utf-8", newline="") as file:
            if out.suffix.lower() == ".csv":
                csv.writer(file).writerows([COLUMNS, *rows])
            else:
                file.writelines(
                    json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) + "\n"
                    for row in rows
                )
    except FileExistsError:
        raise InputError(f"--out {shown_path(out)} is there already: name a new file") from None
    except OSError as error:
        raise InputError(f"--out {shown_path(out)} cannot be written: {error.strerror}") from None
    return len(private)
