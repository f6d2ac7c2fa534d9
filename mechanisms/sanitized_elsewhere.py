"""A file that another tool sanitised: its texts stand in place of the rows with the same ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import CorpusStats, Events, InputError, Layer, PublishingMechanism, equals
from uedp_bench.api.events import Claim, DeclaredClaim
from uedp_bench.api.text import Rewriting, normal_id, row_ids
from uedp_bench.corpus.stable_names import PLANTED
from uedp_bench.data.table_columns import texts_of
from uedp_bench.data.tables import Layout, read_table
from uedp_bench.data.text_files import Quoting
from uedp_bench.errors import nearest, shown
from uedp_bench.io.files import open_regular, shown_path

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, IntArray, Mention, Run, Spans
    from uedp_bench.api.capabilities import EntityDetector
    from uedp_bench.text.comparison import Compared

_OWNER = "sanitized-elsewhere"
_PATH = f"{_OWNER}.path"


class SanitizedFile(NamedTuple):
    """A table with ids and texts.

    Attributes:
        path: path of the file.
        id_column, text_column: names of its columns.
        layout: layout of csv and tsv.
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
            corpus: corpus whose rows are asked for.
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
        message = (
            f"{_PATH}: {shown_path(self.path)} has no text for {len(names):,} of {len(ids):,} "
            f"rows, the first of which has the id {shown(names[0])}; its own first id is "
            f"{shown(next(iter(self.texts())))}"
        )
        if nothing:
            message += "; `uedp-bench data export` writes the rows with their ids"
        elif planted:
            message += (
                f"; attacks planted {planted:,} of these rows: sanitise what `uedp-bench data "
                "export SPEC --seed SEED` writes for this spec and seed, or leave out attacks that "
                "plant"
            )
        else:
            message += f"; a tool may leave rows out: {_OWNER}.missing=drop publishes the others"
        raise InputError(message)


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
    text_by_id: dict[str, str] = {}
    for row, (written, text) in enumerate(zip(ids, texts, strict=True), start=1):
        row_id = None if written is None else normal_id(written)
        if not row_id:
            raise InputError(f"{where}: row {row} has no id in the column {shown(id_column)}")
        if row_id in text_by_id:
            raise InputError(
                f"{where}: row {row} has the id {shown(row_id)} of an earlier row, and nobody "
                "knows which text is right; keep one row an id"
            )
        text_by_id[row_id] = text or ""
    if not text_by_id:
        raise InputError(f"{where} is empty: there is not one row")
    return text_by_id


CHANGED = "changed"
"""Type of a piece whose place no placeholder with a name has taken."""

MOST_TYPES = 100
"""Names of placeholders that are told apart; with more of them, every piece is `CHANGED`."""

_PLACEHOLDER = re.compile(r"[<\[{(*_#]+\s*([A-Za-z][A-Za-z _-]*?)[\s_-]*\d*\s*[>\]})*_#]+")


def compare_all(old: Sequence[str], new: Sequence[str | None]) -> dict[int, Compared]:
    """Compare each row that has a new text with its old one."""
    from uedp_bench.text.comparison import compare

    pairs = enumerate(zip(old, new, strict=True))
    return {row: compare(text, to) for row, (text, to) in pairs if to is not None}


def changed_layer(
    old: Sequence[str], new: Sequence[str | None], compared: Mapping[int, Compared]
) -> Layer:
    """Removed pieces, by the name of the placeholder in their place."""
    named: list[tuple[int, int, int, str]] = []
    for row, each in compared.items():
        text, shift = new[row] or "", 0
        for change in each.changes:
            begin = change.start + shift
            shift += change.length - (change.end - change.start)
            if change.hides:
                match = _PLACEHOLDER.fullmatch(text[begin : begin + change.length].strip())
                kind = CHANGED if match is None else match[1].upper()
                named.append((row, change.start, change.end, kind))
    types = {kind for *_, kind in named}
    few = sorted(types - {CHANGED}) if len(types) <= MOST_TYPES else []
    number = {kind: at for at, kind in enumerate([*few, CHANGED])}
    mentions = [(row, start, end, number.get(kind, len(few))) for row, start, end, kind in named]
    return Layer.build(old, mentions, tuple(number))


