"""Files of anybody: regular ones only, in any place, of a size that fits in memory; and JSON.

A path may name a pipe that nobody writes to, an endless device, a folder, or nothing that a file
system could hold. Texts may be gzipped, and every error is one clear line. JSON may be nested
without end, or hold what its libraries let pass and other programs read otherwise.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from pydantic_core import from_json, to_json

from uedp_bench.errors import InputError, plain

MOST_PATH_SHOWN = 200
"""Characters of a path that a message repeats."""


class UnreadableError(InputError):
    """A path that is no file to be read.

    Attributes:
        reason: a sentence without its subject.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def open_regular(path: Path, field: str) -> BufferedReader:
    """Open a regular file, or a link to one, for reading; never wait.

    Args:
        path: path of the file.
        field: the option or parameter that names it, for messages.

    Raises:
        UnreadableError: if it is no regular file, or cannot be opened.
    """
    where = f"{field}: {shown_path(path)}"
    try:
        # Opening a pipe would wait for its writer; one may take a file's place at any time.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags)
    except FileNotFoundError:
        message = f"{field}: no such file: {shown_path(path)}"
        raise UnreadableError(message, "there is no such file") from None
    except OSError as error:
        raise _unreadable(where, f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise _unreadable(where, "is no name of a file: it holds a null character") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = "is a folder" if stat.S_ISDIR(mode) else "is a pipe, a device or a socket"
        raise _unreadable(where, f"{what}, not a file")
    return os.fdopen(handle, "rb")


def state_of(path: Path) -> tuple[int, ...]:
    """Inode, size and times of a file, which other content changes.

    Raises:
        OSError: if there is no such file.
    """
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_regular(path: Path, field: str, most: int) -> bytes:
    """Read the content of a regular file.

    Args:
        path: path of the file.
        field: the option or parameter that names it, for messages.
        most: most bytes that it may have.

    Raises:
        UnreadableError: as `open_regular`, and for a larger file.
    """
    where = f"{field}: {shown_path(path)}"
    with open_regular(path, field) as file:
        try:
            # Reading allocates the requested size: a small file shall not cost the largest size.
            size = os.fstat(file.fileno()).st_size
            content = file.read(min(size, most) + 1)
            if len(content) > size:  # it grows, or says no size as some files of devices do
                content += file.read(most + 1 - len(content))
        except OSError as error:
            raise _unreadable(where, f"cannot be read: {error.strerror}") from None
    if len(content) > most:
        raise _unreadable(where, f"is larger than {_size(most)}, the most that is read")
    return content


def read_text(path: Path, field: str, most: int) -> str:
    """Read a regular file of UTF-8 text, with or without a byte order mark; see `read_regular`.

    Raises:
        InputError: as `read_regular`, and for what is not UTF-8.
    """
    try:
        return read_regular(path, field, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{field}: {shown_path(path)} is not UTF-8 text (byte {error.start})"
        ) from None


def _unreadable(where: str, reason: str) -> UnreadableError:
    return UnreadableError(f"{where} {reason}", reason)


def shown_path(path: Path) -> str:
    """A path as messages repeat it."""
    return plain(str(path), MOST_PATH_SHOWN)


def _size(count: int) -> str:
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count / 2**10:g} KiB"


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
        hint = "; save it as UTF-8, or name its encoding" if encoding == UTF_8 else ""
        hint = f"; it begins as {mark} does" if mark not in (None, "utf-8", encoding) else hint
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


# ------------------------------------------------------------------------- JSON, read within limits

MOST_BYTES = 16 * 2**20
"""Largest size of a result file; the largest reference result has 48 kB."""

MOST_DEPTH = 100
"""Most levels of a file's lists and objects; libraries for JSON have limits."""

MOST_SHOWN = 80
"""Characters of a file that a message repeats."""


class FormError(Exception):
    """Unreadable file; the message is a sentence without a subject."""


