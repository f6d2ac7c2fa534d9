"""The runs of one grid in MLflow: names that tell them apart, under one parent run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from uedp_bench.harness.tracking_values import mlflow_name, parameters
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
    """

    key: str
    title: str
    names: Mapping[str, str]
    common: Mapping[str, str]

    @staticmethod
    def of(specs: Mapping[str, RunSpec]) -> Grid:
        """The grid of runs, by id; one at least."""
        flat = {one: parameters(spec) for one, spec in specs.items()}
        every = {name for found in flat.values() for name in found}
        values = {name: {found.get(name, "") for found in flat.values()} for name in sorted(every)}
        common = {
            name: next(iter(found))
            for name, found in values.items()
            if len(found) == 1 and name != "seed"
        }
        labels = [spec.label for spec in specs.values()]
        names = {}
        for one, spec in specs.items():
            alike = [flat[other] for other, label in zip(specs, labels, strict=True)
                     if label == spec.label]  # fmt: skip
            names[one] = _name(spec, flat[one], _differing(alike))
        seedless = {
            hashlib.sha256(spec.model_copy(update={"seed": 0}).model_dump_json().encode()).digest()
            for spec in specs.values()
        }
        key = hashlib.sha256(b"".join(sorted(seedless))).hexdigest()[:16]
        return Grid(key, f"{_title(specs.values())} (grid {key[:6]})", names, common)

    @property
    def nested(self) -> bool:
        """A run that is alone needs no parent."""
        return len(self.names) > 1


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

    Args:
        specs: of the runs, by id.

    Attributes:
        names: of the runs, by id.
    """

    def __init__(self, specs: Mapping[str, RunSpec]) -> None:
        self._grid = Grid.of(specs) if specs else None
        self.names: Mapping[str, str] = self._grid.names if self._grid else {}
        self._open: tuple[Any, str] | None = None

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
            self._open = client, _parent_of(client, experiment, self._grid, began)
        return {PARENT: self._open[1]}

    def end(self, results: Iterable[Result]) -> None:
        """Says how the grid ended, where its parent was made.

        Args:
            results: of its runs, those that there are.
        """
        if self._open is None or self._grid is None:
            return
        client, parent = self._open
        found = {result.id: result.error is not None for result in results}
        whole = found.keys() >= self.names.keys()
        status = "KILLED" if not whole else "FAILED" if any(found.values()) else "FINISHED"
        client.set_terminated(parent, status, round(1000 * time.time()))


def _parent_of(client: Any, experiment: str, grid: Grid, began: int) -> str:
    """The MLflow run that holds a grid together, found by its tag or made."""
    found = client.search_runs([experiment], f"tags.`{GRID}` = '{grid.key}'", max_results=1)
    if found:
        run = found[0]
        if run.info.status != "RUNNING":
            client.update_run(run.info.run_id, status="RUNNING")
        return str(run.info.run_id)
    from mlflow.entities import Param

    told = {GRID: grid.key}
    run = client.create_run(experiment, start_time=began, run_name=grid.title, tags=told)
    params = [Param(mlflow_name(name), text[:6000]) for name, text in grid.common.items()]
    for at in range(0, len(params), 100):
        client.log_batch(run.info.run_id, params=params[at : at + 100])
    return str(run.info.run_id)
