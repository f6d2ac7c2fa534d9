"""Sources of results: folders, bundles and MLflow experiments."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError, plain
from uedp_bench.io.files import open_regular, open_text, shown_path
from uedp_bench.io.folders import new_file
from uedp_bench.one_run.stored_run import result_of_text, stored_result
from uedp_bench.tracking.store import logged_results, logged_runs

SUFFIX = ".jsonl.gz"

HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
"""First bytes of a packed file without a time and a name, at the highest level."""

MOST_RESULTS, MOST_CHARACTERS = 10_000, 2**28
"""Results of a bundle and characters of all, at most: each is checked alone, all stay in memory."""

_START = re.compile(r'\{"schema_version":[0-9]{1,4},"id":"([A-Za-z0-9_-]{1,64})",')
"""Start of every line: tables of data are such files too, and none begins so."""


@dataclass(frozen=True)
class Line:
    """A result in a bundle, as text.

    Attributes:
        bundle: path of the bundle.
        number: number of the line, from 1.
        id: id of the result, as the line begins.
        text: JSON of the result, not yet checked.
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
        InputError: if it is no regular file, is damaged, unpacks to more than text does, holds more
            than `MOST_RESULTS` or `MOST_CHARACTERS`, or has a line that begins as none of a bundle.
    """
    number = characters = 0
    with open_text(path, "bundle") as text:
        for number, line in enumerate(text, start=1):
            characters += len(line)
            _check_size(path, number, characters)
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
        results: results to write, each id once, in any order.
        path: path of the bundle.

    Raises:
        InputError: if they are more than `read_lines` reads.
    """
    characters = 0
    with (
        new_file(path) as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0) as packed,
    ):
        for number, result in enumerate(sorted(results, key=lambda one: one.id), start=1):
            line = f"{line_of(result)}\n"
            characters += len(line)
            _check_size(path, number, characters)
            packed.write(line.encode("ascii"))


def _check_size(path: Path, results: int, characters: int) -> None:
    if results > MOST_RESULTS or characters > MOST_CHARACTERS:
        raise InputError(
            f"{shown_path(path)} holds more than {MOST_RESULTS:,} results or "
            f"{MOST_CHARACTERS:,} characters: share them out over several bundles"
        )


COPIES = {"mlartifacts", "mlruns"}
"""Folders in which MLflow keeps copies of results: not read."""

MOST_FAULTY = 20
"""Lines of a bundle that are no results, after which the rest of it is left out."""


@dataclass(frozen=True)
class Copy:
    """A result, and where it was read.

    Attributes:
        result: whole result.
        place: path of a file, line of a bundle, or name of an MLflow run.
    """

    result: Result
    place: str

    @cached_property
    def content(self) -> str:
        """The whole result as text, without its place in MLflow."""
        return self.result.model_copy(update={"tracking": {}}).model_dump_json()


Outcome = Copy | str
"""A result, or a sentence about what is wrong with it."""


@dataclass(frozen=True)
class Location:
    """A file or a run of MLflow that may hold results.

    Attributes:
        name: name of the file, or of MLflow's run.
        place: name in messages.
        signature: mark of the content, which changes with it.
    """

    name: str
    place: str
    signature: Hashable


class Source(Protocol):
    """A place that holds results."""

    @property
    def name(self) -> str:
        """Name in messages."""

    def find(self) -> list[Location]:
        """Files that are there now; raises `InputError` or `TrackingError` where none can be."""

    def read(self, locations: Sequence[Location]) -> Iterator[list[Outcome]]:
        """The outcomes of each file, in their order; none where a run has no result."""


