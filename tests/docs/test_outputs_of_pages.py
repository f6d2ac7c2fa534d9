"""The files that pages show are read, and the commands print what the pages say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from examples import ROOT

from uedp_bench.cli.main import run_cli

FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", re.S)
PRINTS = re.compile(r"<!-- prints(, with data)? -->\n```\n\$ uedp-bench (.*?[^\\])\n(.*?)```", re.S)
EXAMPLES = [
    pytest.param(page, *match.groups(), id=f"{page}-{at}", marks=marks)
    for page, marks in (("data", ()), ("annotation", pytest.mark.long))
    for at, match in enumerate(PRINTS.finditer((ROOT / "docs" / f"{page}.md").read_text()))
]


def test_the_pages_have_examples() -> None:
    assert [(*one.values[:1], bool(one.values[1])) for one in EXAMPLES] == [
        *(("data", False), ("data", False)),
        *(("annotation", False), ("annotation", False), ("annotation", True)),
    ]


@pytest.mark.parametrize(("page", "data", "command", "output"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(
    page, data, command, output, tmp_path, monkeypatch, capsys, request
) -> None:
    monkeypatch.chdir(tmp_path)
    if data:
        Path("data").symlink_to(request.getfixturevalue("shared_data"))
    for name, text in FILE.findall((ROOT / "docs" / f"{page}.md").read_text()):
        Path(name).write_text(text)
    assert run_cli(shlex.split(command.replace("\\\n", " "))) == 0
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    missing = [line for line in output.splitlines() if line.rstrip() not in shown]
    assert not missing
