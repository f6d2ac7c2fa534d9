"""A changed plug-in is another component: its old numbers are not returned for the new code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import NOISELESS, flags, plugged, runs
from typer.testing import CliRunner

from uedp_bench.cli.main import app
from uedp_bench.components import registry
from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.validation.identity import check_identity
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.identity import component_identity, identity_parts

PLUGIN = """
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.components.registry import mechanisms


@mechanisms.register
class Mine(Noiseless):
    \"\"\"Trains without noise.\"\"\"

    name = "mine"
    factor = {factor}
"""
MINE = {"name": "mine", "params": {"epochs": 1}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN.format(factor=1))
    return path


def test_the_file_decides_the_id_and_its_place_does_not(file: Path, tmp_path: Path) -> None:
    def mine() -> tuple[object, str]:
        (spec,) = runs(MINE)
        parts = identity_parts(spec, "c")
        assert parts["mechanism"][0][0] == "mine"
        assert len(parts["mechanism"][0]) == 4
        return mechanisms.get("mine").factor, identity_of(parts)[0]

    with plugged(file):
        first, one = mine()
        file.write_text(PLUGIN.format(factor=2))
        registry.load_plugins([file])
        second, two = mine()
        file.write_text(PLUGIN.format(factor=1))
        registry.load_plugins([file])
        assert mine() == (1, one)
    assert (first, second) == (1, 2)
    assert one != two
    (tmp_path / "elsewhere").mkdir()
    moved = file.rename(tmp_path / "elsewhere" / "renamed.py")
    with plugged(moved):
        assert mine() == (1, one)


def test_packages_are_known_by_their_version_alone() -> None:
    (spec,) = runs(NOISELESS)
    assert len(component_identity(spec.mechanism[0], mechanisms)) == 3
    assert mechanisms.digest("noiseless") is None


def test_an_edited_plugin_runs_again(file: Path, tmp_path: Path) -> None:
    command = flags(
        tmp_path / "out", "--plugin", str(file), "--mechanism", "mine",
        "--set", "mechanism.epochs=1", "--json",
    )  # fmt: skip
    with plugged():
        for factor in (1, 1, 2):
            file.write_text(PLUGIN.format(factor=factor))
            done = CliRunner().invoke(app, command)
            assert done.exit_code == 0, done.output
    records = [json.loads(p.read_text()) for p in (tmp_path / "out").glob("*/result.json")]
    assert len(records) == 2
    digests = {each["provenance"]["identity"]["mechanism"][0][3] for each in records}
    assert len(digests) == 2


def test_validation_compares_the_file_that_it_is_given(file: Path, tmp_path: Path) -> None:
    def differences(result: Result) -> list[str]:
        problems = list(check_identity(result))
        assert all(problem.severity == "note" for problem in problems)
        return [problem.what for problem in problems]

    with plugged(file):
        (spec,) = runs(MINE)
        result = execute(spec, Execution(tmp_path / "out", "cpu", keep_release=False))
        assert result.error is None
        assert differences(result) == []
        file.write_text(PLUGIN.format(factor=2))
        registry.load_plugins([file])
        (what,) = differences(result)
        assert "digest" in what
        assert "compare" in what
    (what,) = differences(result)
    assert "mine" in what
    assert "--plugin" in what
