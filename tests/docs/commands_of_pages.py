"""Every command that a page shows and that trains nothing runs as printed.

It takes minutes, so that the suite leaves it out and `.ci/run` calls it:
`pytest tests/docs/commands_of_pages.py`. Commands that train are planned by `test_blocks.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from examples import ROOT, commands, examples
from tiny import plugged

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import write_result
from uedp_bench.leaderboard.loading import load_results

FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [str(file.relative_to(ROOT)) for file in FILES]
TRAIN = ("run", "quickstart")
OWN_TEST = {
    "docs/tutorials/audit-a-checkpoint.md": "test_audit_a_checkpoint_tutorial.py",
    "docs/tutorials/own-data.md": "test_own_data_tutorial.py",
}
"""Pages whose commands need each other, and the tests that run them in order."""

REASONS = {
    "data/": "needs a public data set that is not part of the repository",
    "contracts.jsonl": "is made from a public data set that is not part of the repository",
    "glove": "needs word vectors that are not part of the repository",
    "in.txt": "reads scores that the reader has",
    "reviews.csv": "reads a file that the reader has",
    "privacy.yaml": "reads a file that the reader has",
    "mail.parquet": "reads a file that the reader has",
    "NAME": "names a folder of the reader",
    "/ID/": "names a folder of the reader",
    "runs/study": "names a folder of the reader",
    "example.org": "names a server of the reader",
    "serve": "serves until it is stopped",
}
"""Parts of commands that cannot run here, and why."""

STORED = {
    "runs/quickstart": "quickstart",
    "runs/bloggers": "bloggers",
    "runs/conll2003": "conll2003",
    "runs/tagging-conll2003": "tagging",
}
"""Folders that runs on the pages write, and the stored results that stand for them."""


def reason(page: str, command: list[str]) -> str:
    """Why a command is not run; empty if it is."""
    if page in OWN_TEST:
        return f"runs in {OWN_TEST[page]}"
    reasons = [why for part, why in REASONS.items() if any(part in word for word in command)]
    return reasons[0] if reasons else ""


SHOWN = [(page, command) for page in PAGES for command in commands(page) if command[0] not in TRAIN]
JSON = re.compile(r"^`(\S+\.json)`:\n\n```json\n(.*?)^```", re.M | re.S)
"""A file that a page shows below its name."""

LEFT_OUT = [(page, command) for page, command in SHOWN if reason(page, command)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Holds what commands before would have written, and a file of the reader's."""
    for name, stored in STORED.items():
        for result in load_results([ROOT / "leaderboard" / "results" / stored]):
            file = tmp_path / name / result.id / "result.json"
            file.parent.mkdir(parents=True)
            write_result(result, file)
    (tmp_path / "leaderboard").symlink_to(ROOT / "leaderboard")
    words = [a + b for a in ("rain", "snow", "wind") for b in "abcdefghijklmnopqrst"]
    rows = [
        f"person{at % 20},Number {at} tells {words[at % 59]} of {words[at % 53]}."
        for at in range(400)
    ]
    (tmp_path / "mail.csv").write_text("\n".join(["author,body", *rows]) + "\n", encoding="utf-8")
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", dict(SHOWN))
def test_commands_run_as_printed(
    page: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [one for one in commands(page) if one[0] not in TRAIN and not reason(page, one)]
    for command in [one for one in shown if one[0] == "new"]:  # before the page fills the file
        assert run_cli(command) == 0, capsys.readouterr().err
    files = examples(page) | (examples("README.md") if page == "docs/registry.md" else {})
    files |= dict(JSON.findall((ROOT / page).read_text("utf-8")))
    for name, code in files.items():
        (folder / name).write_text(code, encoding="utf-8")
    with plugged(*(folder / name for name, code in files.items() if ".register" in code)):
        for command in [one for one in shown if one[0] != "new"]:
            done, printed = run_cli(command), capsys.readouterr()
            assert done == 0, (command, printed.err)
            assert printed.out or printed.err, command


def test_few_commands_are_left_out() -> None:
    assert len(SHOWN) > 60
    assert len(LEFT_OUT) < len(SHOWN) / 4, LEFT_OUT
