"""Results as public pages show them: without where, and on whose machine, they were made.

Paths enter neither the id of a run nor its numbers; what is left of them is the file's name.
"""

from __future__ import annotations

import re
from typing import Any

from uedp_bench.contracts.results import ComponentSpec, FailedAttack, Result, SkippedAttack

_PART = r"[^\s\"'`<>|:;,()\[\]{}/\\]"
PLACE = re.compile(
    # Not within a word, a relative path or the address of a server.
    rf"(?:\b(?:file|sqlite):/{{2,3}}|(?<![\w.~:/\\-]))(?:/|[A-Za-z]:[\\/])(?:{_PART}+[\\/])+"
    rf"({_PART}*)"
)


def published(result: Result) -> Result:
    """The result without paths from the root of a file system, and without stacks of attacks."""
    spec = result.spec
    error, tracking = result.error, dict(result.tracking)
    if not tracking.get("tracking_uri", "").startswith(("http://", "https://")):
        tracking.pop("tracking_uri", None)
    if error is not None:
        error = error.model_copy(update=_within(error.model_dump()))
    return result.model_copy(update={
        "spec": spec.model_copy(update={
            "task": _component(spec.task),
            "source": _component(spec.source),
            "model": _component(spec.model),
            "mechanism": tuple(map(_component, spec.mechanism)),
            "attacks": tuple(map(_component, spec.attacks)),
        }),
        "error": error,
        "skipped_attacks": tuple(
            SkippedAttack(name=one.name, reason=_within(one.reason))
            for one in result.skipped_attacks
        ),
        "failed_attacks": tuple(
            FailedAttack(name=one.name, type=one.type, message=_within(one.message))
            for one in result.failed_attacks
        ),
        "tracking": tracking,
        "provenance": _within(result.provenance),
    })  # fmt: skip


def _component(part: ComponentSpec) -> ComponentSpec:
    return part.model_copy(update={"params": _within(part.params)})


def _within(value: Any) -> Any:
    """Copy of a JSON value with names of files instead of their paths."""
    if isinstance(value, str):  # most have no place for a path, and to look takes longer
        return PLACE.sub(r"\1", value) if "/" in value or "\\" in value else value
    if isinstance(value, dict):
        return {key: _within(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_within(part) for part in value]
    return value
