"""Attacks reach masked language models as they reach others: members, audits, secrets in a gap."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from masked_rows import SMALL, STATS, learner_of, rows_of_words, task_with

from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.contracts.learner import Schedule
from uedp_bench.contracts.run_context import Run
from uedp_bench.models import bert
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec
from uedp_bench.training.plain import train_plain

SIZES = {"users": 70, "valid_users": 2, "test_users": 5, "public_users": 12}
NOISELESS = {"epochs": 6, "batch_size": 32, "learning_rate": 0.01}
HELD = 60


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bert.SIZES, "tiny", SMALL)
    torch.set_num_threads(1)


def test_members_and_canaries_of_a_masked_model_are_scored(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Pseudo-likelihoods, hidden token by hidden token, are what a `Scorer` gives."""
    spec = parse_spec(
        {
            "task": {"name": "masked-language-model", "params": {"max_tokens": 24}},
            "source": {"name": "embedded", "params": SIZES},
            "model": {"name": "bert", "params": {"configuration": "tiny"}},
            "mechanisms": [{"name": "noiseless", "params": NOISELESS}],
            "attacks": [
                {"name": "membership", "params": {"held_out_users": 12, "shadow_models": 0}},
                {"name": "audit", "params": {"canaries": 20, "user_rows": 4}},
            ],
            "seeds": [1],
        }
    )
    (run,) = expand(spec)
    result = execute(run, Execution(tmp_path_factory.mktemp("runs"), "cpu", keep_release=False))
    assert result.error is None, result.error
    assert not result.skipped_attacks
    assert result.details["membership"]["main_score"] == "ratio"
    assert result.leakage["membership"]["auc"].value > 0.5
    assert result.leakage["audit"]
    assert any(bound.attack == "audit" for bound in result.lower_bounds)


def test_a_secret_that_many_rows_hold_reaches_the_limit_and_others_do_not() -> None:
    corpus = rows_of_words(600)
    attack = SecretSharer.create(
        {
            "layout": ["HS", "HSH"], "occurrences": [0, HELD], "canaries": 2, "word_pool": 14,
            "planting": "rows",
        }
    )  # fmt: skip
    corpus, planted = attack.plant(corpus, np.random.default_rng(5))
    learner = learner_of(task_with(), corpus)
    trained = train_plain(Schedule(12, 32, 5e-3), learner, Run(1, STATS))
    leakage = attack.run(learner.release(trained), planted, corpus, Run(1, STATS))
    limit = leakage.metrics["exposure_limit"].value
    assert limit == np.log2(14)
    assert leakage.metrics["secrets_scored"].value == 1.0
    for layout in ("HS", "HSH"):
        assert leakage.metrics[f"exposure_{layout}_{HELD}"].value == pytest.approx(limit)
        assert leakage.metrics[f"exposure_{layout}_0"].value < limit - 1
    assert leakage.metrics["extracted_filling"].value == 1.0
