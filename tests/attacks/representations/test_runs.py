"""The attacks on representations in whole runs: on a model, on protected text, and not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from uedp_bench.contracts.results import Result
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

SOURCE = {"users": 90, "valid_users": 10, "test_users": 20, "public_users": 25}
NOISELESS = {"name": "noiseless", "params": {"epochs": 1}}
DPNR = {"name": "dpnr", "params": {"epsilon": 0.05, "dimension": 8, "epochs": 1}}
QUICK = {"hidden": 16, "epochs": 3}
ATTACKS = [
    {"name": "attribute-inference", "params": {**QUICK, "attributes": ["gender", "sentiment"]}},
    {"name": "embedding-inversion", "params": {**QUICK, "words": 50}},
]


def benchmark(out: Path, mechanism: Any, **fields: Any) -> Result:
    spec = {
        "task": {"name": "text-classification"},
        "source": {"name": "embedded", "params": SOURCE},
        "model": {"name": "bilstm", "params": {"units": 4, "embedding_size": 4}},
        "mechanisms": [mechanism],
        "attacks": ATTACKS,
        **fields,
    }
    (run,) = expand(parse_spec(spec))
    return execute(run, Execution(out=out, device="cpu", keep_release=False))


@pytest.mark.parametrize(
    "mechanism",
    [
        NOISELESS,
        [{"name": "deidentify"}, NOISELESS],
        DPNR,
    ],
)
def test_both_attacks_measure_a_classifier(mechanism: Any, tmp_path: Path) -> None:
    result = benchmark(tmp_path, mechanism)
    assert result.status == "finished", result.error
    assert not result.skipped_attacks
    inferred, inverted = (result.leakage[attack["name"]] for attack in ATTACKS)
    assert {"accuracy_gender", "accuracy_sentiment", "fairness_gap_region"} <= set(inferred)
    assert 0 <= inferred["empirical_privacy"].value <= 1
    assert inverted["gain_bits"].value == pytest.approx(
        inverted["bits_prior"].value - inverted["bits"].value
    )
    rows = result.details["attribute-inference"]["rows"]
    assert rows == result.details["embedding-inversion"]["rows"]
    if mechanism == DPNR:  # the one that trains and serves with noise
        assert benchmark(tmp_path / "again", mechanism).leakage == result.leakage


def test_a_language_model_shows_no_representations(tmp_path: Path) -> None:
    model = {"name": "lstm-small", "params": {"units": 4, "embedding": 4}}
    result = benchmark(tmp_path, NOISELESS, task={"name": "next-word"}, model=model)
    assert [skipped.name for skipped in result.skipped_attacks] == [a["name"] for a in ATTACKS]
    assert "Encoder" in result.skipped_attacks[0].reason


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_source_without_valid_rows_is_refused_before_training(
    attack: dict[str, Any], tmp_path: Path
) -> None:
    source = {"name": "embedded", "params": {"users": 50, "valid_users": 0, "test_users": 5}}
    result = benchmark(tmp_path, NOISELESS, source=source, attacks=[attack])
    assert result.error is not None
    assert (result.error.phase, result.error.type) == ("plant", "InputError")
    assert "'valid'" in result.error.message
