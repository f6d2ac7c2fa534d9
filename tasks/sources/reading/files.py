"""Files of data sets: where they are, and their rows, each with the line in which it stands.

Readers of jsonl (one file a split, an object a line), of parallel text (two files of as many
lines), and of the layout of the CoNLL shared tasks (a token a line, a blank line after a sentence).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus, IntArray, normal_id
from uedp_bench.data.table_columns import NOT_TEXT, ArrowColumns
from uedp_bench.data.tables import Columns, FileColumns, TableFormat
from uedp_bench.errors import InputError, nearest, plain, shown
from uedp_bench.io.files import open_text, shown_path
from uedp_bench.text.comparison import Pair, holds_text


def find_file(folder: Path, names: Sequence[str], owner: str) -> Path:
    """The first of `names` in a folder that exists, as it is or with `.gz` behind it.

    Args:
        folder: folder to search.
        names: file names or patterns (`train*.jsonl`), the preferred first.
        owner: the source that asks, for the message.

    Raises:
        InputError: if the folder or every one of the names is missing.
    """
    file = find_optional(folder, names, owner)
    if file is None:
        raise InputError(f"{owner}.path: {folder} has no {' or '.join(names)} (plain or .gz)")
    return file


def find_optional(folder: Path, names: Sequence[str], owner: str) -> Path | None:
    """As `find_file`, but None where no such file exists.

    Raises:
        InputError: if the folder is missing.
    """
    if not folder.is_dir():
        raise InputError(f"{owner}.path: {folder} is not a folder")
    patterns = (f"{name}{ending}" for name in names for ending in ("", ".gz"))
    hits = (file for pattern in patterns for file in sorted(folder.glob(pattern)))
    return next((file for file in hits if file.is_file()), None)


def require_path(path: Path, owner: str) -> Path:
    """The path, if something is there.

    Raises:
        InputError: otherwise.
    """
    if not path.exists():
        raise InputError(f"{owner}.path: {path} does not exist")
    return path


Record = tuple[str, ...]
"""The values of the fields that were asked for, in their order."""

_OPTIONAL: dict[str, tuple[str, ...]] = {
    "valid": ("valid.jsonl", "dev.jsonl", "valid*.jsonl", "dev*.jsonl"),
    "test": ("test.jsonl", "test*.jsonl"),
}


def find_splits(folder: Path, owner: str) -> dict[str, Path]:
    """The file of each split that the folder has; train must be there.

    Raises:
        InputError: if the folder or its training file is missing.
    """
    files = {"train": find_file(folder, ("train.jsonl", "train*.jsonl"), owner)}
    optional = {split: find_optional(folder, names, owner) for split, names in _OPTIONAL.items()}
    return files | {split: file for split, file in optional.items() if file is not None}


def read_splits(
    files: dict[str, Path], fields: Sequence[str], owner: str
) -> tuple[list[Record], IntArray]:
    """Records of all files, and (records,) the index into `SPLITS` of each.

    Raises:
        InputError: as `read_records`.
    """
    parts = {split: list(read_records(file, fields, owner)) for split, file in files.items()}
    counts = [len(part) for part in parts.values()]
    split = np.repeat([SPLITS.index(name) for name in parts], counts)
    return [record for part in parts.values() for record in part], split.astype(np.int64)


def read_records(file: Path, fields: Sequence[str], owner: str) -> Iterator[Record]:
    """The named fields of each line of a file; other fields are not looked at.

    Raises:
        InputError: naming file and line, for a line that is not an object with these fields, or a
            field that is not a string or blank; for an empty file.
    """
    number = 0
    with open_text(file, f"{owner}.path") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{owner}.path: {shown_path(file)}, line {number}"
            with object_with(", ".join(fields), where):
                content = json.loads(line)
                record = tuple(content[name] for name in fields)
            for name, value in zip(fields, record, strict=True):
                if not isinstance(value, str) or not value.strip():
                    raise InputError(
                        f"{where}: {name} is null, blank or not a string: {shown(value)}"
                    )
                if NOT_TEXT.search(value):
                    raise InputError(f"{where}: {name} has half of a character or a null one: "
                                     f"{shown(value)}")  # fmt: skip
            yield record
    if not number:
        raise InputError(f"{owner}.path: {file} is empty: there is not one row")


@contextmanager
def object_with(fields: str, where: str) -> Iterator[None]:
    """Refuse what is read inside where it is not a JSON object with some fields.

    Args:
        fields: fields in words.
        where: place of the object.

    Raises:
        InputError: for other JSON, other types of the fields, or objects that are nested too deep.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = plain(repr(error), 200)
        raise InputError(f"{where} is not an object with {fields}: {reason}") from None


