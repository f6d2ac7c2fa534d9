"""Files that a run leaves: its result with provenance, and checkpoints.

A file is a result, or one line says why it is not. A folder may come from a stranger. What is read
back from it is a regular file of a possible size with the form of a result, which lies in the
folder of its id, which is the hash of what the file says was run.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

from uedp_bench.components.registry import loaded_plugins
from uedp_bench.contracts.checkpoints import remove
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import (
    Result,
    RunError,
    RunSpec,
    parse_result,
    read_result,
    result_text,
)
from uedp_bench.contracts.run_context import Speed
from uedp_bench.errors import InputError, PluginError, UedpBenchError, plain
from uedp_bench.io.files import MOST_BYTES, MOST_SHOWN
from uedp_bench.io.folders import CHECKPOINT
from uedp_bench.io.sealed_files import package_digest
from uedp_bench.spec.identity import Identity
from uedp_bench.version import __version__

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Ids that are names of files; those that a run gives are 16 hexadecimal digits."""

_LOGGED = "artifacts"
"""Name of the folder of logged files in MLflow's own folders."""


def stored_result(path: Path) -> Result:
    """The result in a `result.json` that lies in the folder of its id.

    Raises:
        InputError: in one line, if it is not there, is no result, or is not where its id says.
    """
    result = _own(read_result(path), str(path))
    folder = path.absolute().parent.name
    if folder not in (result.id, _LOGGED):
        raise InputError(
            f"{plain(str(path))}: id {result.id!r} is not the name of its folder, "
            f"'{plain(folder, MOST_SHOWN)}'"
        )
    return result


def result_of_text(text: str, where: str) -> Result:
    """The result in a text that lies in no folder: an artifact of MLflow, a line of a bundle.

    Raises:
        InputError: in one line, if it is no result.
    """
    return _own(parse_result(text, where), where)


def result_of_run(path: Path, identifier: str, spec: RunSpec | None = None) -> Result | None:
    """The result of a run, as an earlier run of this package left it.

    Args:
        path: path of its `result.json`.
        identifier: id of the run; a finished one must record the identity that it is the hash of.
        spec: spec of the run; one that names places on this machine records no more than that.

    Returns:
        None where there is none: what cannot be read was cut short, or is of somebody else.
    """
    try:
        result = stored_result(path)
    except InputError:
        return None
    failed = result.status == "failed"
    records_identity = "identity" in result.provenance or result.spec == spec
    whole = failed == (result.error is not None) and (failed or records_identity)
    return result if whole and result.id == identifier else None


def check_reads_back(result: Result) -> None:
    """Refuse a result whose file nobody could read.

    Raises:
        PluginError: if a component put in more than a file may have, or nested it too deeply.
    """
    text = result_text(result)
    if len(text) > MOST_BYTES:
        raise PluginError(f"result.json would have {len(text):,} bytes; allowed are {MOST_BYTES:,}")
    try:
        parse_result(text, "result.json")
    except InputError as error:
        raise PluginError(f"a component put in what nobody can read: {error}") from None


def _own(result: Result, where: str) -> Result:
    """The result, if its id is what it can be.

    Raises:
        InputError: if it is not.
    """
    if not _NAME.fullmatch(result.id):
        raise InputError(
            f"{plain(where)}: id '{plain(result.id, MOST_SHOWN)}' is not a name of letters, "
            "digits, '_' and '-'"
        )
    recorded = result.provenance.get("identity")
    if recorded is None:
        return result
    if not isinstance(recorded, dict) or identity_of(recorded) != (result.id, result.group):
        raise InputError(
            f"{plain(where)}: id {result.id!r} and group '{plain(result.group, MOST_SHOWN)}' are "
            "not the hashes of provenance.identity"
        )
    return result


# --------------------------------------------------------------------------------------- provenance


LIBRARIES = ("torch", "numpy", "transformers", "dp-accounting", "faker", "presidio-anonymizer")


