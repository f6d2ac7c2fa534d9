"""A benchmark that refutes what is claimed says so in a sentence, and exits with 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import flags, plugged

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import read_result

REFUTING = Path(__file__).parents[1] / "support" / "refuting_attack.py"


@pytest.fixture(autouse=True)
def plug_in():
    with plugged(REFUTING):
        yield


@pytest.mark.parametrize("refutes", [True, False])
def test_a_refuted_claim_ends_run_with_1_each_time(tmp_path, capsys, refutes) -> None:
    command = flags(
        tmp_path, "--mechanism", "boasting", "--attack", "refuting", "--set", "mechanism.epochs=1",
        "--set", f"attack.refuting.epsilon={0.9 if refutes else 0.0}",
    )  # fmt: skip
    for _ in range(2):
        assert run_cli(command) == int(refutes)
        printed = capsys.readouterr()
        assert "boasting" in printed.out  # the table is there
        lines = [line for line in printed.err.splitlines() if line.startswith("refuted: ")]
        assert len(lines) == int(refutes)
        if refutes:
            message = "boasting does not keep the epsilon of 0.5 for user that is claimed for it"
            assert lines[0].startswith(f"refuted: {message} (seed 1): lower bound 0.9")
            assert "by decree" in lines[0]
    (result,) = map(read_result, tmp_path.glob("*/result.json"))
    assert (result.status, result.error) == ("finished", None)
