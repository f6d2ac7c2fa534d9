"""Declared, training and expected units: told where they differ, refused where the proof breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import flags, runs
from typer.testing import CliRunner

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.cli.main import app
from uedp_bench.contracts.mechanism import PublicUnits
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.validate import check
from uedp_bench.one_run.preparing import Execution, shortfall
from uedp_bench.one_run.runner import execute

ROUNDS = {"rounds": 2, "users_per_round": 10}
HELD_OUT = {"name": "membership", "params": {"held_out_users": 10, "shadow_models": 0}}


def run_with(folder: Path, name: str, attacks: tuple = (), **params: object) -> Result:
    (spec,) = runs({"name": name, "params": params}, attacks=list(attacks))
    return execute(spec, Execution(folder, "cpu", keep_release=False))


def proven(result: Result) -> Guarantee:
    return next(each for each in result.guarantees if each.kind == "proven")


def test_fewer_than_declared_are_told_with_the_round_that_is_expected(tmp_path: Path) -> None:
    result = run_with(tmp_path, "user-dp", **ROUNDS, users=100)
    assert result.error is None
    assert result.diagnostics["public_sizes"] == {
        "unit": "users", "declared": 100, "training": 60,
        "planned_per_round": 10.0, "expected_per_round": 6.0,
    }  # fmt: skip
    assert "public_sizes" in result.diagnostics["simulation_only"]
    assert shortfall(result) == (
        "user-dp: 100 users are declared and 60 train: 6 a round are expected in place of 10, and "
        "the noise is as large as if all were there"
    )
    strange = {"public_sizes": {"unit": "users", "declared": [], "training": "many"}}
    assert shortfall(result.model_copy(update={"diagnostics": strange})) is None
    report = check(tmp_path / result.id / "result.json")
    assert not [problem for problem in report.errors if "diagnostics" in problem.where]


def test_held_out_users_are_taken_off_a_documented_number(tmp_path: Path) -> None:
    result = run_with(tmp_path, "user-dp", (HELD_OUT,), **ROUNDS)
    assert result.error is None
    sizes = result.diagnostics["public_sizes"]
    assert (sizes["declared"], sizes["training"]) == (50, 50)
    assert shortfall(result) is None
    # A declared number is that of the users who are left after every cut: nothing is taken off.
    result = run_with(tmp_path, "user-dp", (HELD_OUT,), **ROUNDS, users=60)
    sizes = result.diagnostics["public_sizes"]
    assert (sizes["declared"], sizes["training"]) == (60, 50)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("uedp-spread", {**ROUNDS, "sentences_per_user": 2}),
        ("uedp-group", {"rounds": 2}),
        ("user-dp", {**ROUNDS, "sampling": "fixed"}),
    ],
)
def test_too_small_a_number_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, params: dict
) -> None:
    def trained(*_: object) -> None:
        raise AssertionError("it trained")

    monkeypatch.setattr("uedp_bench.one_run.runner.protect", trained)
    result = run_with(tmp_path, name, **params, users=59)
    assert result.error is not None
    assert f"{name}.users is 59" in result.error.message
    assert "60" not in result.error.message  # the real number is private


def test_independent_coins_need_no_exact_number(tmp_path: Path) -> None:
    result = run_with(tmp_path, "user-dp", **ROUNDS, users=40)
    assert result.error is None
    assert proven(result).epsilon is not None
    assert result.diagnostics["public_sizes"]["expected_per_round"] == 15.0
    assert shortfall(result) is None


def test_records_are_units_too(tmp_path: Path) -> None:
    result = run_with(tmp_path, "dp-sgd", steps=2, batch_size=8, records=10_000)
    sizes = result.diagnostics["public_sizes"]
    assert sizes["unit"] == "records"
    assert sizes["expected_per_round"] == pytest.approx(8 * sizes["training"] / 10_000)
    assert PublicUnits("users", 10, 4.0, independent=False).expected(5) == 4.0


def test_the_command_line_says_so(tmp_path: Path) -> None:
    settings = ["mechanism.users=100", "mechanism.rounds=2", "mechanism.users_per_round=10"]
    command = flags(
        tmp_path, "--mechanism", "user-dp", *(x for s in settings for x in ("--set", s))
    )
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    assert "100 users" in " ".join(done.output.split())
