"""The file that another tool wrote: a text by the id of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.corpus.normal_form import normal_id
from uedp_bench.corpus.row_ids import PLANTED
from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.files.cell_values import texts_of
from uedp_bench.files.regular_files import open_regular, shown_path
from uedp_bench.files.tables import Layout, read_table

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus

_OWNER = "sanitized-elsewhere"
_PATH = f"{_OWNER}.path"


class SanitizedFile(NamedTuple):
    """A table with ids and texts.

    Attributes:
        path: of the file.
        id_column, text_column: names of its columns.
        layout: of csv and tsv.
    """

    path: Path
    id_column: str = "id"
    text_column: str = "text"
    layout: Layout = Layout()

    def texts(self) -> Mapping[str, str]:
        """Texts by id; a null text is an empty one.

        Raises:
            InputError: if the file cannot be read, lacks a column, is empty, or has a row without
                id or two of one id.
        """
        with open_regular(self.path, _PATH):
            at = self.path.resolve()
        state = at.stat()
        version = (state.st_mtime_ns, state.st_size)
        return _read(at, self.id_column, self.text_column, self.layout, version)

    def check_missing(
        self, corpus: Corpus, ids: Sequence[str], missing: BoolArray, *, may_drop: bool
    ) -> None:
        """Refuses rows without a text where none may be dropped, and a file of other rows.

        Args:
            corpus: whose rows are asked for.
            ids: (rows,) of its rows.
            missing: (rows,) True where a text is asked for and not there.
            may_drop: rows may have no text, unless that is all of them or all of the split train.

        Raises:
            InputError: with the first id, how many are missing, and what to do.
        """
        train = corpus.where("train")
        nothing = bool(missing.all() or (train.any() and missing[train].all()))
        if not missing.any() or (may_drop and not nothing):
            return
        names = [ids[row] for row in np.flatnonzero(missing).tolist()]
        planted = sum(name.startswith(PLANTED) for name in names)
        said = (
            f"{_PATH}: {shown_path(self.path)} has no text for {len(names):,} of {len(ids):,} "
            f"rows, the first of which has the id {shown(names[0])}; its own first id is "
            f"{shown(next(iter(self.texts())))}"
        )
        if nothing:
            said += "; `uedp-bench data export` writes the rows with their ids"
        elif planted:
            said += (
                f"; attacks planted {planted:,} of these rows: sanitise what `uedp-bench data "
                "export SPEC --seed SEED` writes for this spec and seed, or leave out attacks that "
                "plant"
            )
        else:
            said += f"; a tool may leave rows out: {_OWNER}.missing=drop publishes the others"
        raise InputError(said)


@lru_cache(maxsize=2)
def _read(
    path: Path, id_column: str, text_column: str, layout: Layout, version: tuple[int, int]
) -> Mapping[str, str]:
    """The texts of a file by id; a null text is an empty one."""
    columns = read_table(path, _PATH, layout, {id_column, text_column})
    where = f"{_PATH}: {shown_path(path)}"
    for parameter, name in (("id_column", id_column), ("text_column", text_column)):
        if name not in columns:
            near = nearest(name, columns)
            hint = f"did you mean {near!r}?" if near else f"columns: {', '.join(columns) or 'none'}"
            raise InputError(
                f"{_OWNER}.{parameter}: {shown_path(path)} has no column {shown(name)}; {hint}"
            )
    ids = texts_of(columns[id_column], f"{where}, column {shown(id_column)}")
    texts = texts_of(columns[text_column], f"{where}, column {shown(text_column)}")
    found: dict[str, str] = {}
    for row, (written, text) in enumerate(zip(ids, texts, strict=True), start=1):
        given = None if written is None else normal_id(written)
        if not given:
            raise InputError(f"{where}: row {row} has no id in the column {shown(id_column)}")
        if given in found:
            raise InputError(
                f"{where}: row {row} has the id {shown(given)} of an earlier row, and nobody knows "
                "which text is right; keep one row an id"
            )
        found[given] = text or ""
    if not found:
        raise InputError(f"{where} is empty: there is not one row")
    return found
