"""Scripts and the manifest of the page on clusters hold commands that this package knows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from examples import ROOT
from tiny import tiny

from uedp_bench.cli import run as run_module
from uedp_bench.cli.main import run_cli

PAGE = (ROOT / "docs" / "run-on-more.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.S | re.M)
FILLED = {
    "$SLURM_ARRAY_TASK_ID": "3",
    "$SLURM_ARRAY_TASK_COUNT": "8",
    "$((JOB_COMPLETION_INDEX + 1))": "8",
    "$JOB_COMPLETION_INDEX": "7",
    "/study/study.yaml": "study.yaml",
}


def _manifests():
    return [yaml.safe_load(text) for language, text in BLOCKS if language == "yaml"]


def _scripts():
    (job,) = _manifests()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    lines = [text for language, text in BLOCKS if language in ("bash", "sh")]
    return [*lines, *container["args"]]


def _commands():
    """Arguments of every `run` in scripts and manifests, with variables filled in."""
    commands = []
    for script in _scripts():
        text = script.replace("\\\n", " ")
        for one in re.findall(r"(?:uedp-bench|-m uedp_bench) (run [^\n']*)", text):
            for name, value in FILLED.items():
                one = one.replace(name, value)
            commands.append(shlex.split(one))
    return commands


COMMANDS = _commands()


def test_the_page_has_commands():
    assert len(COMMANDS) >= 8
    assert {"--share", "--tracking-uri", "--on"} <= {word for one in COMMANDS for word in one}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: " ".join(one[2:])[:60])
def test_a_command_of_a_script_can_be_planned(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(yaml.safe_dump(tiny()))
    seen = []
    monkeypatch.setattr(run_module, "benchmark", lambda data, options, *_: seen.append(options))
    assert run_cli(command) == 0, capsys.readouterr().err
    (options,) = seen
    assert (options.share is not None) == ("--share" in command)