def without_unsure(corpus: Corpus, compared: Mapping[int, Compared]) -> Corpus:
    """The corpus without the mentions that cannot be told to have gone to one piece of a text.

    A longer piece that says something else may or may not name them still.
    """
    pieces: list[Mention] = [
        (row, change.start, change.end, 0)
        for row, each in compared.items()
        for change in each.changes
        if change.hides and change.length
    ]
    table = np.array(pieces, dtype=np.int64).reshape(-1, 4)

    def sure(spans: Spans) -> BoolArray:
        """(spans,) False where a changed piece touches one and reaches beyond it."""
        width = 1 + max(table[:, 2].max(initial=0), spans.end.max(initial=0))
        starts, ends = table[:, 0] * width + table[:, 1], table[:, 0] * width + table[:, 2]
        low, high = spans.row * width + spans.start, spans.row * width + spans.end
        first = np.searchsorted(ends, low, "right")
        last = np.searchsorted(starts, high) - 1
        inside: BoolArray = (first > last) | (
            (_padded_take(starts, first) >= low) & (_padded_take(ends, last) <= high)
        )
        return inside

    entities, layers = corpus.entities, dict(corpus.layers)
    if not entities.lost:
        entities = entities.chosen(sure(entities))
    for name, layer in corpus.layers.items():
        if not layer.spans.lost:
            good, rows = sure(layer.spans), layer.rows.copy()
            rows[layer.spans.row[~good]] = False
            layers[name] = Layer(layer.spans.chosen(good), layer.types, rows)
    return replace(corpus, entities=entities, layers=layers)


def _padded_take(values: IntArray, places: IntArray) -> IntArray:
    """Values at places, some past the end, whose value is not used."""
    padded: IntArray = np.append(values, 0)
    return padded[np.minimum(places, len(values))]


COMPARED = 1000
"""Rows, at most, that are compared with the text of another row too."""


class SanitizedElsewhereParams(DeclaredClaim):
    """The file, how it is read, and what its maker claims."""

    path: Path = Field(
        description="table of sanitised texts: .csv, .tsv, .jsonl, .ndjson (each plain or .gz) or "
        ".parquet, with the ids that `uedp-bench data export` writes or the source's id_column has"
    )
    id_column: str = Field(default="id", description="column with the id of each row")
    text_column: str = Field(default="text", description="column with the sanitised text")
    delimiter: str | None = Field(
        default=None,
        exclude_if=equals(None),
        min_length=1,
        max_length=1,
        description="between the fields of a line of csv or tsv; by default a comma or a tab",
    )
    quoting: Quoting | None = Field(
        default=None,
        exclude_if=equals(None),
        description="double quotes in csv and tsv. standard: a field may stand in them (RFC 4180); "
        "none: they are text. By default standard, and a file that may have none is refused",
    )
    missing: Literal["refuse", "drop"] = Field(
        default="refuse",
        description="rows whose id the file does not have. refuse: the run stops; drop: they are "
        "not published, and counted, for a tool may leave rows out",
    )

    @property
    def file(self) -> SanitizedFile:
        """The file."""
        layout = Layout(delimiter=self.delimiter, quoting=self.quoting)
        return SanitizedFile(self.path, self.id_column, self.text_column, layout)


