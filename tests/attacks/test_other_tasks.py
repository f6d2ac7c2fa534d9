"""Attacks reach a task that a stranger registers, and that knows nothing of attacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny import plugged, runs

from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.protecting import check_retrainings
from uedp_bench.one_run.runner import execute

SUPPORT = Path(__file__).parents[1] / "support"
FITTED = {"name": "noiseless", "params": {"epochs": 20, "batch_size": 32, "learning_rate": 0.05}}
NOISE = {
    "name": "user-dp",
    "params": {"rounds": 2, "users_per_round": 60, "noise_multiplier": 50.0},
}


@pytest.fixture(scope="module", autouse=True)
def strange() -> Iterator[None]:
    with plugged(SUPPORT / "rated_text.py", SUPPORT / "leaky.py"):
        yield


def spec(mechanism: Any, attack: dict[str, Any], users: int = 60, **more: Any) -> RunSpec:
    sizes = {"users": users, "valid_users": 2, "test_users": 20, "public_users": 20}
    fields = {"task": "rated-text", "model": "none", **more}
    source = {"name": "embedded", "params": sizes}
    (run,) = runs(mechanism, source=source, attacks=[attack], **fields)
    return run


def attacked(folder: Path, *args: Any, **more: Any) -> Result:
    result = execute(spec(*args, **more), Execution(folder, "cpu", keep_release=False))
    assert result.error is None, result.error
    assert not result.skipped_attacks
    return result


MEMBERSHIP = {"name": "membership", "params": {"held_out_users": 60, "shadow_models": 2}}


def test_membership_sees_who_trained_by_shadow_models_of_the_same_task(tmp_path: Path) -> None:
    result = attacked(tmp_path, FITTED, MEMBERSHIP, users=200)
    details = result.details["membership"]
    assert details["main_score"] == "lira_shrunk"
    assert details["records_without_target"] == 0
    assert {"loss", "lira", "rmia"} < set(details["scores"])
    assert result.leakage["membership"]["auc"].low > 0.55
    assert result.cost.model_dump()["reference_models"] == 2


def test_membership_sees_nothing_in_noise(tmp_path: Path) -> None:
    result = attacked(tmp_path, NOISE, MEMBERSHIP, users=200)
    assert result.leakage["membership"]["auc"].low < 0.55


def test_shadow_models_are_counted_before_they_are_trained() -> None:
    specs = [spec(FITTED, MEMBERSHIP)]
    check_retrainings(specs, 2)
    with pytest.raises(ValueError, match=r"attack\.membership\.shadow_models.*2"):
        check_retrainings(specs, 1)


def audit(**params: Any) -> dict[str, Any]:
    return {"name": "audit", "params": {"canaries": 58, "word_pool": 100, **params}}


def test_an_audit_refutes_training_without_noise(tmp_path: Path) -> None:
    result = attacked(tmp_path, FITTED, audit(), delta=1e-10)
    assert result.details["audit"]["scored_by"] == "losses of rows"
    assert result.leakage["audit"]["epsilon_lower_bound"].value > 0.5
    assert result.leakage["audit"]["auc"].low > 0.7
    assert result.lower_bounds[0].unit == "user"


def test_an_audit_refutes_nothing_of_noise(tmp_path: Path) -> None:
    result = attacked(tmp_path, NOISE, audit(), delta=1e-10)
    assert result.leakage["audit"]["epsilon_lower_bound"].value == 0.0


def test_a_canary_that_replaces_a_user_is_asked_for_beside_the_same_labels(tmp_path: Path) -> None:
    result = attacked(tmp_path, FITTED, audit(adjacency="replace-one", user_rows=1), delta=1e-10)
    assert {bound.unit for bound in result.lower_bounds} == {"user", "record"}
    assert result.leakage["audit"]["auc"].low > 0.6


def test_the_harness_tells_how_the_weights_moved(tmp_path: Path) -> None:
    leaky = {"rounds": 1, "users_per_round": 60, "noise_multiplier": 20.0, "really": 1.0}
    result = attacked(
        tmp_path, {"name": "leaky-user-dp", "params": leaky}, audit(canary="update", retrainings=4),
        delta=1e-10,
    )  # fmt: skip
    details = result.details["audit"]
    assert details["weights"] == 2048 + 1
    assert not details["notes"]
    # The subject of the retrainings is always in.
    assert result.diagnostics["injected_updates"] == details["included"] + 1
    # Retrained models are loaded from files: their updates are there as well.
    assert len(details["retrainings"]["members"]) == 2
    leaks = {**leaky, "really": 0.0}
    seen = execute(
        spec({"name": "leaky-user-dp", "params": leaks}, audit(canary="update"), delta=1e-10),
        Execution(tmp_path, "cpu", keep_release=False),
    )
    assert seen.error is None, seen.error
    # Nobody reviewed a plug-in: what it states is refuted, and its run ends.
    assert [g.status for g in seen.guarantees if g.kind == "stated"] == ["refuted"]


def test_an_audit_asks_a_classifier_for_the_losses_of_rows(tmp_path: Path) -> None:
    result = attacked(
        tmp_path, {"name": "noiseless", "params": {"epochs": 3}}, audit(canaries=20),
        task="text-classification",
        model={"name": "bilstm", "params": {"vocabulary_size": 200, "units": 8}},
    )  # fmt: skip
    assert result.details["audit"]["scored_by"] == "losses of rows"
    assert result.leakage["audit"]["auc"].low is not None
