"""Bundles: published results in one file `NAME.jsonl.gz`, a line a result, sorted by id.

A line is the JSON of a result without white space, its fields in the order of the model, names
within them in the order of the run (tables show them so), and every number with all its digits:
validation computes metrics and proofs again from them, and runs are repeated to the last bit. Line
and header hold no time and no path, so that the same results make the same file (with one version
of zlib).
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError
from uedp_bench.io.files import open_regular, open_text, shown_path
from uedp_bench.io.folders import new_file
from uedp_bench.io.messages import plain

SUFFIX = ".jsonl.gz"

HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
"""First bytes of a packed file without a time and a name, at the highest level."""

_START = re.compile(r'\{"schema_version":[0-9]{1,4},"id":"([A-Za-z0-9_-]{1,64})",')
"""Start of every line: tables of data are such files too, and none begins so."""


@dataclass(frozen=True)
class Line:
    """A result in a bundle, as text.

    Attributes:
        bundle: path of the file.
        number: number of the line, from 1.
        id: id of the result, as the line begins.
        text: JSON, not yet checked.
    """

    bundle: Path
    number: int
    id: str
    text: str

    @property
    def place(self) -> str:
        """The place of the line in messages."""
        return f"line {self.number} ({self.id}) of {self.bundle}"


def bundle_of(path: Path) -> Path | None:
    """The bundle that a path names, with or without its suffix; None for a folder and others."""
    if path.name.endswith(SUFFIX):
        return None if path.is_dir() else path
    if not path.name or os.path.lexists(path):
        return None
    packed = path.with_name(f"{path.name}{SUFFIX}")
    return packed if os.path.isfile(packed) else None  # noqa: PTH113  # False for any name


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a bundle of anybody, one after the other.

    Raises:
        InputError: if it is no regular file, is damaged, unpacks to more than text does, or has a
            line that begins as none of a bundle.
    """
    number = 0
    with open_text(path, "bundle") as text:
        for number, line in enumerate(text, start=1):
            start = _START.match(line)
            if start is None:
                raise InputError(
                    f"line {number} of {shown_path(path)} is not a readable result: it begins "
                    f"{plain(line.strip(), 20)!r}, and one of a bundle with schema_version and id"
                )
            yield Line(path, number, start[1], line.removesuffix("\n"))
    if not number:
        raise InputError(f"{shown_path(path)} holds no result")


def has_header(path: Path) -> bool:
    """True if a file begins as `write_bundle` begins it."""
    with open_regular(path, "bundle") as file:
        return file.read(len(HEADER)) == HEADER


def line_of(result: Result) -> str:
    """The text of a result's line."""
    return json.dumps(result.model_dump(mode="json"), separators=(",", ":"), allow_nan=False)


def write_bundle(results: Iterable[Result], path: Path) -> None:
    """Writes a bundle whole or not at all; the same results make the same bytes.

    Args:
        results: each id once, in any order.
        path: path of the file.
    """
    with (
        new_file(path) as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0) as packed,
    ):
        for result in sorted(results, key=lambda one: one.id):
            packed.write(f"{line_of(result)}\n".encode("ascii"))
