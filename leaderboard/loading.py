"""Loads results from several places: each id once, and again only what has changed."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from uedp_bench.errors import InputError
from uedp_bench.leaderboard.headline import disagreements
from uedp_bench.leaderboard.short_results import Shared
from uedp_bench.leaderboard.sources import Folder, Found, Source
from uedp_bench.results import Result

Progress = Callable[[int, int], None]
"""Called with (done, in all)."""


@dataclass(frozen=True)
class Copy:
    """A result, and where it was read: the path of a file, or the name of an MLflow run.

    Attributes:
        result: the whole of it, or what tables show (`short_results.short`).
        place: where it was read.
        version: another one means another content; empty where that is not known.
        again: reads the whole of a short one.
    """

    result: Result
    place: str
    version: str = ""
    again: Callable[[], Result] | None = None

    def whole(self) -> Result:
        """The whole result.

        Raises:
            InputError: if its file is not what it was.
        """
        return self.result if self.again is None else self.again()

    @cached_property
    def content(self) -> str:
        """The whole result, without its place in MLflow."""
        return self.whole().model_copy(update={"tracking": {}}).model_dump_json()


@dataclass(frozen=True)
class Loaded:
    """What was read.

    Attributes:
        copies: each id once, by id.
        problems: files that are no results.
        clashes: ids of which two results cannot both stand.
        notes: what readers may want to know.
    """

    copies: dict[str, Copy]
    problems: tuple[str, ...] = ()
    clashes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def results(self) -> list[Result]:
        """Results of all copies, in the order of their ids."""
        return [copy.result for copy in self.copies.values()]

    @property
    def places(self) -> dict[str, str]:
        """Where each result was read, by id."""
        return {identifier: copy.place for identifier, copy in self.copies.items()}

    def checked(self) -> Loaded:
        """Everything that was read, if all of it is sound.

        Raises:
            InputError: with all that is not.
        """
        if self.problems:
            raise InputError("; ".join((*self.problems, *self.clashes)))
        return self.unambiguous()

    def unambiguous(self) -> Loaded:
        """Everything that was read, if no id stands for two results.

        Raises:
            InputError: with all that do.
        """
        if self.clashes:
            raise InputError("; ".join(self.clashes))
        return self


class Loader:
    """Reads results from several places, and again only what has changed since the last time.

    Args:
        sources: in any order; it does not matter for what is loaded.
        short: keep of each file what tables show; `Copy.whole` reads the rest again.
    """

    def __init__(self, sources: Iterable[Source], *, short: bool = False) -> None:
        self._sources, self._short = tuple(sources), short
        self._shared = Shared()
        self._known: dict[str, tuple[Hashable, Copy | str | None]] = {}
        self._loaded = Loaded({})

    @property
    def name(self) -> str:
        """Where it looks."""
        return ", ".join(source.name for source in self._sources)

    def load(self, progress: Progress | None = None) -> Loaded:
        """All results that are there now.

        The same id in several places counts once: a finished run before a failed one, then the
        newer. Finished runs of one id whose utility differs clash.

        Raises:
            InputError: if a folder, a store or an experiment does not exist.
            TrackingError: if a server cannot be reached.
        """
        with _no_cycles():
            return self._load(progress)

    def _load(self, progress: Progress | None) -> Loaded:
        there = [(source, source.find()) for source in self._sources]
        total = sum(len(found) for _, found in there)
        known: dict[str, tuple[Hashable, Copy | str | None]] = {}
        notes = []
        for source, found in there:
            missing = 0
            for one, copy in zip(found, self._copies(source, found), strict=True):
                known[one.place] = one.signature, copy
                missing += copy is None
                if progress is not None:
                    progress(len(known), total)
            if missing:
                notes.append(f"{source.name}: {missing} without result.json, left out")
        if known != self._known:
            self._known = known
            problems = [copy for _, copy in known.values() if isinstance(copy, str)]
            copies = [copy for _, copy in known.values() if isinstance(copy, Copy)]
            self._loaded = _merged(copies, problems, notes)
        return self._loaded

    def _copies(self, source: Source, found: Sequence[Found]) -> Iterator[Copy | str | None]:
        """The copy of each file, or what is wrong with it; None where there is none."""
        new = [one for one in found if self._signature(one) != one.signature]
        read = source.read_short(found, new) if self._short else source.read(new)
        for one in found:
            if self._signature(one) == one.signature:
                yield self._known[one.place][1]
            else:
                outcome = next(read)
                yield self._copy(source, one, outcome) if isinstance(outcome, Result) else outcome

    def _copy(self, source: Source, one: Found, result: Result) -> Copy:
        again = source.again(one) if self._short else None
        result = result if again is None else self._shared.shared(result)
        return Copy(result, one.place, repr(one.signature), again)

    def _signature(self, one: Found) -> Hashable:
        return self._known[one.place][0] if one.place in self._known else None


@contextmanager
def _no_cycles() -> Iterator[None]:
    """Results hold no cycles, and to look for some takes as long as to read thousands."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def load_results(folders: Iterable[Path]) -> list[Result]:
    """All results below the folders, each id once.

    Raises:
        InputError: if a folder does not exist or a file is not a valid result.
    """
    return Loader(Folder(folder) for folder in folders).load().checked().results


