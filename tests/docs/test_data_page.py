"""The files that the page on data shows are read, and print what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from examples import ROOT

from uedp_bench.cli.main import run_cli

PAGE = (ROOT / "docs" / "data.md").read_text()
PRINTS = re.findall(r"<!-- prints -->\n```\n\$ uedp-bench (.*?[^\\])\n(.*?)```", PAGE, re.S)


def test_the_page_has_examples() -> None:
    assert len(PRINTS) == 2


@pytest.mark.parametrize(("command", "output"), PRINTS, ids=["letters", "news"])
def test_an_example_prints_what_the_page_shows(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", PAGE, re.S):
        Path(name).write_text(text)
    assert run_cli(shlex.split(command.replace("\\\n", " "))) == 0
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    missing = [line for line in output.splitlines() if line.rstrip() not in shown]
    assert not missing
