"""Membership and audits reach taggers, whose canaries are annotated as names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import runs

from uedp_bench.attacks.audit.attack import Audit
from uedp_bench.contracts.results import Result
from uedp_bench.corpus import Corpus, Spans
from uedp_bench.errors import InputError
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

SMALL = {"vocabulary_size": 200, "units": 12, "embedding_size": 12, "character_filters": 0}
FITTED = {"name": "noiseless", "params": {"epochs": 8, "batch_size": 16, "learning_rate": 0.02}}
NOISE = {
    "name": "user-dp",
    "params": {"rounds": 2, "users_per_round": 60, "noise_multiplier": 50.0},
}


def attacked(folder: Path, mechanism: Any, users: int = 60, **attack: Any) -> Result:
    sizes = {"users": users, "valid_users": 2, "test_users": 5, "public_users": 20}
    (spec,) = runs(
        mechanism, source={"name": "embedded", "params": sizes}, attacks=[attack], task="tagging",
        model={"name": "bilstm", "params": SMALL}, delta=1e-10,
    )  # fmt: skip
    result = execute(spec, Execution(folder, "cpu", keep_release=False))
    assert result.error is None, result.error
    assert not result.skipped_attacks
    return result


def audit(**params: Any) -> dict[str, Any]:
    return {"name": "audit", "params": {"canaries": 58, "word_pool": 100, "user_rows": 3} | params}


def test_membership_sees_who_trained_by_the_losses_of_a_tagger(tmp_path: Path) -> None:
    sizes = {"held_out_users": 30, "shadow_models": 0}
    result = attacked(tmp_path, FITTED, name="membership", params=sizes)
    details = result.details["membership"]
    assert details["records_without_target"] == 0
    assert result.leakage["membership"]["auc"].low is not None
    assert {*result.details["tagging"]["types"]}  # what the task tells stands beside the attacks


def test_an_audit_refutes_a_tagger_without_noise_by_names_that_it_learnt(tmp_path: Path) -> None:
    result = attacked(tmp_path, FITTED, **audit(named=True))
    assert result.details["audit"]["scored_by"] == "losses of rows"
    assert result.leakage["audit"]["auc"].low > 0.8
    assert result.leakage["audit"]["epsilon_lower_bound"].value > 0.5


def test_an_audit_refutes_nothing_of_a_tagger_of_noise(tmp_path: Path) -> None:
    result = attacked(tmp_path, NOISE, **audit(named=True))
    assert result.leakage["audit"]["epsilon_lower_bound"].value == 0.0
    assert result.leakage["audit"]["auc"].low < 0.5 < result.leakage["audit"]["auc"].high


def test_entity_canaries_are_asked_for_as_the_names_that_they_were_planted_as(
    tmp_path: Path,
) -> None:
    """Asked for as plain words, a name that was learnt would have the larger loss."""
    kind = {"canary": "entity", "spread": 1, "canaries": 24, "user_rows": None}
    result = attacked(tmp_path, FITTED, **audit(**kind))
    scores = result.details["audit"]["scores"]
    assert np.mean(scores["members"]) > np.mean(scores["nonmembers"]) + 0.5


def test_named_is_of_user_canaries_and_needs_types(development_corpus: Corpus) -> None:
    with pytest.raises(ValueError, match=r"audit named.*'update'"):
        Audit.create({"canary": "update", "named": True})
    assert "named" not in Audit.create({}).params.model_dump()
    typeless = replace(development_corpus, entities=Spans.none(), entity_types=())
    with pytest.raises(InputError, match=r"audit\.named.*types"):
        Audit.create({"named": True}).plant(typeless, np.random.default_rng(1))
