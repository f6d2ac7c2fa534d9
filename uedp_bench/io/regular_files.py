"""Opening files of anybody: regular files only, in any place, of a size that fits in memory.

A path may name a pipe that nobody writes to, an endless device, a folder, or nothing that a file
system could hold.
"""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from uedp_bench.errors import InputError
from uedp_bench.io.printable import plain

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
