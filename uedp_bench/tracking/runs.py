"""One run of MLflow for each result, below one for its grid, with the release as a logged model.

MLflow lets any number of runs carry the same tag: two commands that look for a run at once both
make one, and so does a request that is sent again because its answer was lost. All who look keep
the same one (that which holds a whole result, else that with the smallest id) and delete the
others; who wrote to one of those is refused, and looks again.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from uedp_bench.accounting.guarantee import proves_something
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.io.sealed_files import digests
from uedp_bench.tracking.content import (
    CONTENT,
    GRID,
    ID,
    ROUND,
    Grid,
    content,
    data_sets,
    metrics,
    mlflow_name,
    parameters,
    tags,
    times,
)
from uedp_bench.tracking.store import (
    Place,
    search_runs,
    sqlite_file,
    use_experiment,
    without_credentials,
)

PARENT = "mlflow.parentRunId"

MAX_RELEASE_BYTES = 100_000_000
"""A larger release is logged only on request."""

_SOURCE = {"mlflow.source.name": "uedp-bench", "mlflow.source.type": "LOCAL"}
_DIGEST = "uedp_bench.release"
_NO_MODELS = ("ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED")
"""Answers of a server that keeps no models."""

_PARAM_LENGTH = 6000
"""Limit of MLflow, which cuts longer values off itself, but refuses a request of a megabyte."""


def log_result(
    result: Result,
    folder: Path,
    *,
    uri: str,
    experiment: str,
    grid: Grid | None = None,
    large: bool = False,
    unproven: bool = False,
) -> dict[str, str]:
    """Log a result once: the same result again returns its run, a changed one updates it.

    Args:
        result: finished or failed.
        folder: folder of its files.
        uri: any MLflow tracking URI.
        experiment: name of the MLflow experiment; made where it does not exist.
        grid: grid that the run belongs to.
        large: log a release of more than `MAX_RELEASE_BYTES`, too.
        unproven: log a release that nothing is proven about, too, and send what was planted to a
            server.

    Returns:
        `mlflow_run_id`, `tracking_uri` (without credentials) and `experiment`.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """
    files = _uploads(result, folder, uri, large=large, unproven=unproven)

    def log(place: Place) -> dict[str, str]:
        from mlflow.entities import Metric, RunTag

        client, (began, ended) = place.client, times(result)
        run = _run_of(place, result.id, result.spec, began, grid)
        run_id = str(run.info.run_id)
        tracking = {"mlflow_run_id": run_id, "tracking_uri": without_credentials(uri),
                    "experiment": experiment}  # fmt: skip
        if run.data.tags.get(CONTENT) == content(result):
            return tracking
        logged = _logged_points(client, run)
        new = [Metric(name, value, ended, step) for name, value, step in metrics(result)
               if (name, step, value) not in logged]  # fmt: skip
        _log_parameters(client, run, parameters(result.spec))
        client.log_batch(run_id, new, tags=[RunTag(*tag) for tag in tags(result).items()])
        if inputs := data_sets(result):
            client.log_inputs(run_id, inputs)
        text = result.model_copy(update={"tracking": tracking}).model_dump_json(indent=1)
        client.log_text(run_id, text, "result.json")
        if "planted.json" in files:
            client.log_artifact(run_id, str(folder / "planted.json"))
        if "release" in files and not _log_model(place, run, result, text, folder / "release"):
            client.log_artifacts(run_id, str(folder / "release"), "release")
        client.set_terminated(run_id, result.status.upper(), ended)
        client.set_tag(run_id, CONTENT, content(result))  # what is interrupted is repeated
        return tracking

    return use_experiment(uri, experiment, log)


class LiveRun:
    """Run of MLflow for a run that trains, until its result is logged.

    Args:
        place: experiment of MLflow.
        identifier: id of the run.
        spec: spec of the run.
        began: milliseconds since 1970 at which it began.
        grid: grid that it belongs to.
        machine: have MLflow log how busy this machine is.

    Attributes:
        run_id: id of MLflow's run.
    """

    def __init__(
        self,
        place: Place,
        identifier: str,
        spec: RunSpec,
        began: int,
        grid: Grid,
        *,
        machine: bool,
    ) -> None:
        self._client = place.client
        run = _run_of(place, identifier, spec, began, grid)
        self.run_id = str(run.info.run_id)
        if CONTENT in run.data.tags:  # it failed before: the next result says how it ended
            self._client.delete_tag(self.run_id, CONTENT)
        self._client.update_run(self.run_id, status="RUNNING")
        _log_parameters(self._client, run, parameters(spec))
        self._logged = _logged_points(self._client, run)
        self._monitor = _monitor(self._client, self.run_id) if machine else None

    def log(self, points: Sequence[tuple[str, int, float, int]]) -> None:
        """Log points (name, step, value, milliseconds since 1970), each once.

        A run that goes on from a checkpoint repeats steps, with the same values.
        """
        from mlflow.entities import Metric

        new = []
        for name, step, value, at in points:
            point = (mlflow_name(f"{ROUND}{name}"), step, value)
            if math.isfinite(value) and point not in self._logged:
                self._logged.add(point)
                new.append(Metric(point[0], value, at, step))
        self._client.log_batch(self.run_id, new)

    def close(self) -> None:
        """Have MLflow's monitor of the machine end, and wait for no server."""
        if self._monitor is not None:
            threading.Thread(target=self._monitor.finish, daemon=True).start()