def class_ids(values: Sequence[str], names: Sequence[str], owner: str, field: str) -> IntArray:
    """(values,) index into `names` of each value.

    Raises:
        InputError: for a value that is not one of them, with the nearest that is.
    """
    index = {name: at for at, name in enumerate(names)}
    unknown = next((value for value in values if value not in index), None)
    if unknown is not None:
        near = nearest(unknown, names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names)}"
        raise InputError(f"{owner}.path: {field} {shown(unknown)} is not known; {hint}")
    return np.array([index[value] for value in values], dtype=np.int64)


def read_lines(path: Path, parameter: str) -> list[str]:
    """The lines of a file, each with single spaces between its words."""
    with open_text(path, parameter) as lines:
        return [" ".join(line.split()) for line in lines]


def read_pairs(text: Path, target: Path, parameter: str) -> list[Pair]:
    """The pairs of two files, line by line; a side may be blank.

    Raises:
        InputError: if one has more lines than the other.
    """
    texts, targets = read_lines(text, parameter), read_lines(target, parameter)
    if len(texts) != len(targets):
        raise InputError(
            f"{parameter}: {shown_path(text)} has {len(texts)} lines, and {shown_path(target)} "
            f"{len(targets)}: line n of one must be the translation of line n of the other"
        )
    return [*zip(texts, targets, strict=True)]


def parallel_corpus(
    pairs: Sequence[Pair],
    split: Sequence[int],
    users: Sequence[int],
    parameter: str,
    *,
    clean: bool,
) -> Corpus:
    """The corpus of some pairs; pairs with a blank side are left out.

    Args:
        pairs: rows.
        split: (rows,) index into `SPLITS`.
        users: (rows,) document of each row, -1 for none.
        parameter: name of the source's parameter, for messages.
        clean: leave out pairs of which `holds_text` is true.

    Raises:
        InputError: if no training pair is left.
    """
    keep = [
        at
        for at, pair in enumerate(pairs)
        if pair[0] and pair[1] and not (clean and holds_text(pair))
    ]
    splits: IntArray = np.array([split[at] for at in keep], dtype=np.int64)
    if not (splits == SPLITS.index("train")).any():
        raise InputError(f"{parameter}: no training pair has words on both sides")
    ids: IntArray = np.array([users[at] for at in keep], dtype=np.int64)
    return Corpus(
        texts=tuple(pairs[at][0] for at in keep),
        groups={"user": ids},
        split=splits,
        targets=tuple(pairs[at][1] for at in keep),
    )


SPLIT = "split of the file"
"""Column that says which file a row is from, where a folder has a file a split."""


DOCUMENT = "document"
"""Column with the number of the document, in files of tokens that mark documents."""


