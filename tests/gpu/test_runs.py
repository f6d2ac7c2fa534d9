"""Whole runs on a GPU: mechanisms and attackers that train networks of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import NOISELESS, runs

from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
]
ATTACKERS = [
    {"name": name, "params": {"hidden": 4, "epochs": 1}}
    for name in ("attribute-inference", "embedding-inversion")
]
MECHANISMS: dict[str, Any] = {
    "dpnr": {"name": "dpnr", "params": {"epsilon": 5.0, "dimension": 8, "epochs": 1}},
    "adversarial": {"name": "adversarial", "params": {"epochs": 1, "attacker_hidden": 4}},
    "noiseless": NOISELESS,
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_run_on_a_gpu_finishes_with_its_attacks(name: str, tmp_path: Path) -> None:
    (run,) = runs(
        MECHANISMS[name],
        task="text-classification",
        model={"name": "bilstm", "params": {"vocabulary_size": 80, "units": 4}},
        attacks=[] if name == "noiseless" else ATTACKERS,
    )
    result = execute(run, Execution(tmp_path, device="cuda"))
    assert (result.error, result.failed_attacks) == (None, ())
    assert result.cost.device.startswith("cuda")
    assert set(result.leakage) == {attack.name for attack in run.attacks}