def _monitor(client: Any, run_id: str) -> Any | None:
    """MLflow's monitor of the machine, which works; None without psutil, or where it is off."""
    from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING as SWITCH

    if SWITCH.is_set() and not SWITCH.get():
        return None
    try:
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
    except ImportError:
        return None
    monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=client.tracking_uri)
    monitor.start()
    return monitor


def end_grid(place: Place, grid: Grid, run_ids: Collection[str]) -> None:
    """Say how a grid ended: it has when all runs have, those of other commands too.

    Args:
        place: experiment of MLflow.
        grid: grid of the command.
        run_ids: MLflow's runs of this command.
    """
    parent = _only_run(place, GRID, grid.key)
    if parent is None:  # a run that is alone has none
        return
    parent_id = str(parent.info.run_id)
    below = f"tags.`{PARENT}` = '{parent_id}'"
    for run_id in {*run_ids} - {str(child.info.run_id) for child in search_runs(place, below)}:
        place.client.set_tag(run_id, PARENT, parent_id)  # its parent was a double
    written = ""
    # Another command may log its last run between our look and our word. Whoever writes looks
    # again, so that the last word is of somebody who saw everything before it.
    while written != (status := _grid_status(grid, search_runs(place, below))):
        place.client.set_terminated(parent_id, status, round(1000 * time.time()))
        written = status


def _grid_status(grid: Grid, children: Sequence[Any]) -> str:
    ended = {child.data.tags.get(ID): child.info.status
             for child in children if CONTENT in child.data.tags}  # fmt: skip
    if not ended.keys() >= grid.names.keys() or len(ended) < grid.size:
        return "KILLED"
    return "FAILED" if "FAILED" in ended.values() else "FINISHED"


def _run_of(place: Place, identifier: str, spec: RunSpec, began: int, grid: Grid | None) -> Any:
    """The only run of MLflow for a run, below the parent of the grid, which goes on."""
    # Runs that are logged one by one differ in parameters that are not known: the id tells.
    name, above = f"{spec.label}, seed {spec.seed} ({identifier[:6]})", {}
    if grid is not None:
        name = grid.names[identifier]
    if grid is not None and grid.size > 1:
        parent = _run_with(place, (GRID, grid.key), grid.title, began, {})
        if parent.info.status != "RUNNING":
            place.client.update_run(parent.info.run_id, status="RUNNING")
        _log_parameters(place.client, parent, grid.common)
        above = {PARENT: str(parent.info.run_id)}
    run = _run_with(place, (ID, identifier), name, began, {**_SOURCE, **above})
    if not above.items() <= run.data.tags.items():
        place.client.set_tag(run.info.run_id, PARENT, above[PARENT])
    return run


def _run_with(
    place: Place, tag: tuple[str, str], name: str, began: int, more: Mapping[str, str]
) -> Any:
    """The only run with a tag; it is made, with more tags, where there is none."""
    run = _only_run(place, *tag)
    if run is not None:
        return run
    tagged = {tag[0]: tag[1], **more}
    new = place.client.create_run(place.experiment, start_time=began, run_name=name, tags=tagged)
    return _only_run(place, *tag) or new


