"""Reads results of anybody: a file is a result, or one line says why it is not.

A folder may come from a stranger. What is read back from it is a regular file of a possible size
with the form of a result, which lies in the folder of its id, which is the hash of what the file
says was run.
"""

from __future__ import annotations

import re
from pathlib import Path

from uedp_bench.contracts.results import Result, RunSpec, parse_result, read_result
from uedp_bench.errors import InputError
from uedp_bench.io.json_files import MOST_SHOWN
from uedp_bench.io.messages import plain

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


def _own(result: Result, where: str) -> Result:
    """The result, if its id is what it can be.

    Raises:
        InputError: if it is not.
    """
    from uedp_bench.contracts.recorded_identity import identity_of

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
