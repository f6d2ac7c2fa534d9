"""Every `run` that a page shows stands for runs: names, settings and values are right.

Whole runs take minutes, or data that are not in the repository (commands name them: `--path`). So
they are planned as `uedp-bench run` plans them, up to where data are read. Tutorials and pages for
authors of components run in tests of their own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from examples import ROOT, commands, examples
from tiny import plugged

from uedp_bench.cli import run as run_module
from uedp_bench.cli.main import run_cli
from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec

FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [str(file.relative_to(ROOT)) for file in FILES]
OF_THE_READER = {"CONTRIBUTING.md": "my-spec.yaml", "docs/tutorials/own-data.md": "chat.yaml"}
"""Specs that a page leaves to its reader."""

SPEC = re.compile(r"^`(\S+\.yaml)`:\n\n```yaml\n(.*?)^```", re.M | re.S)
"""A spec that a page shows below its name."""

VARIABLE = re.compile(r"^([A-Z]\w*)='([^'\n]*)'$", re.M)


def runs(page: str) -> list[list[str]]:
    """The commands of a page that start runs, with shell variables filled in."""
    given = dict(VARIABLE.findall((ROOT / page).read_text("utf-8")))
    filled = [
        [re.sub(r"\$([A-Z]\w*)", lambda name: given.get(name[1], name[0]), part) for part in one]
        for one in commands(page)
    ]
    return [one for one in filled if one[0] in ("run", "quickstart")]


SHOWN = {page: found for page in PAGES if (found := runs(page))}


@pytest.mark.parametrize("page", SHOWN)
def test_every_run_that_a_page_shows_can_be_planned(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(run_module, "benchmark", lambda data, *_: seen.append(data))
    files = examples(page) | (examples("README.md") if page == "docs/registry.md" else {})
    files |= dict(SPEC.findall((ROOT / page).read_text("utf-8")))
    plugins = [Path(name) for name, code in files.items() if ".register" in code]
    for name, code in files.items():
        Path(name).write_text(code)
    with plugged(*plugins):
        for command in SHOWN[page]:
            done, said = run_cli(command), capsys.readouterr().err
            if (own := OF_THE_READER.get(page)) and own in command:
                assert f"no spec '{own}'" in said
                continue
            assert done == 0, (command, said)
            assert expand(parse_spec(seen.pop())), command


def test_runs_are_found_on_many_pages():
    assert len(SHOWN) > 40
    assert sum(map(len, SHOWN.values())) > 80
