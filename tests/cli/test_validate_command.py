"""`leaderboard validate`: what it prints, exit codes, and files that ask for too much."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from uedp_bench.cli.leaderboard import validate_command
from uedp_bench.components import registry
from uedp_bench.leaderboard.validate import Guard, check
from uedp_bench.leaderboard.validation.report import Report

HISTORIC = Path(__file__).parents[1] / "historic_results"
NOISELESS = HISTORIC / "v1-before-identity-noiseless.json"
USER_DP = HISTORIC / "v1-before-stages-user-dp.json"

app = typer.Typer()
app.command()(validate_command)


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_every_file_is_reported_and_errors_decide(tmp_path):
    bad = tmp_path / "result.json"
    data = json.loads(NOISELESS.read_text(encoding="utf-8"))
    data["utility"]["accuracy"]["value"] = 1.5
    bad.write_text(json.dumps(data))
    (tmp_path / "text.json").write_text("hello")
    done = run(NOISELESS, tmp_path, tmp_path / "text.json", tmp_path / "none.json", HISTORIC)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert f"{NOISELESS}: valid, 1 note" in lines
    assert any(line.startswith("  note  id: not checked") for line in lines)
    assert any(line.startswith(f"{bad}: ") and "errors" in line for line in lines)
    assert "  error utility.accuracy.value: 1.5 is above 1, the most that is possible" in lines
    assert lines[-1] == "5 results, 4 of them with errors"


def test_json():
    done = run(NOISELESS, "none.json", "--json")
    assert done.exit_code == 1
    first, second = json.loads(done.stdout)
    assert (first["path"], first["id"], first["valid"]) == (
        str(NOISELESS), "440662729864fede", True
    )  # fmt: skip
    assert {problem["severity"] for problem in first["problems"]} == {"note"}
    assert second == {
        "path": "none.json", "id": None, "valid": False,
        "problems": [{"where": "", "what": "there is no such file", "severity": "error"}],
        "told": [],
    }  # fmt: skip


def test_one_id_for_two_utilities_is_an_error(tmp_path):
    data = json.loads(NOISELESS.read_text(encoding="utf-8"))
    data["utility"]["macro_f1"]["value"] += 0.01
    twin = tmp_path / "twin.json"
    twin.write_text(json.dumps(data))
    alone, same, both = (run(*files) for files in ([twin], [NOISELESS] * 2, [NOISELESS, twin]))
    assert (alone.exit_code, same.exit_code, both.exit_code) == (0, 0, 1)
    assert f"{NOISELESS}" in both.output
    _, report = json.loads(run(NOISELESS, twin, "--json").stdout)
    assert [p["where"] for p in report["problems"] if p["severity"] == "error"] == ["id"]


def test_plug_ins_are_loaded_for_the_check(tmp_path, monkeypatch):
    monkeypatch.setattr(registry.mechanisms, "_plugins", dict(registry.mechanisms._plugins))
    plugin = tmp_path / "secret_sauce.py"
    plugin.write_text(
        "from uedp_bench.mechanisms.noiseless import Noiseless\n"
        "from uedp_bench.components.registry import mechanisms\n"
        "@mechanisms.register\n"
        "class Sauce(Noiseless):\n"
        '    """Another name."""\n'
        '    name = "secret-sauce"\n'
    )
    text = NOISELESS.read_text(encoding="utf-8").replace('"noiseless"', '"secret-sauce"')
    file = tmp_path / "sauce.json"
    file.write_text(text)
    without, loaded = run(file), run(file, "--plugin", plugin)
    assert "'secret-sauce'" in without.output and "'secret-sauce'" not in loaded.output
    assert run(file, "--plugin", tmp_path / "none.py").exit_code != 0


# ---------------------------------------------------------------------------- asking for too much


def _waits_or_ends(path: Path) -> Report:
    if path.name == "wait":
        time.sleep(60)
    if path.name == "end":
        os._exit(1)
    if path.name == "refuse":
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    return Report(path=str(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wait", "2 seconds"),
        ("end", "ended the process"),
        ("refuse", "ended the process"),
    ],
)
def test_a_check_that_does_not_come_back_is_a_report(name, message):
    with Guard(_waits_or_ends, seconds=2) as guarded:
        assert guarded(Path("a")).valid
        stopped = guarded(Path(name))
        assert message in stopped.problems[0].what
        assert not stopped.valid
        assert guarded(Path("b")).valid


@pytest.mark.parametrize("count", [10**9, 10**30])
def test_events_that_ask_for_more_than_there_is(tmp_path, count):
    data = json.loads(USER_DP.read_text(encoding="utf-8"))
    data["events"][0]["event"] |= {"count": count}
    data["events"][0]["event"]["event"] |= {"rate": 1e-9}
    file = tmp_path / "result.json"
    file.write_text(json.dumps(data))
    with Guard(check, seconds=3) as guarded:
        report = guarded(file)
    assert not report.valid
    assert all(problem.what.isprintable() for problem in report.problems)
