"""Guarantees from Python are those of the command line."""

from __future__ import annotations

import json

import pytest

import uedp_bench as ub
from uedp_bench.cli.main import run_cli
from uedp_bench.errors import InputError

SIZES = {"users": 1000, "users_per_round": 50, "rounds": 100}


def test_account_gives_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    guarantees = ub.account("user-dp", SIZES, noise_multiplier=1.5, delta=1e-6)
    settings = [f"--set={n}={v}" for n, v in {**SIZES, "noise_multiplier": 1.5}.items()]
    assert run_cli(["account", "user-dp", *settings, "--delta", "1e-6", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["guarantees"]
    assert [g.model_dump(mode="json")["epsilon"] for g in guarantees] == [
        g["epsilon"] for g in rows
    ]
    assert guarantees.proven("user").delta == 1e-6


def test_guarantees_are_a_table_in_a_notebook() -> None:
    guarantees = ub.account("deidentify+user-dp", SIZES)
    shown = guarantees._repr_html_()
    assert shown.count("<tr>") == len(guarantees) + 1
    assert "add-or-remove" in shown and "proven" in repr(guarantees)
    assert shown.startswith("<p>At a proven ε of ") and "for a person.</p>" in shown
    with pytest.raises(LookupError, match=r"word: 0.*: user") as refused:
        guarantees.proven("word")
    assert isinstance(refused.value, ub.UedpBenchError)


def test_a_spread_is_a_point_of_the_curve() -> None:
    guarantees = ub.account(
        "uedp", users=946, users_per_round=50, rounds=50, noise_multiplier=2, entity_rate=0.5,
        sentence_rate=1, sentences=14040, sensitive_sentences=11176, spread=[1, None],
    )  # fmt: skip
    assert len(guarantees.proven("user-entity").curve) == 2


def test_calibrate_meets_its_target_and_account_agrees() -> None:
    solution = ub.calibrate("user-dp", 8, SIZES)
    assert solution.parameter == "noise_multiplier"
    assert solution.epsilon <= 8
    assert repr(solution).startswith(f"noise_multiplier = {solution.value}: a proven epsilon of ")
    again = ub.account("user-dp", SIZES, noise_multiplier=solution.value).proven("user")
    assert again.epsilon == solution.epsilon


def test_mistakes_name_the_parameter() -> None:
    with pytest.raises(InputError, match=r"'noise_multiplyer'.*'noise_multiplier'"):
        ub.account("user-dp", SIZES, noise_multiplyer=1)
    with pytest.raises(InputError, match="user-dp"):
        ub.account("user-pd", SIZES)