class SanitizedElsewhere(PublishingMechanism[SanitizedElsewhereParams]):
    """Publishes what another tool made of the texts of the training and validation rows.

    Rows are matched by id. Mentions and layers move along where words show where they went: a
    mention stays where its words stay, and covers what took the place of words of its own alone.
    One that stood in a longer piece that was changed is gone, and its row counts as incompletely
    annotated.
    """

    name = "sanitized-elsewhere"
    version = 3
    source = "a file of the user"
    Params = SanitizedElsewhereParams
    carries = frozenset({"entities", "layers"})

    def check_files(self) -> None:
        """Refuses a file that cannot be read, lacks a column, or has no text an id.

        Raises:
            InputError: as `SanitizedFile.texts`.
        """
        self.params.file.texts()

    def plan(self, stats: CorpusStats) -> Events:
        """Nobody here knows what the tool did with private text."""
        return self.params.events()

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Guarantee that the user declares for the tool."""
        return self.params.claims()

    def entity_detector(self) -> EntityDetector:
        """Detector that finds the pieces that the tool changed."""
        return _ChangedPieces(self.params)

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """The corpus with the texts of the file in all rows outside the split `public`.

        Raises:
            InputError: if the file cannot be read, has an id twice, or has no text for a row and
                `missing` is refuse; if it has none for any training row.
        """
        texts, ids = self.params.file.texts(), row_ids(corpus)
        private = ~corpus.where("public")
        missing = private & np.array([name not in texts for name in ids], dtype=bool)
        drop = self.params.missing == "drop"
        self.params.file.check_missing(corpus, ids, missing, may_drop=drop)
        kept = np.flatnonzero(~missing)
        kept_rows = corpus.take(kept)
        new = [texts[ids[row]] if private[row] else None for row in kept.tolist()]
        compared = compare_all(kept_rows.texts, new)
        rewriting = Rewriting(without_unsure(kept_rows, compared))
        for row, each in compared.items():
            if (text := new[row]) is not None and text != kept_rows.texts[row]:
                rewriting.edited(row, text, [one[:3] for one in each.changes])
        _note(run, kept_rows, compared, new)
        run.note(
            rows_dropped=int(missing.sum()),
            ids_unused=len(texts.keys() - {*ids}),
            simulation_only=["rows_dropped", "ids_unused"],
        )
        return rewriting.corpus(), self.params.events()


class _ChangedPieces(NamedTuple):
    """See `EntityDetector`."""

    params: SanitizedElsewhereParams

    def find(self, corpus: Corpus) -> Layer:
        """The pieces of original texts that are others in the file; of a dropped row, all of it.

        Raises:
            InputError: as `publish`.
        """
        file, ids = self.params.file, row_ids(corpus)
        texts = file.texts()
        missing = np.array([name not in texts for name in ids], dtype=bool)
        file.check_missing(corpus, ids, missing, may_drop=self.params.missing == "drop")
        new = [texts.get(name, "") for name in ids]
        return changed_layer(corpus.texts, new, compare_all(corpus.texts, new))


def _note(
    run: Run, corpus: Corpus, compared: Mapping[int, Compared], new: Sequence[str | None]
) -> None:
    """Notes the share of text left, and of entities where people labelled them."""
    from uedp_bench.text.detection import measure

    planted = [row for row in compared if corpus.origin[row] < 0]
    counts: dict[str, float] = {
        "rows_published": len(compared),
        "rows_changed": sum(not each.is_same for each in compared.values()),
        "rows_blank": sum(not (new[row] or "").strip() for row in compared),
        "planted_rows": len(planted),
        "planted_rows_unchanged": sum(compared[row].is_same for row in planted),
        "words_kept": _kept(compared.values()),
        "words_kept_of_another_row": _kept(_of_others(corpus.texts, new, [*compared])),
    }
    run.note(**counts, simulation_only=list(counts))
    gold = corpus.layers.get("gold")
    if gold is None and corpus.detector is None:
        gold = Layer(corpus.entities, corpus.entity_types, np.ones(len(corpus), dtype=bool))
    if gold is not None and not gold.spans.lost and len(gold.spans):
        rows = ~corpus.where("public") & (corpus.origin >= 0)
        measured = measure(corpus.texts, gold, changed_layer(corpus.texts, new, compared), rows)
        run.note(detection=measured.to_dict(), simulation_only=["detection"])


def _kept(compared: Iterable[Compared]) -> float:
    """Share of the words that are left."""
    counts = [(each.kept, each.words) for each in compared]
    return sum(kept for kept, _ in counts) / max(sum(words for _, words in counts), 1)


def _of_others(
    old: Sequence[str], new: Sequence[str | None], rows: Sequence[int]
) -> Iterator[Compared]:
    """Texts compared with the new text of the next row: what any two texts have in common."""
    from uedp_bench.text.comparison import compare

    for row, other in pairwise(rows[: COMPARED + 1]):
        yield compare(old[row], new[other] or "")
