"""Files in the layout of the CoNLL shared tasks: a token a line, a blank line after a sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from uedp_bench.data.tables import FileColumns, TableFormat
from uedp_bench.errors import InputError, shown
from uedp_bench.io.files import open_text, shown_path
from uedp_bench.tasks.sources.reading.file_columns import DOCUMENT

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
