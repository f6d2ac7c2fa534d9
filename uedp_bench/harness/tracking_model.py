"""A release in MLflow: as a logged model, or among the run's files where a server has no models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from uedp_bench.accounting.guarantee import proves_something
from uedp_bench.harness.tracking_values import ID, mlflow_name
from uedp_bench.results import Result

MAX_RELEASE_BYTES = 100_000_000
"""A larger release is logged only where it is asked for."""

_DIGEST = "uedp_bench.release"
_TYPE = "uedp-bench release"

_NO_MODELS = ("ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED")
"""What a server answers that keeps no models."""


class Uploads(NamedTuple):
    """Releases that are logged only because the user asks for it.

    Attributes:
        large: those of more than `MAX_RELEASE_BYTES`.
        unproven: those that nothing is proven about (trained without noise, with a private
            vocabulary, with noise that is drawn when they are asked), and what was planted.
        planted: what was planted (who trained, which canaries), to a server of others too.
    """

    large: bool = False
    unproven: bool = False
    planted: bool = False


NOTHING_MORE = Uploads()


def log_release(client: Any, run_id: str, result: Result, folder: Path, uploads: Uploads) -> None:
    """Logs the release of a run and what was planted, where that is allowed.

    Attacks can run again on these files. What a link leads to may be anything, so a folder that
    holds one is left alone.

    Args:
        client: of MLflow.
        run_id: of the run there.
        result: of the run; it stands beside the release in the model.
        folder: of the run, here.
        uploads: what is logged because it was asked for.
    """
    alone = {"noise", "protocol"} & {*result.stored}  # for the owner's eyes alone
    if not uploads.unproven and (alone or not proves_something(result.guarantees)):
        return
    if not folder.is_dir() or any(path.is_symlink() for path in (folder, *folder.rglob("*"))):
        return
    planted, release = folder / "planted.json", folder / "release"
    if planted.is_file() and uploads.planted:
        client.log_artifact(run_id, str(planted))
    if not release.is_dir() or not (uploads.large or _size(release) <= MAX_RELEASE_BYTES):
        return
    if not _log_model(client, run_id, result, release):
        client.log_artifacts(run_id, str(release), "release")


def _log_model(client: Any, run_id: str, result: Result, release: Path) -> bool:
    """The release as a model that is an output of the run; False where a server knows no models.

    The model's folder is one of a run (`result.json`, `release/`), so that
    `uedp_bench.load_release` reads what MLflow downloads. It is logged once: the same files again
    change nothing, and an upload that was interrupted is gone on with.
    """
    from mlflow.entities import LoggedModelStatus

    model = _model_of(client, client.get_run(run_id), result, _digest(release))
    if model is None:
        return False
    if model.status == LoggedModelStatus.READY:
        return True
    with TemporaryDirectory() as place:
        card = Path(place) / "MLmodel"
        card.write_text(_card(model.model_id, run_id, result), encoding="utf-8")
        (Path(place) / "result.json").write_text(result.model_dump_json(indent=1), encoding="utf-8")
        client.log_model_artifacts(model.model_id, place)
    client.log_model_artifacts(model.model_id, str(release), "release")
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    return True


def _model_of(client: Any, run: Any, result: Result, digest: str) -> Any | None:
    """The model of a release, found or made, as an output of its run; None without models.

    A model that was made before its run was told of it, or twice because an answer was lost, is
    found by its tags.
    """
    from mlflow.entities import LoggedModelOutput
    from mlflow.exceptions import MlflowException

    try:
        found = _models_of(client, run, result, digest)
        if not found:
            made = client.create_logged_model(
                run.info.experiment_id,
                name=mlflow_name(run.info.run_name).replace("/", "_").replace(".", "_"),
                source_run_id=run.info.run_id,
                tags={ID: result.id, _DIGEST: digest},
                params={name: text[:250] for name, text in run.data.params.items()},
                model_type=_TYPE,
            )
            found = _models_of(client, run, result, digest) or [made]
    except MlflowException as error:
        if error.error_code in _NO_MODELS:
            return None
        raise
    first, *doubles = found
    known = {output.model_id for output in (run.outputs.model_outputs if run.outputs else ())}
    if first.model_id not in known:
        client.log_outputs(run.info.run_id, [LoggedModelOutput(first.model_id, step=0)])
    for double in doubles:
        client.delete_logged_model(double.model_id)
    return first


def _models_of(client: Any, run: Any, result: Result, digest: str) -> list[Any]:
    """The models of a release, those that its run names first."""
    outputs = run.outputs.model_outputs if run.outputs else ()
    known = {output.model_id for output in outputs}
    asked = f"tags.`{ID}` = '{result.id}' AND tags.`{_DIGEST}` = '{digest}'"
    found = client.search_logged_models([run.info.experiment_id], asked)
    own = [model for model in found if model.source_run_id == run.info.run_id]
    return sorted(own, key=lambda model: (model.model_id not in known, model.model_id))


def delete_models(client: Any, experiment: str, result: Result, runs: Sequence[str]) -> None:
    """Deletes the models of runs that are doubles of a result's, where a server knows models."""
    from mlflow.exceptions import MlflowException

    if not runs:
        return
    try:
        found = client.search_logged_models([experiment], f"tags.`{ID}` = '{result.id}'")
    except MlflowException as error:
        if error.error_code in _NO_MODELS:
            return
        raise
    for model in found:
        if model.source_run_id in runs:
            client.delete_logged_model(model.model_id)


def _card(model: str, run_id: str, result: Result) -> str:
    """What MLflow reads of a model, with its one flavour: `uedp_bench.load_release(folder)`."""
    package = str(result.provenance.get("package", ""))
    return json.dumps(
        {
            "flavors": {
                "uedp_bench": {
                    "loader": "uedp_bench.load_release",
                    "task": result.spec.task.name,
                    "uedp_bench_version": package,
                }
            },
            "model_id": model,
            "run_id": run_id,
            "utc_time_created": str(result.provenance.get("created", "")),
        },
        indent=1,
    )


def _digest(folder: Path) -> str:
    """The digest of the names and contents of all files."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(path.relative_to(folder).as_posix().encode() + b"\0")
            with path.open("rb") as data:
                found.update(hashlib.file_digest(data, "sha256").digest())
    return found.hexdigest()[:32]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
