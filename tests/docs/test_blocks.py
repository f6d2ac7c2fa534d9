"""Every `run` that a page shows stands for runs: names, settings and values are right.

Whole runs take minutes, or data that are not in the repository (commands name them: `--path`). So
they are planned as `uedp-bench run` plans them, up to where data are read. Tutorials and pages for
authors of components run in tests of their own.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from examples import ROOT, commands, examples
from tiny import plugged

from uedp_bench.cli import run as run_module
from uedp_bench.cli.main import run_cli
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [str(file.relative_to(ROOT)) for file in FILES]
NOT_THERE_YET = {
    "README.md": "mail.yaml",
    "CONTRIBUTING.md": "my-spec.yaml",
    "docs/attacks.md": "my-spec.yaml",
    "docs/run-on-more.md": "study.yaml",
    "docs/tutorials/audit-a-checkpoint.md": "planted/attack.yaml",
    "docs/tutorials/own-data.md": "chat.yaml",
}
"""Specs that a page leaves to its reader, or that a command before writes."""

SPEC = re.compile(r"^`(\S+\.yaml)`:\n\n```yaml\n(.*?)^```", re.M | re.S)
"""A spec that a page shows below its name."""

VARIABLE = re.compile(r"^([A-Z]\w*)='([^'\n]*)'$", re.M)


def runs(page: str) -> list[list[str]]:
    """The commands of a page that start runs, with shell variables filled in."""
    variables = dict(VARIABLE.findall((ROOT / page).read_text("utf-8")))
    filled = [
        [
            re.sub(r"\$([A-Z]\w*)", lambda name: variables.get(name[1], name[0]), part)
            for part in one
        ]
        for one in commands(page)
    ]
    return [one for one in filled if one[0] in ("run", "quickstart")]


SHOWN = {page: shown_commands for page in PAGES if (shown_commands := runs(page))}


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
            done, error_text = run_cli(command), capsys.readouterr().err
            if (own := NOT_THERE_YET.get(page)) and own in command:
                assert f"'{own}'" in error_text
                continue
            assert done == 0, (command, error_text)
            assert expand(parse_spec(seen.pop())), command


def test_runs_are_found_on_many_pages():
    assert len(SHOWN) > 40
    assert sum(map(len, SHOWN.values())) > 80


# ------------------------------------------------------------------------------------ Python blocks

HERE = re.compile(r"^ *python - <<'END'\n(.*?)^ *END$", re.M | re.S)
BLOCK = re.compile(r"(<!-- [^\n]* -->\n)?^ *```python\n(.*?)^ *```", re.M | re.S)
NOT_RUN = {
    "docs/mechanisms/dp-ftrl.md": "factorises for seconds; tests of the factorisation do as well",
}
"""Pages whose scripts take long, and why."""

IN_PART = {
    "docs/audits.md": "names lists of scores that the reader has",
    "docs/registry.md": "shows where the decorator stands",
    "docs/registry/checks.md": "imports the reader's own mechanism",
    "docs/registry/mechanism-that-trains.md": "shows a part of a mechanism",
}
"""Pages with a block that is no whole script, and why; what it imports is tested."""

TESTED = {
    "docs/python.md": "test_python_page.py",
    "docs/tutorials/audit-a-checkpoint.md": "test_audit_a_checkpoint_tutorial.py",
}
"""Pages whose scripts run in a test of their own."""

SCRIPTS = [
    (page, at, textwrap.dedent(code))
    for page in PAGES
    if page not in NOT_RUN
    for at, code in enumerate(
        [
            *HERE.findall((ROOT / page).read_text("utf-8")),
            *(
                code
                for marked, code in BLOCK.findall((ROOT / page).read_text("utf-8"))
                if not marked and page not in IN_PART and page not in TESTED
            ),
        ]
    )
]


@pytest.mark.long
@pytest.mark.parametrize(("page", "at", "code"), SCRIPTS, ids=[f"{p}-{n}" for p, n, _ in SCRIPTS])
def test_a_script_prints_numbers_that_its_page_has(page, at, code, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    with plugged():  # what a script registers is gone after it
        exec(compile(code, page, "exec"), {"__name__": page})  # noqa: S102
    printed = re.findall(r"\d+\.\d+", capsys.readouterr().out)
    numbers = re.findall(r"\d+\.\d+", (ROOT / page).read_text("utf-8"))
    assert [number for number in printed if not any(rounds(number, text) for text in numbers)] == []


def rounds(number: str, text: str) -> bool:
    """True if what a page says is the number, or its first three digits or more."""
    places = len(text.partition(".")[2])
    return number == text or (places >= 3 and f"{float(number):.{places}f}" == text)


def test_each_page_that_is_left_out_has_such_a_block():
    assert len(SCRIPTS) >= 8
    for page in (*NOT_RUN, *IN_PART, *TESTED):
        text = (ROOT / page).read_text("utf-8")
        assert page not in TESTED or (Path(__file__).parent / TESTED[page]).exists()
        assert HERE.search(text) or BLOCK.search(text), f"{page} has no script any more"
