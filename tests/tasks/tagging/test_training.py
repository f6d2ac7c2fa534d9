"""Mechanisms of each way to train train taggers; publishers that carry spans come before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import runs

from uedp_bench.contracts.results import Result
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

SMALL = {"vocabulary_size": 100, "units": 4, "embedding_size": 4, "character_filters": 2}
USERS = {"rounds": 1, "users_per_round": 10}
TRAINED: dict[str, dict[str, Any]] = {
    "dp-sgd": {"steps": 1, "batch_size": 50},
    "federated-dp-sgd": {"rounds": 1, "local_steps": 1, "batch_size": 20},
    "noiseless": {"epochs": 1, "batch_size": 200},
    "public-only": {},
    "uedp": USERS,
    "uedp-group": {"rounds": 1},
    "user-dp": USERS,
}


def ran(folder: Path, mechanism: Any, **params: Any) -> Result:
    sizes = {"users": 50, "valid_users": 2, "test_users": 5, "public_users": 5}
    (run,) = runs(
        mechanism, source={"name": "embedded", "params": sizes},
        task={"name": "tagging", "params": params}, model={"name": "bilstm", "params": SMALL},
        clients={"count": 3},
    )  # fmt: skip
    result = execute(run, Execution(folder, "cpu", keep_release=False))
    assert result.error is None, result.error
    return result


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_mechanisms_of_each_way_train_taggers(name: str, tmp_path: Path) -> None:
    crf = {"decoder": "crf"} if name in ("dp-sgd", "user-dp") else {}
    pretraining = {"pretraining_epochs": 1} if name == "public-only" else {}
    result = ran(tmp_path, {"name": name, "params": TRAINED[name]}, **crf, **pretraining)
    assert result.utility["f1_strict"].value >= 0.0
    if name in ("dp-sgd", "federated-dp-sgd", "user-dp", "uedp-group"):
        proven = [one.epsilon for one in result.guarantees if one.kind == "proven"]
        assert np.isfinite(proven).all()


@pytest.mark.parametrize("publisher", ["deidentify", "metric-dp", "vickrey"])
def test_publishers_that_carry_spans_come_before_taggers(publisher: str, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    words = ("the", "a", "of", "and", "to", "in", "is", "my")
    vectors.write_text("".join(f"{word} {at} {at % 3}\n" for at, word in enumerate(words)))
    params = {"epsilon": 5.0, "embedding": str(vectors)} if publisher != "deidentify" else {}
    noiseless = {"name": "noiseless", "params": TRAINED["noiseless"]}
    result = ran(tmp_path, [{"name": publisher, "params": params}, noiseless])
    assert result.label == publisher
    assert result.details["tagging"]["words"] > 0
    assert sum(of["gold"] for of in result.details["tagging"]["types"].values()) > 0