def joined(parts: Mapping[str, Columns]) -> Columns:
    """The rows of several files, by the split that each is.

    A column that a file lacks is null there. Numbers of documents start anew in each file, so that
    a document is called by its split too.
    """
    some_large = any(isinstance(part, ArrowColumns) for part in parts.values())
    if some_large and not any(isinstance(part, FileColumns) for part in parts.values()):
        whole = _joined_tables(parts)
        if whole is not None:
            return whole
    out = FileColumns("", ())
    sizes = {split: len(next(iter(columns.values()), ())) for split, columns in parts.items()}
    for split, columns in parts.items():
        if isinstance(columns, FileColumns):
            out.places += columns.places
            out.by_word |= columns.by_word
        else:
            out.places += [(split, row + 1) for row in range(sizes[split])]
    for name in dict.fromkeys(name for columns in parts.values() for name in columns):
        out[name] = [
            f"{split} {value}" if out.by_word and name == DOCUMENT else value
            for split, columns in parts.items()
            for value in columns.get(name, [None] * sizes[split])
        ]
    out[SPLIT] = [split for split, size in sizes.items() for _ in range(size)]
    return out


def _joined_tables(parts: Mapping[str, Columns]) -> ArrowColumns | None:
    """Tables of Arrow as one; None where files share no column, or one has two types."""
    import pyarrow as pa

    names = [name for columns in parts.values() for name in columns]
    large = [columns for columns in parts.values() if isinstance(columns, ArrowColumns)]
    large_names = {name for columns in large for name in columns.table.column_names}
    tables, sizes = [], {}
    try:
        for split, columns in parts.items():
            if not isinstance(columns, ArrowColumns):
                held = {name: values for name, values in columns.items() if name in large_names}
                if not held:
                    return None
                columns = ArrowColumns(pa.table(held), [*held])
            sizes[split] = columns.rows
            tables.append(columns.table.append_column(SPLIT, pa.repeat(split, columns.rows)))
        whole = pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException:
        return None
    return ArrowColumns(whole, [*names, SPLIT], sizes)


def place_of(columns: Columns, row: int, owner: str, word: int = 0) -> str:
    """File and line of a row, or of one of its words, where they are known; else its number."""
    if isinstance(columns, FileColumns):
        where, line = columns.places[row]
        return f"{where}, line {line + (word if columns.by_word else 0)}"
    if isinstance(columns, ArrowColumns) and columns.parts:
        where, line = columns.place(row)
        return f"{where}, line {line}"
    return f"{owner}: row {row + 1}"


def check_one_type(columns: Columns, name: str, owner: str) -> None:
    """Refuses a column of ids in which one file has 7 as well as "7", or truths beside others.

    Nobody knows then if they are one. Over several files the value decides.

    Raises:
        InputError: naming a row of each type.
    """
    if not isinstance(columns, FileColumns):
        return
    values = columns[name]
    if len({*map(type, values)} - {type(None)}) < 2:
        return
    first: dict[tuple[str, str | None], tuple[object, int]] = {}
    for row, (value, (where, _)) in enumerate(zip(values, columns.places, strict=True)):
        if value is None:
            continue
        kind = _kind_of(value)
        for key, form in ((None, kind == "truth"), (normal_id(value), kind)):
            form_before, before = first.setdefault((where, key), (form, row))
            if form_before != form:
                raise InputError(
                    f"{place_of(columns, row, owner)}, column {shown(name)}: {shown(value)} is a "
                    f"{kind}, and {shown(values[before])} in line {columns.places[before][1]} is a "
                    f"{_kind_of(values[before])}; write all ids of a column alike"
                )


def _kind_of(value: Any) -> str:
    kinds = {str: "text", int: "number", float: "number", bool: "truth"}
    return kinds.get(type(value), type(value).__name__)


FileFormat = Literal[TableFormat, "conll"]
"""Format of a file of rows or of tokens."""

ENDINGS = frozenset({".conll", ".bio", ".iob", ".iob2"})
_START = "-DOCSTART-"
_COMMENT = re.compile(r"#\s*([\w.:-]+\s*=|newdoc\b|newpar\b)")
_NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")


