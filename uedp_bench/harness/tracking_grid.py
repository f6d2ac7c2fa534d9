"""The runs of one grid in MLflow: names that tell them apart, under one parent run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.harness.tracking_doubles import (
    Found,
    delete_doubles,
    despite_others,
    found_or_made,
    is_deleted,
    runs_with,
)
from uedp_bench.harness.tracking_values import CONTENT, ID, mlflow_name, parameters
from uedp_bench.results import Result, RunSpec

GRID = "uedp_bench.grid"
"""Tag of the parent run: the hash of the grid without its seeds."""

PARENT = "mlflow.parentRunId"
_OF_ONE_RUN = ("seed", "mechanism")
_LONGEST_VALUE = 40


@dataclass(frozen=True)
class Grid:
    """What the runs of a command have in common.

    Attributes:
        key: the same for the same grid with more seeds, or fewer.
        title: name of the parent run.
        names: of the runs, by id: mechanism, the parameters in which it differs, seed.
        common: parameters that all runs share.
        runs: their number, those of other commands too.
    """

    key: str
    title: str
    names: Mapping[str, str]
    common: Mapping[str, str]
    runs: int

    @staticmethod
    def of(specs: Mapping[str, RunSpec], every: Sequence[RunSpec] = ()) -> Grid:
        """The grid of runs, by id; one at least.

        Args:
            specs: of this command's runs.
            every: of all runs, where those are a share of them.
        """
        whole = list(every) or list(specs.values())
        flat = [parameters(spec) for spec in whole]
        known = {name for found in flat for name in found}
        values = {name: {found.get(name, "") for found in flat} for name in sorted(known)}
        common = {
            name: next(iter(found))
            for name, found in values.items()
            if len(found) == 1 and name != "seed"
        }
        differing = {
            label: _differing([found for found in flat if found["mechanism"] == label])
            for label in {spec.label for spec in specs.values()}
        }
        names = {
            one: _name(spec, parameters(spec), differing[spec.label]) for one, spec in specs.items()
        }
        seedless = {
            hashlib.sha256(spec.model_copy(update={"seed": 0}).model_dump_json().encode()).digest()
            for spec in whole
        }
        key = hashlib.sha256(b"".join(sorted(seedless))).hexdigest()[:16]
        return Grid(key, f"{_title(whole)} (grid {key[:6]})", names, common, len(whole))

    @property
    def nested(self) -> bool:
        """A run that is alone needs no parent."""
        return self.runs > 1


def _differing(alike: list[dict[str, str]]) -> list[str]:
    """Parameters in which runs of one mechanism differ, those of the mechanism first."""
    every = dict.fromkeys(name for found in alike for name in found)
    found = [name for name in every if name not in _OF_ONE_RUN
             and len({each.get(name) for each in alike}) > 1]  # fmt: skip
    return sorted(found, key=lambda name: not name.startswith("mechanism."))


def _name(spec: RunSpec, flat: Mapping[str, str], differing: Iterable[str]) -> str:
    shown = []
    for name in differing:
        value = flat.get(name, "none")
        short = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
        shown.append(f"{name.rpartition('.')[2]}={short}")
    inside = f" ({', '.join(shown)})" if shown else ""
    return f"{spec.label}{inside}, seed {spec.seed}"


def _title(specs: Iterable[RunSpec]) -> str:
    """Tasks, sources and models of the grid."""
    found = list(specs)
    tasks, sources, models = (
        ", ".join(dict.fromkeys(getattr(spec, kind).name for spec in found))
        for kind in ("task", "source", "model")
    )
    return f"{tasks} on {sources}, {models}"


class GridRun:
    """The parent run of a grid, made when the first of its runs is logged.

    Several commands may run one grid at once, each its share: they have one parent.

    Args:
        specs: of the runs, by id.
        every: of all runs of the grid, where these are a share of them.

    Attributes:
        names: of the runs, by id.
    """

    def __init__(self, specs: Mapping[str, RunSpec], every: Sequence[RunSpec] = ()) -> None:
        self._grid = Grid.of(specs, every) if specs else None
        self.names: Mapping[str, str] = self._grid.names if self._grid else {}
        self._open: tuple[Any, str, str] | None = None
        self._doubles: frozenset[str] = frozenset()
        self._others: set[str] = set()
        self._children: list[str] = []

    def parent(self, client: Any, experiment: str, began: int) -> dict[str, str]:
        """The tag of a run in the grid; none for a run that is alone.

        Args:
            client: of MLflow.
            experiment: id of the experiment.
            began: milliseconds since 1970 at which the run began.
        """
        if self._grid is None or not self._grid.nested:
            return {}
        if self._open is None:
            found = _parent_of((client, experiment), self._grid, began)
            self._open = client, experiment, str(found.run.info.run_id)
            self._doubles = frozenset(found.doubles)
        return {PARENT: self._open[2]}

    def adopt(self, client: Any, run: Any) -> None:
        """Has a run that is there belong to the grid, unless it belongs to another one.

        Args:
            client: of MLflow.
            run: of MLflow, as it was read.
        """
        if self._open is None:
            return
        parent, has = self._open[2], run.data.tags.get(PARENT)
        if has not in (None, parent, *self._others) and not self._is_ours(client, has):
            self._others.add(has)  # the grid that had it first keeps it
        if has in self._others:
            return
        if has != parent:
            client.set_tag(run.info.run_id, PARENT, parent)
        self._children.append(str(run.info.run_id))

    def _is_ours(self, client: Any, parent: str) -> bool:
        """True of a double of our parent, and of one that is deleted."""
        return parent in self._doubles or is_deleted(client, parent)

    def end(self, results: Iterable[Result]) -> None:
        """Says how the grid ended, where its parent was made.

        A parent that another command made at the same time is found here: its runs and ours get
        one. The grid has ended when all runs have, those of other commands too.

        Args:
            results: of its runs, those that there are.
        """
        if self._open is None or self._grid is None:
            return
        ended = {result.id: result.error is not None for result in results}
        despite_others(lambda: self._end(ended))

    def _end(self, results: Mapping[str, bool]) -> None:
        """Ends the parent; the results are the ids of runs and whether they failed."""
        if self._open is None or self._grid is None:
            return
        client, experiment, known = self._open
        first, *others = runs_with(client, experiment, GRID, self._grid.key)
        parent = str(first.info.run_id)
        doubles = [str(other.info.run_id) for other in others]
        moved = [
            str(child.info.run_id)
            for double in doubles
            for child in runs_with(client, experiment, PARENT, double)
        ]
        moved += self._children if known != parent else []
        for child in dict.fromkeys(moved):
            client.set_tag(child, PARENT, parent)
        delete_doubles(client, doubles)
        said = None
        # Another command may log its last run between our look and our word. Whoever speaks looks
        # again, so that the last word is of somebody who saw everything before it.
        while said != (status := _status(client, self._grid, (experiment, parent), results)):
            client.set_terminated(parent, status, round(1000 * time.time()))
            said = status


def _status(client: Any, grid: Grid, place: tuple[str, str], results: Mapping[str, bool]) -> str:
    """How a grid stands below its parent, as MLflow calls it; place is experiment and parent."""
    experiment, parent = place
    ended = dict(results)
    for child in runs_with(client, experiment, PARENT, parent):
        if CONTENT in child.data.tags:
            ended.setdefault(child.data.tags[ID], child.info.status == "FAILED")
    whole = ended.keys() >= grid.names.keys() and len(ended) >= grid.runs
    return "KILLED" if not whole else "FAILED" if any(ended.values()) else "FINISHED"


def _parent_of(place: tuple[Any, str], grid: Grid, began: int) -> Found:
    """The MLflow run that holds a grid together, found by its tag or made."""
    client, _ = place
    found = found_or_made(place, (GRID, grid.key), name=grid.title, began=began, more={})
    run_id = found.run.info.run_id
    if found.run.info.status != "RUNNING":
        client.update_run(run_id, status="RUNNING")
    from mlflow.entities import Param

    new = {name: text for name, text in grid.common.items() if name not in found.run.data.params}
    params = [Param(mlflow_name(name), text[:6000]) for name, text in new.items()]
    for at in range(0, len(params), 100):
        client.log_batch(run_id, params=params[at : at + 100])
    return found