def provenance(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, commit, time (UTC), and what the id is a hash of.

    Args:
        identity: `identity_parts` of the run; left out where `recorded` says so.
    """
    from uedp_bench.training.device import altered_arithmetic  # torch

    out: dict[str, Any] = {
        "package": __version__,
        "commit": _commit(),
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "python": platform.python_version(),
        "libraries": library_versions(),
    } | altered_arithmetic()
    if (parts := recorded(identity)) is not None:
        out["identity"] = parts
    return out


def recorded(identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The parts of an identity as a file holds them, so that anybody can hash them again.

    Returns:
        None where they would name a place on this machine (a file that does not exist, or a
        parameter of a plug-in that does not say that it is a path), or JSON cannot hold them.
    """
    try:
        read: dict[str, Any] = json.loads(json.dumps(identity, allow_nan=False))
    except (TypeError, ValueError):
        return None
    return None if names_place(read) or identity_of(read) != identity_of(identity) else read


def names_place(value: Any) -> bool:
    """True if any text in JSON values is a path that starts at a root, a home or a parent."""
    if isinstance(value, dict):
        return any(names_place(part) for part in (*value, *value.values()))
    if isinstance(value, list):
        return any(map(names_place, value))
    if not isinstance(value, str):
        return False
    rooted = PurePath(value).is_absolute() or PureWindowsPath(value).drive != ""
    return rooted or value.startswith(("/", "~", "..", "file:"))


def library_versions() -> dict[str, str]:
    """Versions of the main libraries that are installed."""
    versions: dict[str, str] = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


@cache
def _commit() -> str | None:
    """Commit of the checkout that the package is imported from; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


# -------------------------------------------------------------------------------------- failed runs


def reason_of(error: BaseException, phase: str, before: int) -> RunError:
    """Record why a run failed, while its error is handled.

    Args:
        error: error that ended the run.
        phase: phase of the run.
        before: number of earlier failures, other than on bad input.
    """
    name, message = type(error).__name__, str(error)
    if not isinstance(error, Exception):  # the text of SystemExit is a number
        message = f"{name}: {message}" if message else name
    return RunError(
        type=name,
        message=message or name,
        phase=phase,
        traceback="" if isinstance(error, UedpBenchError) else traceback.format_exc(),
        failures=before + (not isinstance(error, InputError)),
    )


def failed(spec: RunSpec, identity: Identity, error: RunError, stored: Mapping[str, str]) -> Result:
    """The result of a run that failed; `stored` is what its folder holds."""
    return Result(
        id=identity.id,
        group=identity.group,
        status="failed",
        error=error,
        spec=spec,
        stored=dict(stored),
        provenance=provenance(identity.parts),
    )


# -------------------------------------------------------------------------------------- checkpoints

LEFT = (
    "weights in training and the state of their noise, from which the same command goes on; "
    "nothing is proven about them, and only the owner can read them"
)
"""Description of the files of a run that did not finish."""


def made_by(name: str, device: str, speed: Speed) -> dict[str, str]:
    """Everything that decides the bits of a training, by name.

    The number of ranks does: each has a sum.

    Args:
        name: id of the run, or key of a model that runs share.
        device: torch device.
        speed: speed settings of the run.
    """
    from uedp_bench.training.device import kernels
    from uedp_bench.training.executors import world_size

    several = {"ranks": str(world_size())} if world_size() > 1 else {}
    return several | {
        "run": name,
        "code": package_digest(),  # a commit does not know what was edited since
        "plug-ins": _digest(sorted(loaded_plugins())),
        "python": platform.python_version(),
        **library_versions(),
        "device": _device(device),
        "kernels": kernels(),
        "speed": speed.model_dump_json(),
    }


def after_failure(folder: Path, *, goes_on: bool) -> dict[str, str]:
    """List the files of a failed run (`Result.stored`).

    Args:
        folder: folder of the run.
        goes_on: True to keep checkpoints, from which the same command may go on.
    """
    if not goes_on:
        remove(folder / CHECKPOINT)
    return {"checkpoint": LEFT} if (folder / CHECKPOINT).is_dir() else {}


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _device(device: str) -> str:
    """The device, and what decides which kernels it takes."""
    import torch

    kind: Any = torch.backends.cpu.get_cpu_capability()
    if device.startswith("cuda"):
        kind = torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device} ({platform.machine()}, {kind}, {threads} threads)"
