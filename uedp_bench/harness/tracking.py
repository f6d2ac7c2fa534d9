"""MLflow gets a copy of every result: parameters, metrics by round, tags and the files.

`result.json` on disk stays the truth. The MLflow run carries the result's id as the tag
`uedp_bench.id`, and the result names the MLflow run in `tracking`: each leads to the other.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from uedp_bench.harness.tracking_client import (
    PROBE,
    WORK,
    as_tracking_error,
    default_uri,
    environment,
    experiment_of,
    without_credentials,
)
from uedp_bench.harness.tracking_doubles import delete_doubles, despite_others, found_or_made
from uedp_bench.harness.tracking_grid import GridRun
from uedp_bench.harness.tracking_model import (
    NOTHING_MORE,
    Uploads,
    delete_models,
    log_release,
)
from uedp_bench.harness.tracking_store import database
from uedp_bench.harness.tracking_values import (
    CONTENT,
    ID,
    ROUND,
    data_sets,
    metrics,
    mlflow_name,
    parameters,
    tags,
)
from uedp_bench.results import Result, RunSpec

PHASES = ("plant", "train", "save", "score", "attack", "account")

_BATCH = 100
_METRIC_BATCH = 1000
_PARAM_LENGTH = 6000
_MADE_BY = {"mlflow.source.name": "uedp-bench", "mlflow.source.type": "LOCAL"}


def log_result(
    result: Result,
    folder: Path,
    *,
    uri: str | None,
    experiment: str,
    uploads: Uploads = NOTHING_MORE,
    grid: GridRun | None = None,
) -> dict[str, str]:
    """Logs a result once: the same result again returns its run, a changed one updates it.

    Args:
        result: finished or failed.
        folder: where its files are.
        uri: any MLflow tracking URI; None for SQLite in the folder above `folder`.
        experiment: name of the MLflow experiment; made where it does not exist.
        uploads: releases that are logged only because the user asks for it.
        grid: that the run belongs to: it names the run, whose parent is the grid's.

    Returns:
        `mlflow_run_id`, `tracking_uri` (without credentials) and `experiment`.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """
    uri = uri or default_uri(folder.parent)
    public = without_credentials(uri)
    mine = database(uri) is not None  # a file of this machine
    uploads = uploads._replace(planted=mine or uploads.unproven)

    def logged() -> dict[str, str]:
        run_id, content, doubles = _run_of(place, result.id, result.spec, times(result)[0], grid)
        tracking = {"mlflow_run_id": run_id, "tracking_uri": public, "experiment": experiment}
        if content != _content(result):
            told = result.model_copy(update={"tracking": tracking})
            _log_whole(client, run_id, told, folder, uploads)
        delete_models(client, number, result, doubles)
        delete_doubles(client, doubles)
        return tracking

    with as_tracking_error(f"log to MLflow at {public}"):
        with environment(PROBE):
            # The server may have gone since the last result: it is asked again, and not for long.
            client, number = place = experiment_of(uri, experiment)
            client.get_experiment(number)
        with environment(WORK):
            return despite_others(logged)


class LiveRun:
    """The MLflow run of a run that trains: it gets points of series, and is ended by the result.

    Args:
        identifier: of the run.
        spec: of the run.
        where: any MLflow tracking URI, and the name of the experiment, which is made where it does
            not exist.
        began: milliseconds since 1970 at which the run began; now by default.
        grid: that the run belongs to.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """

    def __init__(
        self,
        identifier: str,
        spec: RunSpec,
        where: tuple[str, str],
        began: int | None = None,
        grid: GridRun | None = None,
    ) -> None:
        uri, experiment = where
        self._public, self._last = without_credentials(uri), dict[str, int]()
        with self._asking():
            place = experiment_of(uri, experiment)
            self._client = place[0]
            at = round(1000 * time.time()) if began is None else began
            self._run_id, content, _ = despite_others(
                lambda: _run_of(place, identifier, spec, at, grid)
            )
            if content is not None:  # it failed before: the next result says how it ended
                self._client.delete_tag(self._run_id, CONTENT)
                self._client.update_run(self._run_id, status="RUNNING")
            run = _log_parameters(self._client, self._run_id, spec)
            for name, step, _ in _known_points(self._client, run):
                self._last[name] = max(step, self._last.get(name, step))
            # Samples of the machine have no rounds: they are numbered on.
            steps = [one.step for one in run.data._metric_objs if one.key.startswith("system/")]
            self._samples = max(steps, default=-1) + 1

    def log(self, points: Sequence[tuple[str, int, float, int]]) -> None:
        """Logs points (name, step, value, milliseconds since 1970); none of a step before.

        A run that goes on from a checkpoint repeats steps, with the same values.

        Raises:
            TrackingError: if the server cannot be reached or refuses.
        """
        from mlflow.entities import Metric

        new: list[Metric] = []
        for name, step, value, at in points:
            known = mlflow_name(f"{ROUND}{name}")
            if math.isfinite(value) and step > self._last.get(known, step - 1):
                self._last[known] = step
                new.append(Metric(known, value, at, step))
        with self._asking():
            for at in range(0, len(new), _METRIC_BATCH):
                self._client.log_batch(self._run_id, metrics=new[at : at + _METRIC_BATCH])

    def log_machine(self, sample: Mapping[str, float]) -> None:
        """Logs a sample of the machine on which the run is, numbers by name.

        Raises:
            TrackingError: if the server cannot be reached or refuses.
        """
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        points = [Metric(name, value, now, self._samples) for name, value in sample.items()]
        self._samples += 1
        with self._asking():
            self._client.log_batch(self._run_id, metrics=points)

    def interrupted(self) -> None:
        """Says that nobody trains it any more, for now.

        Raises:
            TrackingError: if the server cannot be reached or refuses.
        """
        with self._asking():
            self._client.set_terminated(self._run_id, "KILLED")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with as_tracking_error(f"log to MLflow at {self._public}"), environment(PROBE):
            yield


def _content(result: Result) -> str:
    text = result.model_copy(update={"tracking": {}}).model_dump_json()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run_of(
    place: tuple[Any, str], identifier: str, spec: RunSpec, began: int, grid: GridRun | None
) -> tuple[str, str | None, tuple[str, ...]]:
    """The MLflow run of a run, found or made, the content that it holds in full, its doubles."""
    client, experiment = place
    parent = {} if grid is None else grid.parent(client, experiment, began)
    # Runs that are logged one by one differ in parameters that are not known: the id tells.
    name = f"{spec.label}, seed {spec.seed} ({identifier[:6]})"
    name = name if grid is None else grid.names.get(identifier, name)
    more = {**_MADE_BY, **parent}
    found = found_or_made(place, (ID, identifier), name=name, began=began, more=more)
    run_id = str(found.run.info.run_id)
    if grid is not None:
        grid.adopt(client, found.run)
    return run_id, found.run.data.tags.get(CONTENT), found.doubles


def times(result: Result) -> tuple[int, int]:
    """Milliseconds since 1970 at which a run began and ended: logging again changes nothing.

    Results of versions that did not note when a run began tell how long its phases took.
    """
    created, started = (result.provenance.get(name) for name in ("created", "started"))
    ended = _milliseconds(created) if created else 0
    if started:
        return min(_milliseconds(started), ended), ended
    cost = result.cost.model_dump()
    seconds = sum(float(cost.get(f"{phase}_seconds", 0.0)) for phase in PHASES)
    return max(ended - round(1000 * seconds), 0), ended


def _milliseconds(time_: str) -> int:
    return round(datetime.fromisoformat(time_).timestamp() * 1000)


def _log_whole(client: Any, run_id: str, result: Result, folder: Path, uploads: Uploads) -> None:
    """Logs all of a result, and last that all of it is there: what is interrupted is repeated."""
    _log(client, run_id, result)
    _log_files(client, run_id, result)
    log_release(client, run_id, result, folder, uploads)
    status = "FINISHED" if result.status == "finished" else "FAILED"
    client.set_terminated(run_id, status, times(result)[1])
    client.set_tag(run_id, CONTENT, _content(result))


def _log(client: Any, run_id: str, result: Result) -> None:
    from mlflow.entities import Metric, RunTag

    known = {*_known_points(client, _log_parameters(client, run_id, result.spec))}
    tag_list = [RunTag(k, v) for k, v in tags(result).items()]
    _, at_end = times(result)
    metric_list = [Metric(name, value, at_end, step) for name, value, step in metrics(result)
                   if (name, step, value) not in known]  # fmt: skip
    for at in range(0, len(tag_list), _BATCH):
        client.log_batch(run_id, tags=tag_list[at : at + _BATCH])
    for at in range(0, len(metric_list), _METRIC_BATCH):
        client.log_batch(run_id, metrics=metric_list[at : at + _METRIC_BATCH])
    if found := data_sets(result):
        client.log_inputs(run_id, found)


def _log_parameters(client: Any, run_id: str, spec: RunSpec) -> Any:
    """Logs the spec as far as it is not there; the run as it was before."""
    from mlflow.entities import Param

    # MLflow's parameters never change once they are set.
    run = client.get_run(run_id)
    new = {name: text for name, text in parameters(spec).items() if name not in run.data.params}
    params = [Param(name, text[:_PARAM_LENGTH]) for name, text in new.items()]
    for at in range(0, len(params), _BATCH):
        client.log_batch(run_id, params=params[at : at + _BATCH])
    return run


def _known_points(client: Any, run: Any) -> list[tuple[str, int, float]]:
    """(name, step, value) of the points of series that were logged while a run trained."""
    names = [name for name in run.data.metrics if name.startswith(ROUND)]
    return [
        (name, point.step, point.value)
        for name in names
        for point in client.get_metric_history(run.info.run_id, name)
    ]


def _log_files(client: Any, run_id: str, result: Result) -> None:
    client.log_text(run_id, result.model_dump_json(indent=1), "result.json")
