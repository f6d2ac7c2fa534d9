"""Small runs whose results must stay the same to the last bit while code is moved and cut anew.

`python tests/support/same_numbers.py FOLDER` runs them and writes what they found: do so only after
a change of numbers that is meant, and say in its commit why they changed.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from uedp_bench.harness.execution import Execution
from uedp_bench.harness.grid import expand
from uedp_bench.harness.runner import execute
from uedp_bench.harness.spec import parse_spec
from uedp_bench.run_context import Speed

NOT_COMPARED = ("cost", "provenance", "tracking")
"""Fields of a result that say where and how fast it was made."""

SOURCE = {"users": 260, "sentences": 2, "valid_users": 10, "test_users": 20, "public_users": 40}
LSTM = {"name": "lstm-small", "params": {"vocabulary_size": 200, "units": 8, "embedding": 8}}
BILSTM = {"units": 8, "embedding_size": 8, "vocabulary_size": 300}
ROUNDS = {"rounds": 3, "users_per_round": 20}
SERVER = {"server_optimizer": "adam", "server_learning_rate": 0.02}
PLAIN = {"name": "noiseless", "params": {"epochs": 1}}
SHARER = {
    "name": "secret-sharer",
    "params": {"p_u": [0.1], "canaries": 3, "entity_canaries": 2, "references": 20},
}
AUDIT = {"name": "audit", "params": {"canaries": 20}}

LANGUAGE: list[Any] = [
    ["deidentify", PLAIN],
    {"name": "user-dp", "params": {**ROUNDS, **SERVER}},
    {"name": "user-dp", "params": {**ROUNDS, "sampling": "fixed"}},
    {"name": "uedp", "params": ROUNDS},
    {"name": "uedp-group", "params": {"rounds": 3, "sentences_per_user": 2}},
    {"name": "uedp-spread", "params": ROUNDS},
    {"name": "dp-sgd", "params": {"steps": 3, "batch_size": 50}},
]
CLASSES: list[Any] = [
    {"name": "dpnr", "params": {"epsilon": 5, "dimension": 16, "epochs": 1, "word_dropout": 0.2}},
    {"name": "adversarial", "params": {"epochs": 1}},
    {"name": "dp-sgd", "params": {"steps": 3, "batch_size": 50}},
]


def arithmetic() -> list[str]:
    """What decides in which order numbers are added: where it is the same, so is every bit."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return [
        platform.machine(),
        f"torch {torch.__version__.partition('+')[0]} {torch.backends.cpu.get_cpu_capability()}",
        f"numpy {np.__version__} {blas['name']} {blas['version']}",
        _processor(),
    ]


def _processor() -> str:
    """Its make and family: BLAS has sums of their own for many, with the same instructions."""
    said = Path("/proc/cpuinfo")
    text = said.read_text(encoding="utf-8") if said.exists() else ""
    facts = dict(re.findall(r"^(vendor_id|cpu family)\s*: (.+)$", text, re.MULTILINE))
    return " family ".join(facts.values()) or platform.processor()


def specs() -> dict[str, dict[str, Any]]:
    """Specs by name; each is a handful of runs of a second or so."""
    source = {"name": "embedded", "params": SOURCE}
    shared = {"source": source, "seeds": [1]}
    return {
        "language": {**shared, "model": LSTM, "mechanisms": LANGUAGE, "attacks": [SHARER]},
        "audited": {**shared, "model": LSTM, "mechanisms": [LANGUAGE[1]], "attacks": [AUDIT]},
        "pretrained": {
            **shared,
            "task": {"name": "next-word", "params": {"pretraining_epochs": 1}},
            "model": LSTM,
            "mechanisms": [LANGUAGE[1]],
        },
        "members": {
            "source": {"name": "embedded", "params": {**SOURCE, "users": 2300}},
            "seeds": [1],
            "model": LSTM,
            "mechanisms": [LANGUAGE[1]],
            "attacks": ["membership"],
        },
        "public-reference": {
            "source": {
                "name": "embedded",
                "params": {**SOURCE, "users": 2300, "public_users": 200},
            },
            "seeds": [1],
            "model": LSTM,
            "mechanisms": [LANGUAGE[1]],
            "attacks": [
                SHARER,
                {"name": "membership", "params": {"reference_rows": 100}},
            ],
        },
        "classes": {
            **shared,
            "task": {"name": "text-classification"},
            "model": {
                "name": "bilstm",
                "params": {"units": 8, "embedding_size": 8, "vocabulary_size": 300},
            },
            "mechanisms": CLASSES,
            "attacks": ["attribute-inference"],
        },
    }


def found(name: str, folder: Path) -> dict[str, Any]:
    """Everything of a spec's results by run, but costs and where they were made."""
    out: dict[str, Any] = {}
    for run in expand(parse_spec(specs()[name])):
        result = execute(run, Execution(folder, "cpu", speed=Speed(threads=1)))
        out[result.id] = result.model_dump(mode="json", exclude=set(NOT_COMPARED))
    return out


if __name__ == "__main__":
    target = Path(sys.argv[1])
    for each in sys.argv[2:] or specs():
        with tempfile.TemporaryDirectory() as out:
            text = json.dumps(found(each, Path(out)), indent=1, sort_keys=True)
        (target / "arithmetic.json").write_text(json.dumps(arithmetic()) + "\n", encoding="utf-8")
        (target / f"{each}.json").write_text(text + "\n", encoding="utf-8")
