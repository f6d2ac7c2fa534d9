"""Stored files of whole content: sealed ones, arrays that are dear to compute, and the code itself.

Neither torch nor Arrow looks at checksums of files: a flipped bit gives other weights,
and a result without a word. A file of our own ends with its digest; a folder that others read too
(a release) has its digests beside it. A changed file is never used. Arrays that are damaged are
computed again.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from uedp_bench.errors import InputError, plain
from uedp_bench.io.folders import new_file, write_atomically

SUMS = "SHA256SUMS"
"""File in a folder with the digests of all others, as `sha256sum -c` reads them."""


class DamagedFileError(InputError):
    """A stored file is not what was written."""


@contextmanager
def sealed_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write, once and in order, that ends with the digest of its content.

    Args:
        path: path of the file; others see it whole or not at all.
        private: True if only the owner may read it.
    """
    with new_file(path, private=private) as out:
        writer = _Hashing(out)
        yield writer
        out.write(writer.digest())


def unsealed(path: Path) -> BinaryIO:
    """Read the content of a sealed file into memory.

    Raises:
        DamagedFileError: if it is not what was written.
        OSError: if it cannot be read.
    """
    content = path.read_bytes()
    size = hashlib.sha256().digest_size
    body, digest = memoryview(content)[:-size], content[-size:]
    if not hmac.compare_digest(hashlib.sha256(body).digest(), digest):
        raise DamagedFileError(f"{path.name} is damaged: its content is not what was written")
    return io.BytesIO(body)


class _Hashing(io.RawIOBase, BinaryIO):
    """Writer that hashes its content."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out, self._hash = out, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        self._hash.update(data)
        return self._out.write(data)

    def digest(self) -> bytes:
        return self._hash.digest()


def seal_folder(folder: Path) -> None:
    """Write the digests of all files of a folder beside them."""
    write_atomically(folder / SUMS, digests(folder))


def digests(folder: Path) -> str:
    """Digest and name of each file of a folder but `SUMS`, a line a file."""
    lines = (f"{_digest(file)}  {file.relative_to(folder).as_posix()}\n" for file in _in(folder))
    return "".join(lines)


def check_folder(folder: Path) -> None:
    """Refuse a sealed folder whose files are not those that were written.

    A folder without digests, of an earlier version or another tool, is taken as it is.

    Raises:
        DamagedFileError: naming the first file that differs, is missing or is new.
    """
    if not (folder / SUMS).is_file():
        return
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    written = dict(line.split("  ", 1)[::-1] for line in lines if "  " in line)
    names = {file.relative_to(folder).as_posix(): file for file in _in(folder)}
    for name in sorted({*written, *names}):
        if name not in names or written.get(name) != _digest(names[name]):
            raise DamagedFileError(
                f"{plain(str(folder / name))} is damaged: it is not the file that was written; "
                "remove the folder of its run and run again"
            )


def _in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.name != SUMS)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


T = TypeVar("T")

_DAMAGED = (
    OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error,
    NotImplementedError, RuntimeError,  # flags of a zip file that nobody set
)  # fmt: skip


def load_arrays(file: Path, read: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Read a file's arrays by name with `read`; None if it is missing or damaged."""
    try:
        with np.load(file, allow_pickle=False) as data:
            return read(data)
    except _DAMAGED:
        return None


def save_arrays(file: Path, what: str, **arrays: Any) -> None:
    """Write arrays to a neighbour and rename it: a reader sees the whole file or none.

    Args:
        file: the file; its folder is made.
        what: name of the arrays in the warning about a failure.
        arrays: arrays by name.
    """
    part: str | None = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=file.parent, suffix=".part")
        with os.fdopen(handle, "wb") as out:
            np.savez_compressed(out, **arrays)
        Path(part).replace(file)
    except OSError as error:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        warnings.warn(f"{what} are not cached: {error}", stacklevel=3)


_ENDINGS = (".py", ".j2", ".js", ".css", ".yaml")


@cache
def package_digest() -> str:
    """SHA-256 over the files of this package and their names, 32 hexadecimal digits."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder, below, names in os.walk(root, followlinks=True):
        # Results and compiled files lie within a checkout.
        below[:] = sorted({*below} - {"__pycache__", "results"})
        for name in sorted(names):
            if name.endswith(_ENDINGS):
                path = Path(folder) / name
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]
