"""An attack fails alone: its reason is in the row, and all else of the run stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import NOISELESS, SPIES, USER_DP, flags, plugged, runs

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import FailedAttack, Result, SkippedAttack, read_result
from uedp_bench.errors import InputError
from uedp_bench.grid.scheduler import Runs, jobs_of, resume
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.in_words import result_lines
from uedp_bench.leaderboard.table import to_json
from uedp_bench.leaderboard.validation.consistency import check_consistency
from uedp_bench.leaderboard.validation.publishing import published
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.rehearsal import rehearse
from uedp_bench.one_run.runner import execute

FAILING = Path(__file__).parents[1] / "support" / "failing_attacks.py"
ATTACKS = ("hold-out", "needs-published")


@pytest.fixture(scope="module", autouse=True)
def plug_ins():
    with plugged(SPIES, FAILING):
        yield


def failing(way: str, step: str = "run") -> dict:
    return {"name": "failing", "params": {"way": way, "step": step}}


def result_of(out: Path, *attacks, mechanism=NOISELESS) -> Result:
    (spec,) = runs(mechanism, attacks=list(attacks))
    return execute(spec, Execution(out, "cpu", keep_release=False))


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("runs")
    return out, result_of(out, failing("index"), *ATTACKS, mechanism=USER_DP)


def test_all_else_of_the_run_stays(failed_run, tmp_path) -> None:
    out, result = failed_run
    alone = result_of(tmp_path, *ATTACKS, mechanism=USER_DP)
    assert (result.status, result.error) == ("finished", None)
    for field in ("utility", "guarantees", "events", "leakage", "details", "skipped_attacks"):
        assert getattr(result, field) == getattr(alone, field), field
    (failure,) = result.failed_attacks
    assert failure.name == "failing"
    assert failure.reason == "IndexError: list index out of range"
    assert "failing_attacks.py" in failure.traceback
    assert read_result(out / result.id / "result.json") == result
    assert alone.failed_attacks == ()
    assert "failed_attacks" not in (tmp_path / alone.id / "result.json").read_text()
    assert "failed_attacks" in result.diagnostics["simulation_only"]  # it may quote private text


@pytest.mark.parametrize(
    ("way", "step", "reason"),
    [
        ("input", "run", "there is no test row"),
        ("no-message", "run", "AssertionError"),
        ("index", "refuse", "IndexError:"),
        ("half-character", "run", r"OSError: cannot read \udcff.txt"),
        ("long", "run", "ValueError: xxx"),
        ("nothing", "run", "TypeError:"),
        ("text", "run", "ValueError: metrics"),
        ("object", "run", "ValueError: details"),
        ("bound", "run", "ValueError: lower_bounds"),
    ],
)
def test_every_way_to_fail_is_the_attack_s_alone(tmp_path, way, step, reason) -> None:
    result = result_of(tmp_path, failing(way, step))
    assert result.status == "finished" and result.utility
    (failure,) = result.failed_attacks
    assert failure.reason.startswith(reason)
    assert read_result(tmp_path / result.id / "result.json") == result


@pytest.mark.parametrize("way", ["memory", "privacy", "exit", "deep", "large"])
def test_what_no_attack_is_to_blame_for_fails_the_run(tmp_path, way) -> None:
    result = result_of(tmp_path, failing(way))
    phase = "account" if way in ("deep", "large") else "attack"
    assert (result.status, result.error.phase) == ("failed", phase)
    assert read_result(tmp_path / result.id / "result.json") == result


def test_ctrl_c_in_an_attack_ends_the_benchmark(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        result_of(tmp_path, failing("interrupt"))
    assert not list(tmp_path.glob("*/result.json"))


@pytest.mark.parametrize("step", ["plant", "judge-plan"])
def test_an_attack_that_fails_before_training_is_refused_there(tmp_path, step) -> None:
    with pytest.raises(InputError, match=r"failing .*IndexError.*line \d+"):
        jobs_of(runs(NOISELESS, attacks=[failing("index", step)]), tmp_path)
    assert not list(tmp_path.iterdir())


def test_memory_errors_of_planting_are_no_bad_input(tmp_path) -> None:
    with pytest.raises(MemoryError):
        jobs_of(runs(NOISELESS, attacks=[failing("memory", "plant")]), tmp_path)


def test_the_same_command_says_it_again_and_repeats_nothing(tmp_path, capsys) -> None:
    command = flags(tmp_path, "--mechanism", "noiseless", "--attack", "failing",
                    "--set", "mechanism.epochs=1")  # fmt: skip
    for rerun in (False, True):
        assert run_cli(command) == 1
        printed = capsys.readouterr()
        assert ("finished: noiseless, seed 1" in printed.err) is not rerun
        assert "IndexError" in printed.err
        assert "--retry-failed" in printed.err
        assert "noiseless" in printed.out
    assert run_cli([*command, "--retry-failed"]) == 1
    assert "finished: noiseless, seed 1" in capsys.readouterr().err


def test_only_asked_for_a_run_with_a_failed_attack_is_repeated(failed_run) -> None:
    out, result = failed_run
    (job,) = jobs_of([result.spec], out)
    assert job.done == result and not job.todo
    (again,) = resume([job], out, retry_failed=True)
    assert again.todo


def test_a_process_with_an_unforeseen_error_does_no_other_run(tmp_path) -> None:
    for way, fit in (("index", False), ("input", True)):
        (job,) = jobs_of(runs(NOISELESS, attacks=[failing(way)]), tmp_path)
        assert (
            Runs(Execution(tmp_path, "cpu", keep_release=False))(job, lambda progress: None) is fit
        )


@pytest.mark.parametrize("way", ["index", "input"])
def test_a_dry_run_prints_what_will_fail_and_exits_with_1(tmp_path, capsys, way) -> None:
    command = flags(tmp_path, "--mechanism", "noiseless", "--attack", "failing",
                    "--attack", "needs-published",
                    "--set", f"attack.failing.way={way}")  # fmt: skip
    assert run_cli([*command, "--dry-run"]) == 1
    printed = capsys.readouterr()
    assert "fails: noiseless:" in printed.out
    assert "skipped: noiseless:" in printed.out
    assert run_cli([*command, "--dry-run", "--json"]) == 1
    (setting,) = json.loads(capsys.readouterr().out)["settings"]
    assert len(setting["failures"]) == 1


def test_a_rehearsal_fails_where_the_mechanism_does(tmp_path) -> None:
    (spec,) = runs({"name": "spy-training", "params": {"does": "raise"}})
    rehearsed = rehearse(spec, tmp_path, "cpu", attacks=True)
    assert rehearsed.failures == ("train: RuntimeError: it broke on purpose",)


def test_boards_and_pages_tell_a_failure_from_a_skipped_attack(failed_run) -> None:
    _, result = failed_run
    (row,) = aggregate([result], {})
    assert [(one.name, one.traceback) for one in row.failed_attacks] == [("failing", "")]
    assert [one.name for one in row.skipped_attacks] == ["needs-published"]
    assert "IndexError" in to_json([row])
    lines = list(result_lines(result))
    assert any("IndexError" in line for line in lines)
    assert published(result).failed_attacks[0].traceback == ""


def test_validation_knows_attacks_that_failed(failed_run) -> None:
    _, result = failed_run
    named = FailedAttack(name="hold-out", type="IndexError", message="again")
    other = FailedAttack(name="other", type="IndexError", message="again")
    skipped = SkippedAttack(name="failing", reason="again")

    def wrong(**fields) -> list[str]:
        problems = check_consistency(result.model_copy(update=fields))
        return [one.where for one in problems if one.severity == "error"]

    assert wrong() == []
    assert wrong(failed_attacks=()) == ["leakage.failing"]
    failures = result.failed_attacks
    assert wrong(failed_attacks=(*failures, named)) == ["leakage.hold-out"]
    assert wrong(failed_attacks=(*failures, other)) == ["failed_attacks.1"]
    assert wrong(failed_attacks=failures * 2) == ["failed_attacks.1"]
    assert wrong(skipped_attacks=(*result.skipped_attacks, skipped)) == ["failed_attacks.0"]
