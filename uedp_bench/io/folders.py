"""Folders that are written: results, by one process at a time, and what may be lost again.

Files of results are whole or not there, and readable by their owner. A cache holds data that can be
made again, between commands; a killed process leaves no temporary folder for ever.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from uedp_bench.errors import InputError

LOCK, HOLDER = ".lock", ".in-use.json"
"""Lock of a folder, and a file about its holder, for people who are refused."""

CHECKPOINT = "checkpoint"
"""Folder of the checkpoints of a run, in the run's own."""

PARTIAL = ".partial"
"""Ending of files that are being written."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a disk, or of a user's share of it, that is full."""

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_LEAST_BYTES = 2**20
"""Less free space than this is a full disk: not even a small release fits."""
_PATIENCE_SECONDS = 2.0
_MOST_HOLDER_BYTES = 4096


@contextmanager
def only_process(folder: Path, *, keep_cache: bool = True) -> Iterator[None]:
    """Make the folder and hold it; remove half-written files of an earlier process.

    Args:
        folder: folder of results.
        keep_cache: True to keep models of attacks, and checkpoints of runs that did not end, for
            another command.

    Raises:
        InputError: if another process holds it (the message says which), or it is no folder that
            can be written.
    """
    _make_writable(folder)
    lock = FileLock(folder / LOCK)
    try:
        # A process that was killed may be about to be gone.
        lock.acquire(timeout=_PATIENCE_SECONDS)
    except Timeout:
        raise InputError(
            f"--out {folder}: {_holder(folder)}; wait for it, or take another folder"
        ) from None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"--out {folder}: its file system has no locks ({reason}); take a folder on another"
        ) from None
    holder = folder / HOLDER
    try:
        remove_partial(folder)
        me = {"pid": os.getpid(), "host": socket.gethostname()}
        write_atomically(holder, json.dumps(me) + "\n")
        yield
    finally:
        if not keep_cache:
            for path in (folder / "cache", *folder.glob(f"*/{CHECKPOINT}")):
                shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def _holder(folder: Path) -> str:
    try:
        with (folder / HOLDER).open("rb") as file:
            holder = json.loads(file.read(_MOST_HOLDER_BYTES))
        return f"process {int(holder['pid'])} on {str(holder['host'])[:100]!r} is running in it"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process is running in it"


def _make_writable(folder: Path) -> None:
    """Make a folder, and a file in it, so that a run is not lost when it ends."""
    probe = folder / f".probe-{_unique()}{PARTIAL}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with probe.open("xb") as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in FULL:
            raise
        raise InputError(f"--out {folder}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    if shutil.disk_usage(folder).free < _LEAST_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def disk_is_full(error: BaseException | None, folder: Path) -> bool:
    """True if an error, or what caused it, is a full disk; torch's writer hides it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ or error.__context__
    return folder.is_dir() and shutil.disk_usage(folder).free < _LEAST_BYTES


def refuse_links(folder: Path, identifier: str) -> None:
    """Refuse a folder of results in which a run would write elsewhere.

    Raises:
        InputError: naming the link.
    """
    run = folder / identifier
    for path in (run, run / "release", run / CHECKPOINT, folder / "cache"):
        if path.is_symlink():
            raise InputError(f"--out {folder}: {path} is a link, and runs write into no links")


def remove_partial(folder: Path) -> None:
    """Remove files that a process was writing when it ended."""
    # SQLite keeps a journal beside a store that is being set up.
    for pattern in (
        f"*{PARTIAL}", f"*/*{PARTIAL}", f".*{PARTIAL}-journal", f"*/{CHECKPOINT}/*{PARTIAL}",
        f"cache/*/{CHECKPOINT}/*{PARTIAL}",
    ):  # fmt: skip
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()
    for started in folder.glob("cache/retrain-*/"):
        if not (started / "done.json").is_file() and not started.is_symlink():
            left = [path for path in started.iterdir() if path.name != CHECKPOINT]
            whole = not (started / CHECKPOINT).is_dir()
            for path in [started] if whole else left:
                shutil.rmtree(path, ignore_errors=True)


def write_atomically(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file that others see whole or not at all, also after a loss of power.

    Args:
        path: path of the file.
        text: content of the file.
        private: True if only the owner can read it, from the start.
    """
    with new_file(path, private=private) as file:
        file.write(text.encode())


@contextmanager
def new_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write, which others see whole or not at all, also after a loss of power.

    Args:
        path: path of the file, once it is whole.
        private: True if only the owner can read it, from the start.
    """
    partial = path.with_name(f".{path.name}-{_unique()}{PARTIAL}")
    mode = _PRIVATE_FILE if private else 0o666
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(handle, "wb") as file:  # noqa: PTH123
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_files(folder: Path) -> None:
    """Write all files of a folder to the disk, before another file refers to them."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        elif path.is_dir():
            sync_folder(path)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk; some file systems cannot."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_private(path: Path) -> None:
    """Let only the owner read a file, or a folder with its content."""
    paths: list[Path] = [path, *path.rglob("*")] if path.is_dir() else [path]
    for one in paths:
        if not one.is_symlink():
            one.chmod(_PRIVATE_FOLDER if one.is_dir() else _PRIVATE_FILE)


def make_readable(path: Path) -> None:
    """Give a folder and its content the rights of new files, after `make_private`."""
    mask = os.umask(0o077)
    os.umask(mask)
    for one in (path, *path.rglob("*")):
        if not one.is_symlink():
            one.chmod((0o777 if one.is_dir() else 0o666) & ~mask)


def private_folder(path: Path) -> None:
    """Make a folder that only the owner can read, whatever will be in it."""
    path.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.chmod(_PRIVATE_FOLDER)


def write_json(path: Path, value: Any, *, private: bool = False) -> None:
    """Write JSON atomically; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(value) + "\n", private=private)


def _unique() -> str:
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def cache_folder() -> Path:
    """`$UEDP_BENCH_CACHE`, else `~/.cache/uedp-bench`."""
    folder = os.environ.get("UEDP_BENCH_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "uedp-bench"


_PREFIX = "uedp-bench-"


def scratch_folder() -> TemporaryDirectory[str]:
    """Make a temporary folder; remove those of this user's processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _is_alive(int(owner)) and _is_mine(folder):
            shutil.rmtree(folder, ignore_errors=True)
    return TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True


def _is_mine(folder: Path) -> bool:
    with suppress(OSError):
        status = folder.lstat()
        return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid()
    return False
