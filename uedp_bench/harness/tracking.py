"""MLflow gets a copy of every result: parameters, metrics by round, tags and the files.

`result.json` on disk stays the truth. The MLflow run carries the result's id as the tag
`uedp_bench.id`, and the result names the MLflow run in `tracking`: each leads to the other.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import math
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from uedp_bench.accounting.guarantee import proves_something
from uedp_bench.errors import InputError, TrackingError
from uedp_bench.harness.tracking_store import database, set_up
from uedp_bench.results import Result, RunSpec

PHASES = ("plant", "train", "save", "score", "attack", "account")
ID, CONTENT = "uedp_bench.id", "uedp_bench.content"
MAX_RELEASE_BYTES = 100_000_000
"""A larger release is logged only where it is asked for."""

_ROUND = "round/"
_BATCH = 100
_METRIC_BATCH = 1000
_READERS = 8
_PARAM_LENGTH = 6000
_PROBE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
_WORK = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}


def default_uri(results: Path) -> str:
    """The SQLite store beside a folder of results."""
    return f"sqlite:///{results}/mlflow.db"


def log_result(
    result: Result,
    folder: Path,
    *,
    uri: str | None,
    experiment: str,
    log_model: bool = False,
    log_release: bool = False,
) -> dict[str, str]:
    """Logs a result once: the same result again returns its run, a changed one updates it.

    Args:
        result: finished or failed.
        folder: where its files are.
        uri: any MLflow tracking URI; None for SQLite in the folder above `folder`.
        experiment: name of the MLflow experiment; made where it does not exist.
        log_model: log the release even if it is larger than `MAX_RELEASE_BYTES`.
        log_release: log the release, and what was planted, even if nothing is proven about it.

    Returns:
        `mlflow_run_id`, `tracking_uri` (without credentials) and `experiment`.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """
    uri = uri or default_uri(folder.parent)
    public = _without_credentials(uri)
    with _as_tracking_error(f"log to MLflow at {public}"):
        with _environment(_PROBE):
            client, number = _experiment(uri, experiment)
        with _environment(_WORK):
            began = max(_time(result) - round(1000 * _seconds(result)), 0)
            run_id, content = _run_of(client, number, result.id, result.spec, began)
            tracking = {"mlflow_run_id": run_id, "tracking_uri": public, "experiment": experiment}
            logged = result.model_copy(update={"tracking": tracking})
            if content != _content(result):
                _log(client, run_id, logged)
                _log_files(client, run_id, logged)
                alone = {"noise", "protocol"} & {*result.stored}  # for the owner's eyes alone
                protects = proves_something(result.guarantees) and not alone
                if log_release or protects:
                    _log_release(client, run_id, folder, log_model)
                status = "FINISHED" if result.status == "finished" else "FAILED"
                client.set_terminated(run_id, status, _time(result))
                # Last, so that what was interrupted is logged again, and ended.
                client.set_tag(run_id, CONTENT, _content(result))
    return tracking


class LiveRun:
    """The MLflow run of a run that trains: it gets points of series, and is ended by the result.

    Args:
        identifier: of the run.
        spec: of the run.
        uri: any MLflow tracking URI.
        experiment: name of the MLflow experiment; made where it does not exist.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """

    def __init__(self, identifier: str, spec: RunSpec, uri: str, experiment: str) -> None:
        self._public, self._last = _without_credentials(uri), dict[str, int]()
        with self._asking():
            self._client, number = _experiment(uri, experiment)
            began = round(1000 * time.time())
            self._run_id, content = _run_of(self._client, number, identifier, spec, began)
            if content is not None:  # it failed before: the next result says how it ended
                self._client.delete_tag(self._run_id, CONTENT)
                self._client.update_run(self._run_id, status="RUNNING")
            run = _log_parameters(self._client, self._run_id, spec)
            for name, step, _ in _known_points(self._client, run):
                self._last[name] = max(step, self._last.get(name, step))

    def log(self, points: Sequence[tuple[str, int, float, int]]) -> None:
        """Logs points (name, step, value, milliseconds since 1970); none of a step before.

        A run that goes on from a checkpoint repeats steps, with the same values.

        Raises:
            TrackingError: if the server cannot be reached or refuses.
        """
        from mlflow.entities import Metric

        new: list[Metric] = []
        for name, step, value, at in points:
            known = _name(f"{_ROUND}{name}")
            if math.isfinite(value) and step > self._last.get(known, step - 1):
                self._last[known] = step
                new.append(Metric(known, value, at, step))
        with self._asking():
            for at in range(0, len(new), _METRIC_BATCH):
                self._client.log_batch(self._run_id, metrics=new[at : at + _METRIC_BATCH])

    def interrupted(self) -> None:
        """Says that nobody trains it any more, for now.

        Raises:
            TrackingError: if the server cannot be reached or refuses.
        """
        with self._asking():
            self._client.set_terminated(self._run_id, "KILLED")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with _as_tracking_error(f"log to MLflow at {self._public}"), _environment(_PROBE):
            yield


# ----------------------------------------------------------------------------------------- reading


def logged_runs(uri: str, experiment: str) -> list[tuple[str, tuple[str, ...]]]:
    """The runs of an experiment, by id, each with a state that changes when it is logged again.

    Raises:
        InputError: if there is no such store or no such experiment.
        TrackingError: if the server cannot be reached or refuses.
    """
    public = _without_credentials(uri)
    _check_store(uri, public)
    with _as_tracking_error(f"read MLflow at {public}"), _environment(_PROBE):
        client = _client(uri)
        found = client.get_experiment_by_name(experiment)
        known = [] if found else [one.name for one in client.search_experiments()]
    if not found:
        raise InputError(
            f"no experiment {experiment!r} in MLflow at {public}; there are: "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    runs, page = [], None
    with _as_tracking_error(f"read MLflow at {public}"), _environment(_WORK):
        while page is None or page.token:
            page = client.search_runs(
                [found.experiment_id], max_results=1000, page_token=page and page.token
            )
            runs += page
    states = {run.info.run_id: (run.info.status, str(run.info.end_time),
                                run.data.tags.get(CONTENT, "")) for run in runs}  # fmt: skip
    return sorted(states.items())


def logged_results(uri: str, runs: Sequence[str]) -> Iterator[str | None]:
    """The text of each run's `result.json`, in the order of the ids; None where it has none.

    Raises:
        TrackingError: if the server cannot be reached or refuses.
    """
    if not runs:
        return
    with (
        _as_tracking_error(f"read MLflow at {_without_credentials(uri)}"),
        _environment(_WORK),
        TemporaryDirectory() as folder,
    ):
        pool = ThreadPoolExecutor(_READERS)
        try:
            yield from pool.map(partial(_result_text, _client(uri), Path(folder)), runs)
        finally:
            pool.shutdown(cancel_futures=True)


def _result_text(client: Any, folder: Path, run: str) -> str | None:
    if "result.json" not in {entry.path for entry in client.list_artifacts(run)}:
        return None
    (folder / run).mkdir()
    path = Path(client.download_artifacts(run, "result.json", str(folder / run)))
    text = path.read_text(encoding="utf-8", errors="replace")
    path.unlink()
    return text


def _check_store(uri: str, public: str) -> None:
    """Reading must not make a store where there is none, as MLflow does."""
    kind, _, where = uri.partition(":")
    if kind == "sqlite":
        path = Path(where.removeprefix("///").partition("?")[0])
        if not path.is_file():
            raise InputError(f"MLflow's store {public}: no such file")
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            try:
                database.execute("select 1 from experiments limit 1")
            except sqlite3.DatabaseError as error:
                raise InputError(f"MLflow's store {public}: {error}") from None
    elif "://" not in uri and not Path(where if kind == "file" else uri).is_dir():
        raise InputError(f"MLflow's store {public}: no such folder")


# -------------------------------------------------------------------------------------- connecting


@lru_cache(maxsize=8)
def _client(uri: str) -> Any:
    return _new_client(uri)


def _new_client(uri: str) -> Any:
    # Before the import: nothing about a privacy benchmark is reported to anyone.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.tracking import MlflowClient

    for chatter in ("mlflow", "alembic"):
        logging.getLogger(chatter).setLevel(logging.ERROR)
    return MlflowClient(tracking_uri=uri)


@lru_cache(maxsize=8)
def _experiment(uri: str, name: str) -> tuple[Any, str]:
    """The client and the experiment's id; a new SQLite store is set up here, once."""
    set_up(uri, _new_client)
    client = _client(uri)
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client, client.create_experiment(name, artifact_location=_artifacts(uri))
        except MlflowException:  # another process was faster
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return client, found.experiment_id


