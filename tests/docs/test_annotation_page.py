"""What the page on annotation shows is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from examples import ROOT

from uedp_bench.cli.main import run_cli

PAGE = (ROOT / "docs" / "annotation.md").read_text()
PRINTS = re.findall(
    r"<!-- prints(, with data)? -->\n```\n\$ uedp-bench (.*?[^\\])\n(.*?)```", PAGE, re.S
)


def test_the_page_has_examples() -> None:
    assert [bool(data) for data, *_ in PRINTS] == [False, False, True]


@pytest.mark.long
@pytest.mark.parametrize("at", range(len(PRINTS)), ids=["letters", "biographies", "court cases"])
def test_an_example_prints_what_the_page_shows(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, request
) -> None:
    data, command, output = PRINTS[at]
    monkeypatch.chdir(tmp_path)
    if data:
        Path("data").symlink_to(request.getfixturevalue("shared_data"))
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", PAGE, re.S):
        Path(name).write_text(text)
    assert run_cli(shlex.split(command.replace("\\\n", " "))) == 0
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    missing = [line for line in output.splitlines() if line.rstrip() not in shown]
    assert not missing