def _only_run(place: Place, tag: str, value: str) -> Any | None:
    """The run with a tag; doubles of it are deleted, and their children get one parent."""
    runs = search_runs(place, f"tags.`{tag}` = '{value}'")
    runs.sort(key=lambda run: CONTENT not in run.data.tags)
    for double in runs[1:]:
        run_id = double.info.run_id
        for child in search_runs(place, f"tags.`{PARENT}` = '{run_id}'"):
            place.client.set_tag(child.info.run_id, PARENT, runs[0].info.run_id)
        for model in _models(place, run_id) or ():
            place.client.delete_logged_model(model.model_id)
        place.client.delete_run(run_id)
    return runs[0] if runs else None


def _log_parameters(client: Any, run: Any, values: Mapping[str, str]) -> None:
    """Log parameters that are not there yet: in MLflow they never change once they are set."""
    from mlflow.entities import Param

    new = [Param(name, text[:_PARAM_LENGTH]) for name, text in values.items()
           if name not in run.data.params]  # fmt: skip
    client.log_batch(run.info.run_id, params=new)


def _logged_points(client: Any, run: Any) -> set[tuple[str, int, float]]:
    """(name, step, value) of the points of series that were logged before."""
    return {
        (name, point.step, point.value)
        for name in run.data.metrics if name.startswith(ROUND)
        for point in client.get_metric_history(run.info.run_id, name)
    }  # fmt: skip


def _uploads(result: Result, folder: Path, uri: str, *, large: bool, unproven: bool) -> set[str]:
    """Names of what may be logged of a run's folder: what was planted, and the release.

    Attacks can run again on these. What a link leads to may be anything, so a folder that holds one
    is left alone.
    """
    private = {"noise", "protocol"} & {*result.stored}  # for the owner's eyes alone
    if not unproven and (private or not proves_something(result.guarantees)):
        return set()
    if not folder.is_dir() or any(path.is_symlink() for path in (folder, *folder.rglob("*"))):
        return set()
    size = sum(path.stat().st_size for path in folder.glob("release/**/*") if path.is_file())
    allowed = {
        "planted.json": unproven or sqlite_file(uri) is not None,
        "release": large or size <= MAX_RELEASE_BYTES,
    }
    return {name for name in allowed if allowed[name] and (folder / name).exists()}


def _log_model(place: Place, run: Any, result: Result, text: str, release: Path) -> bool:
    """Log the release as a model that is an output of the run; False where a server has no models.

    The model's folder is one of a run (`result.json`, `release/`), so that
    `uedp_bench.load_release` reads what MLflow downloads. It is logged once: the same files again
    change nothing, and an upload that was interrupted is gone on with.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus
    from mlflow.models import Model

    client, run_id = place.client, run.info.run_id
    digest = hashlib.sha256(digests(release).encode()).hexdigest()[:32]
    models = _models(place, run_id, digest)
    if models is None:
        return False
    if not models:
        new = client.create_logged_model(
            place.experiment,
            name=re.sub(r"[^\w\- ]", "_", run.info.run_name),
            source_run_id=run_id,
            tags={ID: result.id, _DIGEST: digest},
            params={name: value[:250] for name, value in parameters(result.spec).items()},
            model_type="uedp-bench release",
        )
        models = _models(place, run_id, digest) or [new]
    outputs = {output.model_id for output in client.get_run(run_id).outputs.model_outputs}
    model, *doubles = sorted(models, key=lambda one: (one.model_id not in outputs, one.model_id))
    for double in doubles:
        client.delete_logged_model(double.model_id)
    if model.model_id not in outputs:
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    if model.status == LoggedModelStatus.READY:
        return True
    with TemporaryDirectory() as folder:
        flavor = {"loader": "uedp_bench.load_release", "task": result.spec.task.name,
                  "uedp_bench_version": str(result.provenance.get("package", ""))}  # fmt: skip
        card = Model(run_id=run_id, model_id=model.model_id, flavors={"uedp_bench": flavor})
        card.save(f"{folder}/MLmodel")
        (Path(folder) / "result.json").write_text(text, encoding="utf-8")
        client.log_model_artifacts(model.model_id, folder)
    client.log_model_artifacts(model.model_id, str(release), "release")
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    return True


def _models(place: Place, run_id: str, digest: str | None = None) -> list[Any] | None:
    """The models of a run, or of one release; None where a server keeps no models."""
    from mlflow.exceptions import MlflowException

    query = f"source_run_id = '{run_id}'"
    query += f" AND tags.`{_DIGEST}` = '{digest}'" if digest else ""
    try:
        return list(place.client.search_logged_models([place.experiment], query))
    except MlflowException as error:
        if error.error_code in _NO_MODELS:
            return None
        raise