def _artifacts(uri: str) -> str | None:
    """Beside the database for SQLite; elsewhere the server decides."""
    file = database(uri)
    return None if file is None else (file.resolve().parent / "mlartifacts").as_uri()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets MLflow's limits where the user has not, and takes them back."""
    quiet = {"MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
    added = {k: v for k, v in {**values, **quiet}.items() if k not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _as_tracking_error(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise TrackingError(_explain(what, error)) from error
    except Exception as error:  # drivers and servers raise what they like
        raise TrackingError(_explain(what, error)) from error


def _explain(what: str, error: Exception) -> str:
    reason = (_without_credentials(str(error)).strip().splitlines() or [type(error).__name__])[0]
    return f"cannot {what}: {reason[:300]}"


def _without_credentials(text: str) -> str:
    return re.sub(r"//[^@/\s]+@", "//***@", text)


# ------------------------------------------------------------------------------------------ logging


def _content(result: Result) -> str:
    text = result.model_copy(update={"tracking": {}}).model_dump_json()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run_of(
    client: Any, experiment: str, identifier: str, spec: RunSpec, began: int
) -> tuple[str, str | None]:
    """The MLflow run of a run, found or made, and the content that it holds in full."""
    found = client.search_runs([experiment], f"tags.`{ID}` = '{identifier}'", max_results=1)
    if found:
        return found[0].info.run_id, found[0].data.tags.get(CONTENT)
    # Runs of a grid differ in their parameters alone: the id tells them apart.
    name = f"{spec.label}, seed {spec.seed} ({identifier[:6]})"
    run = client.create_run(experiment, start_time=began, run_name=name, tags={ID: identifier})
    return run.info.run_id, None


def _time(result: Result) -> int:
    """Milliseconds since 1970 at which the result was made: logging again changes nothing."""
    created = result.provenance.get("created")
    return round(datetime.fromisoformat(created).timestamp() * 1000) if created else 0


def _seconds(result: Result) -> float:
    """How long a run took, without what it did not time."""
    cost = result.cost.model_dump()
    return sum(float(cost.get(f"{phase}_seconds", 0.0)) for phase in PHASES)


def _log(client: Any, run_id: str, result: Result) -> None:
    from mlflow.entities import Metric, RunTag

    known = {*_known_points(client, _log_parameters(client, run_id, result.spec))}
    tag_list = [RunTag(k, v) for k, v in tags(result).items()]
    at_end = _time(result)
    metric_list = [Metric(name, value, at_end, step) for name, value, step in metrics(result)
                   if (name, step, value) not in known]  # fmt: skip
    for at in range(0, len(tag_list), _BATCH):
        client.log_batch(run_id, tags=tag_list[at : at + _BATCH])
    for at in range(0, len(metric_list), _METRIC_BATCH):
        client.log_batch(run_id, metrics=metric_list[at : at + _METRIC_BATCH])


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
    names = [name for name in run.data.metrics if name.startswith(_ROUND)]
    return [
        (name, point.step, point.value)
        for name in names
        for point in client.get_metric_history(run.info.run_id, name)
    ]


def parameters(spec: RunSpec) -> dict[str, str]:
    """The spec, flattened to dotted names."""
    flat: dict[str, str] = {}
    parts = [("task", spec.task), ("source", spec.source), ("model", spec.model)]
    parts += [(f"mechanism.{part.name}", part) for part in spec.mechanism]
    parts += [(f"attack.{part.name}", part) for part in spec.attacks]
    for kind, part in parts:
        flat |= {_name(f"{kind}.{key}"): str(value) for key, value in part.params.items()}
        if "." not in kind:
            flat[kind] = part.name
    flat["mechanism"] = spec.label
    flat["attacks"] = ", ".join(part.name for part in spec.attacks)
    return flat | {"seed": str(spec.seed), "delta": str(spec.delta)}


def tags(result: Result) -> dict[str, str]:
    """Identity and guarantees; a guarantee is a tag too, for MLflow's metrics know no infinity."""
    out = {"uedp_bench.group": result.group, "uedp_bench.status": result.status}
    if result.error is not None:
        out["uedp_bench.error"] = result.error.message
    for found in result.guarantees:
        value = "refused" if found.status == "refused" else f"{found.epsilon:g}"
        out[_name(f"epsilon.{found.kind}.{found.unit}.{found.adjacency}")] = value
    return out


def metrics(result: Result) -> list[tuple[str, float, int]]:
    """(name, value, step) of every finite number: final ones at step 0, series by round."""
    final: dict[str, float] = {}
    groups = {"utility": result.utility}
    groups |= {f"leakage/{attack}": values for attack, values in result.leakage.items()}
    for kind, values in groups.items():
        for name, estimate in values.items():
            final[f"{kind}/{name}"] = estimate.value
            if estimate.low is not None and estimate.high is not None:
                final[f"{kind}/{name}/low"] = estimate.low
                final[f"{kind}/{name}/high"] = estimate.high
    for found in result.guarantees:
        if found.status == "given":
            final[f"epsilon/{found.kind}/{found.unit}/{found.adjacency}"] = found.epsilon
    for kind, numbers in (("cost", result.cost.model_dump()), ("diagnostics", result.diagnostics)):
        final |= {
            f"{kind}/{name}": float(value)
            for name, value in numbers.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
    points = [(_name(name), value, 0) for name, value in final.items()]
    for name, series in result.series.items():
        points += [(_name(f"{_ROUND}{name}"), value, step) for step, value in series]
    return [point for point in points if math.isfinite(point[1])]


def _name(text: str) -> str:
    """MLflow allows letters, digits, and _ - . / space."""
    return re.sub(r"[^\w\-. /]", "_", text)


def _log_files(client: Any, run_id: str, result: Result) -> None:
    client.log_text(run_id, result.model_dump_json(indent=1), "result.json")


def _log_release(client: Any, run_id: str, folder: Path, log_model: bool) -> None:
    """Files on which attacks can run again: never what a link leads to, which may be anything."""
    if not folder.is_dir() or any(path.is_symlink() for path in (folder, *folder.rglob("*"))):
        return
    planted, release = folder / "planted.json", folder / "release"
    if planted.is_file():
        client.log_artifact(run_id, str(planted))
    if release.is_dir() and (log_model or _size(release) <= MAX_RELEASE_BYTES):
        client.log_artifacts(run_id, str(release), "release")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
