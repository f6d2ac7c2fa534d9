"""The code and the commands that pages show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def example(name: str, page: str = "README.md") -> str:
    """The Python block of a page that is marked with a file name."""
    marked = rf"<!-- test: {re.escape(name)} -->\n```python\n(.*?)```"
    block = re.search(marked, (ROOT / page).read_text(), re.S)
    assert block, name
    return block.group(1)


def examples(page: str) -> dict[str, str]:
    """All Python blocks of a page that are marked with a file name."""
    names = re.findall(r"<!-- test: (\S+\.py) -->\n```python\n", (ROOT / page).read_text())
    return {name: example(name, page) for name in names}


def commands(*pages: str) -> list[list[str]]:
    """Arguments of every `uedp-bench` line in the shell blocks of some pages, in order."""
    text = "\n".join((ROOT / page).read_text() for page in pages)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    lines = "\n".join(block for language, block in blocks if language in ("", "sh"))
    shown = re.findall(r"^uedp-bench .*", lines.replace("\\\n", " "), re.M)
    return [shlex.split(line, comments=True)[1:] for line in shown]
