"""Opening text files for sources: plain or gzipped, with one clear line for each error."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from uedp_bench.errors import InputError
from uedp_bench.io.regular_files import open_regular, shown_path

GZIP_MAGIC = b"\x1f\x8b"

MOST_LINE = 2**24
"""Characters of a line of any file, and of a field of csv."""

MOST_RATIO, MOST_UNPACKED = 200, 2**24
"""Largest ratio of content to a gzip file, if the content has more than these bytes."""

MOST_LINES = 2**21
"""Lines of a file that has fewer bytes than lines, at most: a line costs more than its bytes."""

UTF_8 = "utf-8-sig"
"""UTF-8 with or without a byte order mark."""

MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
         codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip
"""Encodings by their byte order marks; that of UTF-32 begins like that of UTF-16."""

PACKERS = {
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "bzip2": re.compile(rb"BZh[1-9]1AY&"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zip, as spreadsheets are": re.compile(rb"PK\x03\x04"),
}
"""First bytes of files that other programs than gzip packed."""


@contextmanager
def open_text(
    path: Path, parameter: str = "path", *, newline: str | None = None, encoding: str = UTF_8
) -> Iterator[TextIO]:
    """Open a text file for reading; gzip is recognised by its first bytes, not by its name.

    Errors of decoding or unpacking while the file is read become an `InputError` as well, and so
    does a line without end.

    Args:
        path: the file.
        parameter: name of the source's parameter that gave it, for messages.
        newline: as for `open`; the `csv` module wants "".
        encoding: encoding of the text; by default UTF-8 with or without a byte order mark.

    Raises:
        InputError: if there is no such file, it cannot be read, or its text has another encoding.
    """
    path = Path(path)
    where = f"{parameter}: {shown_path(path)}"
    try:
        with open_regular(path, parameter) as raw:
            start = raw.read(8)
            raw.seek(0)
            refuse_packed(start, where)
            size = os.fstat(raw.fileno()).st_size
            binary = _Unpacked(raw, where, size) if start[:2] == GZIP_MAGIC else raw
            with _Lines(binary, encoding=encoding, newline=newline) as text:
                text.where, text.most_lines = where, max(MOST_LINES, size)
                yield text
    except UnicodeDecodeError as error:
        name = "UTF-8" if encoding == UTF_8 else encoding
        mark = encoding_of_mark(start)
        hint = f"; it begins as {mark} does" if mark not in (None, "utf-8", encoding) else ""
        raise InputError(f"{where} is not {name} text ({error.reason}){hint}") from error
    except UnicodeError as error:  # of codecs that look for a byte order mark
        raise InputError(f"{where} is not {encoding} text ({error})") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{where} is damaged or cut short ({error})") from error


def encoding_of_mark(start: bytes) -> str | None:
    """Encoding whose byte order mark a file begins with."""
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), None)


def refuse_packed(start: bytes, where: str) -> None:
    """Refuse a file that is packed by another program than gzip.

    Raises:
        InputError: with the program.
    """
    for name, magic in PACKERS.items():
        if magic.match(start):
            raise InputError(
                f"{where} is packed by {name}; unpack it first, for gzip alone is read packed"
            )


class _Unpacked(gzip.GzipFile):
    """Content of a gzip file that is no bomb."""

    def __init__(self, raw: BinaryIO, where: str, size: int) -> None:
        super().__init__(fileobj=raw)
        self._where, self._most = where, max(MOST_UNPACKED, MOST_RATIO * size)

    def read(self, size: int | None = -1) -> bytes:
        """Read piece by piece, so that no more than the most that is allowed is ever unpacked.

        Raises:
            InputError: see `read1`.
        """
        pieces: list[bytes] = []
        left = 2**62 if size is None or size < 0 else size
        while left > 0 and (piece := self.read1(min(left, 2**20))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def read1(self, size: int = -1) -> bytes:
        """Read available bytes, as `TextIOWrapper` does line by line.

        Raises:
            InputError: past the most that text unpacks to.
        """
        data = super().read1(size)
        if self.tell() > self._most:
            raise InputError(
                f"{self._where} unpacks to more than {MOST_RATIO} times its size and more than "
                f"{MOST_UNPACKED:,} bytes, as no text does"
            )
        return data


class _Lines(io.TextIOWrapper):
    """Text without endless lines, and without many lines that cost no bytes."""

    where = ""
    most_lines = MOST_LINES
    _count = 0

    def __next__(self) -> str:  # type: ignore[override]  # typeshed says bytes, of a base
        line = self.readline(MOST_LINE + 1)
        if len(line) > MOST_LINE:
            raise InputError(
                f"{self.where} has a line of more than {MOST_LINE:,} characters, as no text has"
            )
        if not line:
            raise StopIteration
        self._count += 1
        if self._count > self.most_lines:
            raise InputError(f"{self.where} has more than {self.most_lines:,} lines in fewer bytes")
        return line
