"""The code that the README shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def example(name: str) -> str:
    """The Python block of the README that is marked with a file name."""
    marked = rf"<!-- test: {re.escape(name)} -->\n```python\n(.*?)```"
    found = re.search(marked, (ROOT / "README.md").read_text(), re.S)
    assert found, name
    return found.group(1)
