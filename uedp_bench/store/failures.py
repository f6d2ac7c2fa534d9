"""Runs that failed: what their results say."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from uedp_bench.contracts.results import Result, RunError, RunSpec
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.spec.identity import Identity
from uedp_bench.store.provenance import provenance


def reason_of(error: BaseException, phase: str, before: int) -> RunError:
    """Why a run failed, while its error is handled.

    Args:
        error: that ended it.
        phase: that it was in.
        before: how often the run had failed before, other than on bad input.
    """
    name, said = type(error).__name__, str(error)
    if not isinstance(error, Exception):  # the text of SystemExit is a number
        said = f"{name}: {said}" if said else name
    return RunError(
        type=name,
        message=said or name,
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
