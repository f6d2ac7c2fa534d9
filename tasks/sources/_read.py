"""Opening text files for sources: plain or gzipped, with one clear line for what goes wrong."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from uedp_bench.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_text(
    path: Path,
    parameter: str = "path",
    *,
    newline: str | None = None,
    encoding: Literal["utf-8-sig", "latin-1"] = "utf-8-sig",
) -> Iterator[TextIO]:
    """A text file opened for reading; gzip is known by its first bytes, not by its name.

    Errors of decoding or unpacking while the file is read become an `InputError` as well.

    Args:
        path: the file.
        parameter: name of the source's parameter that gave it, for messages.
        newline: as for `open`; the `csv` module wants "".
        encoding: of the text, UTF-8 with or without a byte order mark unless told otherwise.

    Raises:
        InputError: if there is no such file, it cannot be read, or it is not UTF-8 text.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{parameter}: no such file: {path}")
    if not path.is_file():
        raise InputError(f"{parameter}: not a file: {path}")
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            binary = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(binary, encoding=encoding, newline=newline) as text:
                yield text
    except UnicodeDecodeError as error:
        raise InputError(f"{parameter}: {path} is not UTF-8 text ({error.reason})") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{parameter}: {path} is damaged or cut short ({error})") from error
    except PermissionError as error:
        raise InputError(f"{parameter}: {path} may not be read") from error