@dataclass(frozen=True)
class Folder:
    """Every `result.json` and every bundle below a folder, at any depth; or one bundle.

    Attributes:
        path: folder; or a bundle, with or without its suffix.
        may_come: True if it need not exist yet.
    """

    path: Path
    may_come: bool = False

    @property
    def name(self) -> str:
        """See `Source`."""
        return str(self.path)

    def find(self) -> list[Location]:
        """Files that are present.

        Raises:
            InputError: if the folder does not exist.
        """
        bundle = bundle_of(self.path)
        if bundle is None and not self.path.is_dir():
            if self.may_come and not self.path.exists():
                return []
            what = f"neither a folder of results nor a bundle, NAME{SUFFIX}"
            missing = "no such folder of results"
            raise InputError(f"{self.path}: {what if self.path.exists() else missing}")
        if bundle is not None and not bundle.exists() and not self.may_come:
            raise InputError(f"{self.path}: no such bundle of results")
        locations = []
        for path in self._files() if bundle is None else [bundle]:
            signature: tuple[int, ...] = ()
            try:
                stat = path.stat()
                signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            except FileNotFoundError:  # replaced or removed in this moment
                continue
            except OSError:  # links in a ring: reading says so, and reads the others
                pass
            locations.append(Location(str(path), str(path), signature))
        return locations

    def _files(self) -> Iterator[Path]:
        closed: list[OSError] = []
        for folder, below, names in os.walk(self.path, onerror=closed.append):
            below[:] = sorted(set(below) - COPIES)
            for name in sorted(names):
                if name == "result.json" or name.endswith(SUFFIX):
                    yield Path(folder) / name
        # Reading a folder that cannot be listed says why: what it holds is not left out in silence.
        yield from (Path(error.filename) for error in closed)

    def read(self, locations: Sequence[Location]) -> Iterator[list[Outcome]]:
        """See `Source`."""
        for one in locations:
            path = Path(one.name)
            if path.name.endswith(SUFFIX):
                yield _of_bundle(path)
            else:
                yield [_outcome(partial(stored_result, path), one.place)]


def _of_bundle(path: Path) -> list[Outcome]:
    outcomes: list[Outcome] = []
    faulty = 0
    try:
        for line in read_lines(path):
            read = partial(result_of_text, line.text, line.place)
            outcomes.append(_outcome(read, line.place))
            faulty += isinstance(outcomes[-1], str)
            if faulty == MOST_FAULTY:
                raise InputError(
                    f"{shown_path(path)}: {faulty} lines are no results, and the rest is left out"
                )
    except InputError as error:
        outcomes.append(str(error))
    return outcomes


class Experiment:
    """The `result.json` artifacts of an MLflow experiment.

    Args:
        name: name of the experiment.
        uri: address of MLflow's tracking store.
        seconds: lifetime of a listing of runs.
    """

    def __init__(self, name: str, uri: str, seconds: float = 10.0) -> None:
        self._experiment, self._uri, self._seconds = name, uri, seconds
        self._listed: tuple[float, list[Location]] | None = None

    @property
    def name(self) -> str:
        """See `Source`."""
        return f"experiment {self._experiment}"

    def find(self) -> list[Location]:
        """The runs that the experiment has now, or had a few seconds ago.

        Raises:
            InputError: if there is no such store or experiment.
            TrackingError: if the server cannot be reached.
        """
        if self._listed is None or monotonic() - self._listed[0] > self._seconds:
            runs = logged_runs(self._uri, self._experiment)
            locations = [Location(run, f"MLflow run {run}", state) for run, state in runs]
            self._listed = monotonic(), locations
        return self._listed[1]

    def read(self, locations: Sequence[Location]) -> Iterator[list[Outcome]]:
        """See `Source`."""
        texts = logged_results(self._uri, [one.name for one in locations])
        for one, text in zip(locations, texts, strict=True):
            if text is None:
                yield []
            else:
                read = partial(result_of_text, text, f"result.json of {one.place}")
                yield [_outcome(read, one.place)]


def _outcome(read: Callable[[], Result], place: str) -> Outcome:
    try:
        return Copy(read(), place)
    except InputError as error:
        return str(error)
