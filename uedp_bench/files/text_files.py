"""Opening text files for sources: plain or gzipped, with one clear line for what goes wrong."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from uedp_bench.errors import InputError
from uedp_bench.files.regular_files import open_regular, shown_path

GZIP_MAGIC = b"\x1f\x8b"

MOST_LINE = 2**24
"""Characters of a line of any file, and of a field of csv."""

MOST_RATIO, MOST_UNPACKED = 200, 2**28
"""How much larger than itself what a gzip file holds may be, where it is more than these bytes."""


@contextmanager
def open_text(
    path: Path,
    parameter: str = "path",
    *,
    newline: str | None = None,
    encoding: str = "utf-8-sig",
) -> Iterator[TextIO]:
    """A text file opened for reading; gzip is known by its first bytes, not by its name.

    Errors of decoding or unpacking while the file is read become an `InputError` as well, and so
    does a line without end.

    Args:
        path: the file.
        parameter: name of the source's parameter that gave it, for messages.
        newline: as for `open`; the `csv` module wants "".
        encoding: of the text, UTF-8 with or without a byte order mark unless told otherwise.

    Raises:
        InputError: if there is no such file, it cannot be read, or its text has another encoding.
    """
    path = Path(path)
    where = f"{parameter}: {shown_path(path)}"
    try:
        with open_regular(path, parameter) as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            size = os.fstat(raw.fileno()).st_size
            binary = _Unpacked(raw, where, size) if packed else raw
            with _Lines(binary, encoding=encoding, newline=newline) as text:
                text.where = where
                yield text
    except UnicodeDecodeError as error:
        told = "UTF-8" if encoding == "utf-8-sig" else encoding
        raise InputError(f"{where} is not {told} text ({error.reason})") from error
    except UnicodeError as error:  # of codecs that look for a byte order mark
        raise InputError(f"{where} is not {encoding} text ({error})") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{where} is damaged or cut short ({error})") from error


class _Unpacked(gzip.GzipFile):
    """What a gzip file holds, unless it is a bomb."""

    def __init__(self, raw: BinaryIO, where: str, size: int) -> None:
        super().__init__(fileobj=raw)
        self._where, self._most = where, max(MOST_UNPACKED, MOST_RATIO * size)

    def read1(self, size: int = -1) -> bytes:
        """As `TextIOWrapper` reads.

        Raises:
            InputError: past the most that text unpacks to.
        """
        data = super().read1(size)
        if self.tell() > self._most:
            raise InputError(
                f"{self._where} unpacks to more than {MOST_RATIO} times its size, as no text does"
            )
        return data


class _Lines(io.TextIOWrapper):
    """A text, none of whose lines is without end."""

    where = ""

    def __next__(self) -> str:  # type: ignore[override]  # typeshed says bytes, of a base
        line = self.readline(MOST_LINE + 1)
        if len(line) > MOST_LINE:
            raise InputError(
                f"{self.where} has a line of more than {MOST_LINE:,} characters, as no text has"
            )
        if not line:
            raise StopIteration
        return line