@dataclass(frozen=True)
class Parsed:
    """A JSON value.

    Attributes:
        value: the value; of names that one object has twice, the last counts.
        twice: such names, each once an object.
        sound: True if `faults` is known to find nothing.
    """

    value: Any
    twice: tuple[str, ...] = ()
    sound: bool = False


def file_text(path: Path) -> str:
    """Read the text of a regular file.

    Args:
        path: path of the file, or of a link to it.

    Raises:
        FormError: for anything else than a text of at most `MOST_BYTES`.
    """
    try:
        content = read_regular(path, "file", MOST_BYTES)
    except UnreadableError as error:
        raise FormError(error.reason) from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise FormError("is no text in UTF-8, so no JSON") from None


def parse(text: str) -> Parsed:
    """Parse a JSON text that is not nested too deeply.

    Raises:
        FormError: if the text is no such JSON.
    """
    quick = _parsed_quickly(text)
    if quick is not None:
        return quick
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            counted = Counter(name for name, _ in pairs)
            twice.extend(name for name, count in counted.items() if count > 1)
        return out

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise FormError(TOO_DEEP) from None
    except ValueError as reason:
        if _opened(text) > MOST_DEPTH:  # no version of Python has the same limit
            raise FormError(TOO_DEEP) from None
        raise FormError(f"is no JSON: {plain(str(reason), MOST_SHOWN)}") from None
    if _too_deep(value):
        raise FormError(TOO_DEEP)
    return Parsed(value, tuple(twice))


def _parsed_quickly(text: str) -> Parsed | None:
    """The value by a parser of compiled code; None where `parse` must look closer, or complain.

    That parser keeps the last of names that an object has twice. Then the value has fewer colons
    than the text, if no string of the text has one as an escape.
    """
    if "\\u003" in text:
        return None
    try:
        value = from_json(text, allow_inf_nan=False)
        again = to_json(value, inf_nan_mode="constants")
    except (ValueError, TypeError):  # half a character makes either
        return None
    whole = text.count(":") == again.count(b":")
    finite = b"Infinity" not in again and b"NaN" not in again
    return Parsed(value, sound=True) if whole and finite and not _too_deep(value) else None


TOO_DEEP = f"is nested too deeply; results have at most {MOST_DEPTH} levels"


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def _opened(text: str) -> int:
    """Most lists and objects that are open at once, in a text that need not be JSON."""
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket[0], 0)
        deepest = max(depth, deepest)
        if deepest > MOST_DEPTH:
            break
    return deepest


_NESTED = {dict, list}


def _too_deep(value: Any) -> bool:
    depth, level = 0, [value] if type(value) in _NESTED else []
    while level and depth <= MOST_DEPTH:
        inner = (one.values() if type(one) is dict else one for one in level)
        level = [x for values in inner for x in values if type(x) in _NESTED]
        depth += 1
    return depth > MOST_DEPTH


def faults(value: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Find values that JSON libraries let pass, and that no text or number has.

    Args:
        value: value of `parse`.

    Yields:
        The place of NaN, of an infinite number or of half a character, and the error.
    """
    todo: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while todo:
        where, part = todo.pop()
        if isinstance(part, dict | list):
            named = part.items() if isinstance(part, dict) else enumerate(part)
            for name, inner in named:
                if isinstance(name, str) and not name.isascii() and _HALF.search(name):
                    yield where, f"the name {plain(repr(name), MOST_SHOWN)} has half of a character"
                if isinstance(inner, dict | list) or _faulty(inner):
                    todo.append(((*where, name), inner))
        elif isinstance(part, float) and not math.isfinite(part):
            yield where, f'{part} is no number of JSON; infinity is the text "inf"'
        elif _faulty(part):
            yield where, f"{plain(repr(part), MOST_SHOWN)} has half of a character"


def _faulty(part: Any) -> bool:
    if isinstance(part, float):
        return not math.isfinite(part)
    return isinstance(part, str) and not part.isascii() and _HALF.search(part) is not None


_HALF = re.compile("[\ud800-\udfff]")
"""Surrogates, which JSON can write and UTF-8 cannot."""
