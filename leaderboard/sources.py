"""Where results are: `result.json` files below folders, and the copies that MLflow keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from uedp_bench.errors import InputError
from uedp_bench.files.printable import plain
from uedp_bench.harness.result_files import logged_result, stored_result
from uedp_bench.harness.tracking_reading import logged_results, logged_runs
from uedp_bench.leaderboard.folder_index import LEAST, FolderIndex
from uedp_bench.leaderboard.folder_index import signature as signature_of
from uedp_bench.leaderboard.short_results import as_text, of_text, short
from uedp_bench.results import Result

COPIES = {"mlartifacts", "mlruns"}
"""Folders in which MLflow keeps copies of results: not read."""

Outcome = Result | str | None
"""A result, or a sentence about what is wrong with it; None if there is no result."""


@dataclass(frozen=True)
class Found:
    """What may be a result.

    Attributes:
        name: of the file, or of MLflow's run.
        place: what messages call it.
        signature: another one means another content.
    """

    name: str
    place: str
    signature: Hashable


class Source(Protocol):
    """A place that holds results."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def find(self) -> list[Found]:
        """Results that are there now; raises `InputError` or `TrackingError` where none can be."""

    def read(self, found: Sequence[Found]) -> Iterator[Outcome]:
        """The outcome of each, in their order."""

    def read_short(self, there: Sequence[Found], found: Sequence[Found]) -> Iterator[Outcome]:
        """As `read`, each result as `short_results.short` has it.

        Args:
            there: all that there is now.
            found: those of them that are read.
        """

    def again(self, found: Found) -> Callable[[], Result] | None:
        """How to read the whole of it again; None where it is kept in memory.

        The call raises `InputError` if it is not what it was.
        """


@dataclass(frozen=True)
class Folder:
    """All `result.json` below a folder, at any depth.

    Attributes:
        path: the folder.
        may_come: it need not exist yet.
    """

    path: Path
    may_come: bool = False

    @property
    def name(self) -> str:
        """See `Source`."""
        return str(self.path)

    def find(self) -> list[Found]:
        """The files that are there now.

        Raises:
            InputError: if the folder does not exist.
        """
        if not self.path.is_dir():
            if self.may_come and not self.path.exists():
                return []
            raise InputError(f"--results {self.path}: no such folder")
        found = []
        for path in self._files():
            try:
                signature = signature_of(path)
            except FileNotFoundError:  # replaced or removed in this moment
                continue
            found.append(Found(str(path), str(path), signature))
        return found

    def _files(self) -> Iterator[Path]:
        for folder, below, names in os.walk(self.path):
            below[:] = sorted(set(below) - COPIES)
            if "result.json" in names:
                yield Path(folder) / "result.json"

    def read(self, found: Sequence[Found]) -> Iterator[Outcome]:
        """See `Source`."""
        for one in found:
            yield _outcome(partial(stored_result, Path(one.name)))

    def read_short(self, there: Sequence[Found], found: Sequence[Found]) -> Iterator[Outcome]:
        """See `Source`; a large folder has an index."""
        if len(there) < LEAST:
            yield from map(_shortened, self.read(found))
            return
        with FolderIndex(self.path, "results") as index:
            root = f"{self.path}{os.sep}"
            index.keep(one.name.removeprefix(root) for one in there)
            for one in found:
                path = one.name.removeprefix(root)
                known = of_text(index.get(path, one.signature))
                if known is not None:
                    yield known
                    continue
                (outcome,) = map(_shortened, self.read([one]))
                if isinstance(outcome, Result):
                    index.put(path, one.signature, as_text(outcome))
                yield outcome

    def again(self, found: Found) -> Callable[[], Result]:
        """See `Source`."""
        return partial(self._again, found)

    def _again(self, found: Found) -> Result:
        path = Path(found.name)
        result = stored_result(path)
        if signature_of(path) != found.signature:
            raise InputError(f"{plain(found.place)}: has changed since it was read")
        return result


class Experiment:
    """The `result.json` artifacts of an MLflow experiment.

    Args:
        name: of the experiment.
        uri: of MLflow's tracking store.
        seconds: how long a listing is good for.
    """

    def __init__(self, name: str, uri: str, seconds: float = 10.0) -> None:
        self._experiment, self._uri, self._seconds = name, uri, seconds
        self._listed: tuple[float, list[Found]] | None = None

    @property
    def name(self) -> str:
        """See `Source`."""
        return f"experiment {self._experiment}"

    def find(self) -> list[Found]:
        """The runs that the experiment has now, or had a few seconds ago.

        Raises:
            InputError: if there is no such store or experiment.
            TrackingError: if the server cannot be reached.
        """
        if self._listed is None or monotonic() - self._listed[0] > self._seconds:
            runs = logged_runs(self._uri, self._experiment)
            found = [Found(run, f"MLflow run {run}", state) for run, state in runs]
            self._listed = monotonic(), found
        return self._listed[1]

    def read(self, found: Sequence[Found]) -> Iterator[Outcome]:
        """See `Source`."""
        texts = logged_results(self._uri, [one.name for one in found])
        for one, text in zip(found, texts, strict=True):
            if text is None:
                yield None
            else:
                yield _outcome(partial(logged_result, text, f"result.json of {one.place}"))

    def read_short(self, there: Sequence[Found], found: Sequence[Found]) -> Iterator[Outcome]:
        """See `Source`; what was logged stays whole: to ask a server for a page takes too long."""
        return self.read(found)

    def again(self, found: Found) -> None:
        """See `Source`."""
        return


def _shortened(outcome: Outcome) -> Outcome:
    return short(outcome) if isinstance(outcome, Result) else outcome


def _outcome(read: Callable[[], Result]) -> Outcome:
    try:
        return read()
    except InputError as error:
        return str(error)
