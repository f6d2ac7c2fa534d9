"""The code and the commands that pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, which names a function."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def site() -> dict[str, Any]:
    """The settings of the site."""
    return yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)  # type: ignore[no-any-return]  # noqa: S506


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


def smaller(command: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """A command as printed, but for these settings; in this process."""
    printed = list(command)
    for key in settings:
        for at in reversed(range(1, len(printed))):
            if printed[at - 1] == "--set" and printed[at].startswith(f"{key}="):
                del printed[at - 1 : at + 1]
    more = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [*printed, *more, "--workers", "0", "--no-tracking"]
