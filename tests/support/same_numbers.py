"""Numbers of small runs, stored with the versions of the code that computed them.

While versions stay, numbers stay to the last bit. A change of numbers that is meant raises the
`version` of the component, or `ENGINE` where it is everybody's, and stores them anew:

    pytest tests/one_run/test_same_numbers.py tests/testing/test_built_ins.py --store-numbers
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uedp_bench.contracts.results import Result
from uedp_bench.contracts.run_context import Speed
from uedp_bench.leaderboard.installed import versions_of
from uedp_bench.models import fast
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

NUMBERS = {"utility", "floors", "leakage", "lower_bounds", "series", "diagnostics"}
"""Fields of a result that training and attacks compute; proofs are recomputed wherever read."""
FITS = ("extrapolated_exposure", "ks_pvalue", "reference_losses")
"""Fits to few losses: another order of additions moves them further than all else."""
OTHER_ARITHMETIC = 1e-4
"""Relative difference of numbers between processors and libraries that add in another order."""

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


def arithmetic() -> str:
    """Processor and libraries, which decide in which order numbers are added."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    parts = [
        platform.machine(),
        f"torch {torch.__version__.partition('+')[0]} {torch.backends.cpu.get_cpu_capability()}",
        f"numpy {np.__version__} {blas['name']} {blas['version']}",
        _processor(),
        *(() if fast.is_on() else ("without fast kernels",)),
    ]
    return ", ".join(parts)


def _processor() -> str:
    """Make and family of the processor: BLAS sums otherwise on each, with equal instructions."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
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
            "attacks": [{"name": "membership", "params": {"shadow_models": 2}}],
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
                {"name": "membership", "params": {"reference_rows": 100, "shadow_models": 0}},
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


def entries(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Versions and numbers of the runs of a spec, by place and mechanism."""
    runs = expand(parse_spec(specs()[name]))
    execution = Execution(folder, "cpu", keep_release=False, speed=Speed(threads=1))
    return {f"{at} {run.label}": entry(execute(run, execution)) for at, run in enumerate(runs)}


def entry(result: Result) -> dict[str, Any]:
    """Numbers of a result with the versions that made them."""
    assert result.error is None, result.error
    return {
        "arithmetic": arithmetic(),
        "versions": versions_of(result.provenance["identity"]),
        "numbers": json.loads(json.dumps(result.model_dump(mode="json", include=NUMBERS))),
    }


def check(file: Path, computed: Mapping[str, dict[str, Any]], *, store: bool = False) -> None:
    """Compares entries with those of a file, or stores those whose versions have moved.

    Raises:
        AssertionError: if numbers moved and versions did not, or versions moved and the file did
            not.
    """
    stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name, new in computed.items():
        old = stored.get(name, dict.fromkeys(new))
        if old["versions"] == new["versions"]:
            relative = 0.0 if old["arithmetic"] == new["arithmetic"] else OTHER_ARITHMETIC
            differences = list(differing(old["numbers"], new["numbers"], relative))
            # A metric that a component has learned to compute moves none of the others.
            moved = [each for each in differences if each[1] is not None]
            assert store or len(moved) == len(differences), f"{name}: new numbers: --store-numbers"
            assert not moved, (
                f"{name}: numbers moved under unchanged versions: raise `version` of the component "
                f"or `ENGINE`, then --store-numbers: {moved[:5]}"
            )
        else:
            assert store, f"{name} has other versions than {file.name}: use --store-numbers"
    if store:
        text = json.dumps({**stored, **computed}, indent=1, sort_keys=True)
        file.write_text(text + "\n", encoding="utf-8")


def differing(before: Any, after: Any, relative: float, place: str = "") -> Iterator[Any]:
    """Every leaf that differs by more than a relative tolerance; 0 compares to the last bit."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}.difference(FITS if relative else ())):
            yield from differing(before.get(key), after.get(key), relative, f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differing(*pair, relative, f"{place}[{number}]")
    elif isinstance(before, float) and isinstance(after, float):
        if before != after and after != pytest.approx(before, rel=relative, abs=0.0):
            yield place, before, after
    elif before != after:
        yield place, before, after