def read_tokens(
    path: Path, names: tuple[str, ...], parameter: str, encoding: str = "utf-8-sig"
) -> FileColumns:
    """The columns of a file: a list of tokens, or of tags, a sentence.

    Columns are separated by tabs where the first token line has one, else by white space. Lines
    that start with `-DOCSTART-` begin a document; documents without a sentence are not counted.
    Comments of CoNLL-U (`# sent_id = 1` before a sentence) are left out.

    Args:
        path: the file.
        names: of the columns, as many as a line has; by default the first is `token`, the last
            `gold`, and those between them are left out. In CoNLL-U, where the first counts the
            words of each sentence, the second is `token`.
        parameter: parameter that named the file, for messages.
        encoding: encoding of its text.

    Raises:
        InputError: naming the line, for one that has another number of columns than the first.
    """
    where = f"{parameter}: {shown_path(path)}"
    sentences: list[list[list[str]]] = [[]]
    lines: list[int] = []
    documents: list[int] = []
    width, separator, document, pending = 0, None, -1, False
    with open_text(path, parameter, encoding=encoding) as text:
        for number, line in enumerate(text, start=1):
            if not line.strip() or line.startswith(_START):
                pending |= line.startswith(_START)
                if sentences[-1]:
                    sentences.append([])
                continue
            if not sentences[-1] and is_comment(line):
                continue
            if not width:
                separator = "\t" if "\t" in line else None
            cells = [cell.strip() for cell in line.rstrip("\r\n").split(separator)]
            width = width or len(cells)
            _check_line(cells, width, f"{where}, line {number}")
            if not sentences[-1]:
                document, pending = document + pending, False
                lines.append(number)
                documents.append(document)
            sentences[-1].append(cells)
    filled = [sentence for sentence in sentences if sentence]
    if filled and not names and _is_counted(filled):
        _check_words(filled, lines, where)
        names = ("", "token", *[""] * (width - 3), "gold")
    names = _names(names, width, where) if filled else ("token", "gold")
    columns = FileColumns(where, lines, by_word=True)
    for at, name in enumerate(names):
        if name:
            columns[name] = [[cells[at] for cells in sentence] for sentence in filled]
    if document >= 0:
        columns[DOCUMENT] = [str(number) for number in documents]
    return columns


def is_comment(line: str) -> bool:
    """True for a comment as CoNLL-U has it before a sentence: `# name = value`."""
    return _COMMENT.match(line) is not None


def _is_counted(sentences: list[list[list[str]]]) -> bool:
    """True if the first of three columns or more counts the words of each sentence, from 1."""
    for sentence in sentences:
        counts = [cells[0] for cells in sentence if not _NO_WORD.fullmatch(cells[0])]
        if len(sentence[0]) < 3 or counts != [str(at + 1) for at in range(len(counts))]:
            return False
    return any(sentence[0][0] == "1" for sentence in sentences)


def _check_words(sentences: list[list[list[str]]], lines: list[int], where: str) -> None:
    for first, sentence in zip(lines, sentences, strict=True):
        for at, cells in enumerate(sentence):
            if _NO_WORD.fullmatch(cells[0]):
                raise InputError(
                    f"{where}, line {first + at}: {cells[0]} is a range or an empty node of "
                    "CoNLL-U, not a word; take such lines out, or name token_columns"
                )


def _check_line(cells: list[str], width: int, where: str) -> None:
    if len(cells) != width:
        raise InputError(f"{where}: {len(cells)} columns, and {width} in the first line of a token")
    if width < 2:
        raise InputError(f"{where}: {shown(cells[0])} has no tag beside it")
    if not all(cells):
        raise InputError(f"{where}: column {cells.index('') + 1} is empty")


def _names(names: tuple[str, ...], width: int, where: str) -> tuple[str, ...]:
    if not names:
        return ("token", *[""] * (width - 2), "gold")
    if len(names) != width:
        raise InputError(
            f"{where} has {width} columns, and token_columns names {len(names)}: {', '.join(names)}"
        )
    return names
