"""Runs that failed: what their results say."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from uedp_bench.contracts.results import Result, RunError, RunSpec
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.spec.identity import Identity
from uedp_bench.store.provenance import provenance


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
