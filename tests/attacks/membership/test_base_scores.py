"""Scores against the model before private training: worked values, users, and end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import runs

from uedp_bench.attacks.membership.base_scores import base_scores, ez, wbc
from uedp_bench.attacks.membership.records import Records
from uedp_bench.contracts.capabilities import TokenScores
from uedp_bench.errors import InputError
from uedp_bench.one_run.execution import Execution
from uedp_bench.one_run.runner import execute

TARGET = np.array([-0.1, -2.3, -0.5, -4, -1.2, -0.05, -3.3, -0.7, -0.9, -0.2])
BASE = np.array([-0.2, -3, -0.4, -5.5, -1, -0.1, -3.1, -1.7, -0.9, -0.6])
RIGHT = np.isin(np.arange(10), [0, 2, 5, 9])


def scored(logp: np.ndarray, right: np.ndarray) -> TokenScores:
    return TokenScores(logp, np.zeros(len(logp)), np.ones(len(logp)), right)


def test_scores_have_their_worked_values() -> None:
    gains = TARGET - BASE
    records = Records(np.array([0]), ["x"], np.array([0]), np.array([True]))
    found = base_scores(records, [scored(TARGET, RIGHT)], [scored(BASE, RIGHT)])
    assert found["ratio_base"].records[0] == pytest.approx(0.325)
    assert found["ez"].records[0] == pytest.approx(2.077257, abs=1e-6)
    assert found["wbc"].records[0] == pytest.approx(0.965278, abs=1e-6)
    shares = [wbc(gains, (width,)) for width in (1, 2, 3, 4)]
    assert shares == pytest.approx([0.6, 0.777778, 0.875, 1.0], abs=1e-6)


def test_a_text_whose_tokens_all_gained_is_the_strongest_evidence() -> None:
    rises, falls = np.array([3.2, 3.2, 0.0]), np.array([0.0, 0.4, 3.2])
    assert np.argsort(ez(rises, falls)).tolist() == [2, 1, 0]


def test_users_pool_their_tokens() -> None:
    # One user with a long and a short record: as if it were one record.
    halves = [scored(TARGET[:7], RIGHT[:7]), scored(TARGET[7:], RIGHT[7:])]
    bases = [scored(BASE[:7], RIGHT[:7]), scored(BASE[7:], RIGHT[7:])]
    records = Records(np.arange(2), ["x", "y"], np.array([4, 4]), np.array([True, True]))
    found = base_scores(records, halves, bases)
    assert found["ratio_base"].users == pytest.approx([0.325])
    assert found["ez"].users == pytest.approx([2.077257], abs=1e-6)


def test_a_base_of_other_tokens_is_refused() -> None:
    records = Records(np.array([0]), ["x"], np.array([0]), np.array([True]))
    with pytest.raises(InputError, match="membership"):
        base_scores(records, [scored(TARGET, RIGHT)], [scored(BASE[:9], RIGHT[:9])])


@pytest.mark.parametrize(("mechanism", "gain"), [("public-only", False), ("noiseless", True)])
def test_the_base_is_the_model_before_private_rows(
    tmp_path: Path, mechanism: str, gain: bool
) -> None:
    sizes = {"users": 80, "valid_users": 4, "test_users": 10, "public_users": 30}
    (spec,) = runs(
        mechanism,
        source={"name": "embedded", "params": sizes},
        task={"name": "next-word", "params": {"pretraining_epochs": 1}},
        attacks=[{"name": "membership", "params": {"held_out_users": 30, "shadow_models": 0}}],
    )
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    assert result.error is None
    details = result.details["membership"]
    assert details["base"]
    assert details["reference"] is None
    assert details["main_score"] == "ez"
    # Public text alone: the release is the base, bit for bit, and tells nobody apart.
    assert (result.leakage["membership"]["auc"].value == 0.5) is not gain
