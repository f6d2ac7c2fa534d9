"""Loads results from several places: each id once, and again only what has changed."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.over_seeds import disagreements
from uedp_bench.leaderboard.sources import Copy, Folder, Location, Outcome, Source

Progress = Callable[[int, int], None]
"""Called with (done, in all)."""


@dataclass(frozen=True)
class Loaded:
    """Results that were read, with the problems of their files.

    Attributes:
        copies: copy of each result, by id.
        problems: lines about files that are no results.
        clashes: lines about ids of which two results cannot both stand.
        notes: remarks for readers.
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
        """Place of each result, by id."""
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


class Loader:
    """Reads results from several places, and again only what has changed since the last time.

    Args:
        sources: places to read, in any order; the order does not matter for what is loaded.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)
        self._outcomes_by_place: dict[str, tuple[Hashable, list[Outcome]]] = {}
        self._loaded = Loaded({})

    @property
    def name(self) -> str:
        """Names of its sources."""
        return ", ".join(source.name for source in self._sources)

    @_no_cycles()
    def load(self, progress: Progress | None = None) -> Loaded:
        """All results that are there now.

        The same id in several places counts once: a finished run before a failed one, then the
        newer. Finished runs of one id whose numbers differ clash.

        Raises:
            InputError: if a folder, a store or an experiment does not exist.
            TrackingError: if a server cannot be reached.
        """
        listed = [(source, source.find()) for source in self._sources]
        total = sum(len(locations) for _, locations in listed)
        outcomes_by_place: dict[str, tuple[Hashable, list[Outcome]]] = {}
        notes = []
        for source, locations in listed:
            empty = 0
            for one, outcomes in zip(locations, self._outcomes(source, locations), strict=True):
                outcomes_by_place[one.place] = one.signature, outcomes
                empty += not outcomes
                if progress is not None:
                    progress(len(outcomes_by_place), total)
            if empty:
                notes.append(f"{source.name}: {empty} without result.json, left out")
        if outcomes_by_place != self._outcomes_by_place:
            self._outcomes_by_place = outcomes_by_place
            every = [outcome for _, outcomes in outcomes_by_place.values() for outcome in outcomes]
            problems = [outcome for outcome in every if isinstance(outcome, str)]
            copies = [outcome for outcome in every if isinstance(outcome, Copy)]
            self._loaded = _merged(copies, problems, notes)
        return self._loaded

    def _outcomes(self, source: Source, locations: Sequence[Location]) -> Iterator[list[Outcome]]:
        """Contents of the files."""
        read = source.read([one for one in locations if self._signature(one) != one.signature])
        for one in locations:
            unchanged = self._signature(one) == one.signature
            yield self._outcomes_by_place[one.place][1] if unchanged else next(read)

    def _signature(self, one: Location) -> Hashable:
        return self._outcomes_by_place.get(one.place, (None,))[0]


def load_results(folders: Iterable[Path]) -> list[Result]:
    """All results below the folders, each id once.

    Args:
        folders: folders to search to any depth for `result.json` and bundles; or bundles, with or
            without their suffix.

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
    for identifier, copies_of_id in sorted(by_id.items()):
        if len(copies_of_id) > 1:  # most ids have one copy, and ranking copies takes time
            copies_of_id.sort(key=_worth, reverse=True)
        first, *others = copies_of_id
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
    return difference(numbers_of(one), numbers_of(other))


def numbers_of(result: Result) -> dict[str, float]:
    """Values of a run's utility and leakage by name."""
    parts = {"": result.utility}
    parts |= {f"{attack}.": estimates for attack, estimates in result.leakage.items()}
    return {
        f"{prefix}{name}": float(estimate.value)
        for prefix, estimates in parts.items()
        for name, estimate in estimates.items()
    }


def difference(one: Mapping[str, float], other: Mapping[str, float]) -> str:
    """The first number in which two results of one id differ; empty where they repeat.

    Runs repeat to a relative 10^-6 on a CPU (`docs/results.md`, repeatability).
    """
    for name in sorted(one.keys() & other.keys()):
        if not math.isclose(one[name], other[name], rel_tol=_REPEATS, abs_tol=_REPEATS):
            return f"{name} is {one[name]:.9g} in one and {other[name]:.9g} in the other"
    return ""


_REPEATS = 1e-6
"""Relative difference up to which two results are one run done twice."""
