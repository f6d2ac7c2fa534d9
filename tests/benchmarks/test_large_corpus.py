"""The memory and the work that a large corpus takes stay within their bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROWS, USERS = 200_000, 20_000


def measured(folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks" / "large_corpus.py"), "--json"]
    command += ["--rows", str(ROWS), "--users", str(USERS), "--keep", str(folder), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    measurement: dict[str, Any] = json.loads(done.stdout)
    return measurement


def own(measurement: dict[str, Any], phase: str) -> float:
    """Megabytes above those of the imports."""
    phases = measurement["phases"]
    return float(phases[phase]["own"] - phases["imports"]["own"])


@pytest.mark.long
def test_a_run_holds_no_texts_and_encodes_the_rows_that_train(tmp_path: Path) -> None:
    run = measured(tmp_path, "--steps", "run")["run"]
    held = measured(tmp_path, "--steps", "describe", "--held")["describe"]
    assert run["fingerprint"] == held["fingerprint"]
    assert own(run, "load") < 0.75 * own(held, "load")
    # Two rounds touch one user in fifty; to encode all rows would take longer than to train these.
    cpu = {phase: values["cpu"] for phase, values in run["phases"].items()}
    assert cpu["before the rounds"] < 0.5 * cpu["two rounds"]
    assert sum(cpu[name] for name in ("load", "fingerprint", "plant")) < cpu["imports"] + 1.0
