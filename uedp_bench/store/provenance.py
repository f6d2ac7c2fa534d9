"""Provenance of a result."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.version import __version__

LIBRARIES = ("torch", "numpy", "transformers", "dp-accounting", "faker", "presidio-anonymizer")


def provenance(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, commit, time (UTC), and what the id is a hash of.

    Args:
        identity: `identity_parts` of the run; left out where `recorded` says so.
    """
    from uedp_bench.training.device import (
        kernels,  # torch
        lowered_precision,
    )

    out: dict[str, Any] = {
        "package": __version__,
        "commit": _commit(),
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "python": platform.python_version(),
        "libraries": library_versions(),
    }
    if kernels() != "fast":
        out["kernels"] = kernels()
    if (switch := lowered_precision()) is not None:
        out["precision"] = switch
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
    return {name: version for name in LIBRARIES if (version := _version(name))}


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


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
