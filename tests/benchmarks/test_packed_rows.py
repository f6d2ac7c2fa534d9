"""Both ways through a recurrent layer are timed on the same batch, and their gradients agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_share_is_printed_for_each_number_of_units() -> None:
    command = [sys.executable, "benchmarks/packed_rows.py", "--units", "8", "16", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    shares = json.loads(done.stdout)
    assert list(shares) == ["8", "16"]
    assert all(0 < share < 10 for share in shares.values())
