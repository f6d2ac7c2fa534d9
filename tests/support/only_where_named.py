"""Tests that take minutes, or the machine for themselves, run where their folder is named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest


def skip_elsewhere(
    config: pytest.Config, items: Iterable[pytest.Item], folder: Path, missing: str = ""
) -> None:
    """Skips the tests of a folder, unless the command line names it or something in it.

    Args:
        config: of pytest.
        items: what was collected.
        folder: that holds the tests.
        missing: what they need and this machine has not; empty if it has everything.
    """
    base = config.invocation_params.dir
    named = [(base / str(part).partition("::")[0]).resolve() for part in config.args]
    place = folder.relative_to(Path(__file__).parents[2]).as_posix()
    reason = f"they take minutes: name the folder {place} to run them"
    if any(path == folder or folder in path.parents for path in named):
        reason = missing
    if not reason:
        return
    inside = f"{folder}{os.sep}"  # of thousands of items: texts compare faster than paths
    for item in items:
        if str(item.path).startswith(inside):
            item.add_marker(pytest.mark.skip(reason=reason))
