"""What docs/reproductions/federated-secret-sharer.md says is what the results say."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "federated_sharer_table.py"
FOLDER = ROOT / "leaderboard" / "results" / "reproductions" / "federated-secret-sharer"
PAGE = (ROOT / "docs" / "reproductions" / "federated-secret-sharer.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def printed() -> str:
    told, before = io.StringIO(), sys.argv
    sys.argv = ["federated_sharer_table.py", str(FOLDER)]
    try:
        with contextlib.redirect_stdout(told):
            runpy.run_path(
                str(ROOT / "benchmarks" / "federated_sharer_table.py"), run_name="__main__"
            )
    finally:
        sys.argv = before
    return told.getvalue()


def test_the_page_holds_tables_that_the_command_prints(printed: str) -> None:
    measured = PAGE[PAGE.index("## What was measured") :]
    tables = re.findall(r"(?:^\|.*\n)+", measured, re.M)
    assert len(tables) == 4
    for table in tables:
        assert table.strip() in printed


def test_every_pair_says_that_rows_kept_by_user_are_remembered_less(printed: str) -> None:
    pairs = [line.split("|") for line in printed.splitlines() if line.startswith("| non-IID − IID")]
    assert len(pairs) == 5
    for _, _, _, by_seed, bits, *_ in pairs:
        assert all(seed.strip().startswith("-") for seed in by_seed.split(","))
        assert float(bits) < -1.7


def test_nothing_is_extracted_at_the_lowest_share_of_messages(printed: str) -> None:
    (grid,) = {
        t for t in re.findall(r"(?:^\|.*\n)+", printed + "\n", re.M) if t.startswith("|  | p_u")
    }
    head, _, *rows = [[c.strip() for c in line.split("|")[1:-1]] for line in grid.splitlines()]
    lowest = [at for at, name in enumerate(head) if name.endswith("p_e 5 %")]
    arms = [row for row in rows if " of " in row[1]]
    assert len(lowest) == 3
    assert len(arms) == 10
    assert all(row[at].startswith("0 of") for row in arms for at in lowest)
