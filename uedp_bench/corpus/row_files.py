"""Rows of a corpus as a file that other tools read."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus, row_ids
from uedp_bench.errors import InputError
from uedp_bench.io.regular_files import shown_path

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
