"""Attacks that cannot apply are named before anything is trained, and only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny import NOISELESS, USER_DP, flags, plugged, runs
from typer.testing import CliRunner

from uedp_bench.cli.main import app
from uedp_bench.components.registry import tasks
from uedp_bench.contracts.capabilities import RowScorer
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.one_run.components import build
from uedp_bench.one_run.planting import expected, impossible_pairs, left_out
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

BILSTM = {"name": "bilstm", "params": {"vocabulary_size": 200, "units": 8}}
METRIC = {"name": "metric-dp", "params": {"epsilon": 5.0}}


def lines(*mechanisms: Any, attacks: list[str], **more: Any) -> list[str]:
    return said_of(runs(*mechanisms, attacks=attacks, **more))


def said_of(specs: list[Any]) -> list[str]:
    return list(impossible_pairs((spec, left_out(build(spec))) for spec in specs))


def test_what_nobody_publishes_cannot_be_linked() -> None:
    assert lines(USER_DP, NOISELESS, attacks=["reidentify", "secret-sharer"]) == [
        "reidentify needs a release that is a Published: left out of runs of user-dp, noiseless"
    ]
    assert not lines(["deidentify", NOISELESS], attacks=["reidentify"])


def test_a_classifier_completes_no_text_and_a_language_model_has_no_representation() -> None:
    classes = {"task": "text-classification", "model": BILSTM}
    (line,) = lines(NOISELESS, attacks=["secret-sharer", "membership", "audit"], **classes)
    assert line.startswith("secret-sharer")
    (line,) = lines(NOISELESS, attacks=["attribute-inference", "membership", "audit"])
    assert line.startswith("attribute-inference")


def test_where_a_mechanism_serves_or_a_task_says_nothing_nobody_knows(tmp_path: Path) -> None:
    classes = {"task": "text-classification", "model": BILSTM}
    assert not lines({"name": "dpnr", "params": {"epsilon": 1}}, attacks=["reidentify"], **classes)
    with plugged(Path(__file__).parents[1] / "support" / "rated_text.py"):
        assert not lines(NOISELESS, attacks=["reidentify"], task="rated-text", model="none")
        capabilities = expected(tasks.create("rated-text", {}))
        assert [kind.__name__ for kind in capabilities] == ["Rater", "RowScorer"]
    assert expected(tasks.create("word-substitution", {})) == ()


@pytest.mark.parametrize("task", ["next-word", "text-classification"])
def test_a_task_releases_what_it_says(task: str, tmp_path: Path) -> None:
    more = {} if task == "next-word" else {"task": task, "model": BILSTM}
    attacks = ["reidentify", "attribute-inference" if task == "next-word" else "secret-sharer"]
    (spec,) = runs(NOISELESS, attacks=attacks, **more)
    result = execute(spec, Execution(tmp_path, "cpu"))
    assert result.error is None, result.error
    skipped = {one.name for one in result.skipped_attacks}
    assert len(skipped) == 2
    assert skipped == {line.split()[0] for line in said_of([spec])}
    loaded = build(spec).task.load(tmp_path / result.id / "release")
    assert all(isinstance(loaded, kind) for kind in type(build(spec).task).releases)
    assert isinstance(loaded, RowScorer)


def test_the_command_says_so_before_it_trains(tmp_path: Path) -> None:
    more = ["--mechanism", "noiseless", "--set", "mechanism.epochs=1", "--attack", "reidentify"]
    outcome = CliRunner().invoke(app, flags(tmp_path, *more))
    assert outcome.exit_code == 0, outcome.output
    assert "note: reidentify" in outcome.output


@pytest.mark.parametrize("name", ["user-dp", "fedavg"])
def test_no_update_of_a_user_is_there_to_replace_where_clients_take_part(
    tmp_path: Path, name: str
) -> None:
    params = {"rounds": 1, "users_per_round": 3, "unit": ["user", "client"]}
    audit = {"name": "audit", "params": {"canary": "update", "canaries": 20}}
    specs = runs({"name": name, "params": params}, attacks=[audit], clients={"count": 4})
    of_users, of_clients = jobs_of(specs, tmp_path)
    assert of_users.left_out == ()
    (reason,) = of_clients.left_out
    assert reason.startswith("audit.canary is 'update'")
    if name == "user-dp":
        result = execute(of_clients.spec, Execution(tmp_path, "cpu"))
        (skipped,) = result.skipped_attacks
        assert skipped.reason == reason