# ------------------------------------------------------------------------------------ one id, once


def _merged(copies: Sequence[Copy], problems: list[str], notes: list[str]) -> Loaded:
    by_id: dict[str, list[Copy]] = {}
    for copy in copies:
        by_id.setdefault(copy.result.id, []).append(copy)
    kept, differing, clashes = {}, [], []
    for identifier in sorted(by_id):
        # Most ids have one copy, and ranking copies takes time.
        found = by_id[identifier]
        first, *others = sorted(found, key=_worth, reverse=True) if len(found) > 1 else found
        kept[identifier] = first
        clashes += [
            f"{first.place} and {other.place}: one id ({identifier}), but {contradiction}; "
            "keep one of them"
            for other in others
            if (contradiction := _contradiction(first.result, other.result))
        ]
        if any(_differ(first, other) for other in others):
            differing.append(identifier)
    if differing:
        shown = ", ".join([*differing[:3], *(["..."] if len(differing) > 3 else [])])
        notes.append(f"of {len(differing)} runs there are several results; the newest count: "
                     f"{shown}")  # fmt: skip
    notes += disagreements(copy.result for copy in kept.values())
    return Loaded(kept, tuple(sorted(problems)), tuple(sorted(clashes)), tuple(notes))


def _worth(copy: Copy) -> tuple[bool, bool, str, str, str, str]:
    """The copy of the largest counts; the place decides between equal ones only.

    Before a date, which anybody can write, counts that the id is the hash of what was run.
    """
    created = str(copy.result.provenance.get("created", ""))
    tracked = str(sorted(copy.result.tracking.items()))
    recorded = "identity" in copy.result.provenance
    return copy.result.status == "finished", recorded, created, copy.content, tracked, copy.place


def _differ(one: Copy, other: Copy) -> bool:
    return one.result.status == other.result.status and one.content != other.content


def _contradiction(one: Result, other: Result) -> str:
    """Why two finished results of one id cannot both stand; empty where they can."""
    if not one.status == other.status == "finished":
        return ""
    mine, its = one.spec, other.spec
    if (one.group, one.label, mine.seed, mine.task.name, mine.source.name) != (
        other.group, other.label, its.seed, its.task.name, its.source.name,
    ):  # fmt: skip
        return "different runs"
    if one.cost.device != other.cost.device:
        return ""  # a GPU adds in an order of its own
    return differing_utility(utility_of(one), utility_of(other))


def utility_of(result: Result) -> dict[str, float]:
    """Values of a run's utility by name."""
    return {name: float(estimate.value) for name, estimate in result.utility.items()}


def differing_utility(one: Mapping[str, float], other: Mapping[str, float]) -> str:
    """The first utility in which two results of one id differ; empty where they repeat.

    Runs repeat to a relative 10^-6 on a CPU (`docs/results.md`, what repeats).
    """
    for name in sorted(one.keys() & other.keys()):
        if not math.isclose(one[name], other[name], rel_tol=REPEATS, abs_tol=REPEATS):
            return f"{name} is {one[name]:.9g} in one and {other[name]:.9g} in the other"
    return ""


REPEATS = 1e-6
"""Relative difference up to which two results are one run done twice."""
