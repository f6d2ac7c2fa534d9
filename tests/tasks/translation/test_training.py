"""Mechanisms train translators; fragments come before them, and attacks follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parallel_rows import MODEL, SOURCE
from tiny import runs

from uedp_bench.contracts.results import Result
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

USERS = {"rounds": 1, "users_per_round": 4}
TRAINED: dict[str, dict[str, Any]] = {
    "dp-sgd": {"steps": 1, "batch_size": 10},
    "federated-dp-sgd": {"rounds": 1, "local_steps": 1, "batch_size": 5},
    "noiseless": {"epochs": 1, "batch_size": 50},
    "public-only": {},
    "user-dp": USERS,
}
ONE_PASS = ("dp-sgd", "user-dp")
PROVEN = (*ONE_PASS, "federated-dp-sgd")


def ran(folder: Path, mechanism: Any, attacks: Any = (), **params: Any) -> Result:
    (run,) = runs(
        mechanism, source={"name": "parallel-embedded", "params": SOURCE},
        task={"name": "translation", "params": {"max_tokens": 24, **params}},
        model={"name": "transformer-small", "params": MODEL}, attacks=[*attacks],
        clients={"count": 3},
    )  # fmt: skip
    result = execute(run, Execution(folder, "cpu"))
    assert result.error is None, result.error
    return result


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_mechanisms_train_translators(name: str, tmp_path: Path) -> None:
    pretraining = {"pretraining_epochs": 1} if name == "public-only" else {}
    result = ran(tmp_path, {"name": name, "params": TRAINED[name]}, **pretraining)
    assert 0.0 <= result.utility["bleu"].value <= 100.0
    if name in PROVEN:
        proven = [one.epsilon for one in result.guarantees if one.kind == "proven"]
        assert np.isfinite(proven).all()
    if name in ONE_PASS:
        assert result.cost.model_extra is not None
        assert result.cost.model_extra["clipping"] == "one backward pass"


def test_fragments_train_translators_that_are_scored_on_whole_sentences(tmp_path: Path) -> None:
    noiseless = {"name": "noiseless", "params": {"epochs": 1, "batch_size": 200}}
    fragments = {"name": "phrase-fragments", "params": {"tags": True}}
    result = ran(tmp_path, [fragments, noiseless])
    scored = result.details["translation"]
    assert scored["test_rows"] == 9
    assert scored["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")
    (proven,) = {one.epsilon for one in result.guarantees if one.kind == "proven"}
    assert proven == np.inf


def test_whole_sentences_and_fragments_of_them_start_from_one_public_training(
    tmp_path: Path,
) -> None:
    noiseless = {"name": "noiseless", "params": {"epochs": 1, "batch_size": 200}}
    for mechanism in (noiseless, ["phrase-fragments", noiseless], "public-only"):
        ran(tmp_path, mechanism, pretraining_epochs=1)
    assert len([*(tmp_path / "cache").glob("public-*.pt")]) == 1


def test_publishers_that_lose_translations_are_refused_by_name(tmp_path: Path) -> None:
    composed = ["deidentify", {"name": "noiseless", "params": {"epochs": 1}}]
    with pytest.raises(AssertionError, match=r"translation.*targets.*deidentify"):
        ran(tmp_path, composed)


ATTACKS: dict[str, dict[str, Any]] = {
    "membership": {"held_out_users": 10, "shadow_models": 2},
    "audit": {"canaries": 20},
    "secret-sharer": {"p_u": [0.5], "canaries": 2, "entity_canaries": 0, "references": 20,
                      "word_pool": 40, "p_e": [1.0]},
}  # fmt: skip


@pytest.mark.parametrize("names", [("membership", "secret-sharer"), ("audit",)], ids="+".join)
def test_attacks_ask_for_losses_of_pairs(names: tuple[str, ...], tmp_path: Path) -> None:
    attacks = [{"name": name, "params": ATTACKS[name]} for name in names]
    result = ran(tmp_path, {"name": "dp-sgd", "params": TRAINED["dp-sgd"]}, attacks)
    assert {*result.leakage} == {*names}, result.skipped_attacks
