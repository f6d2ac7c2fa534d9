"""Files of data sets that nobody means well."""

from __future__ import annotations

from pathlib import Path

import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError

NESTED = "[" * 200_000 + "\n"
FILES = {
    "ag-news": "train.jsonl",
    "blog-authorship": "blogs.jsonl",
    "ubuntu-irc": "train.raw.jsonl",
}


@pytest.mark.parametrize("source", FILES)
def test_json_that_is_nested_too_deep_is_refused_with_its_line(source: str, tmp_path: Path) -> None:
    for name in {FILES[source], "dev.raw.jsonl", "test.raw.jsonl"}:
        (tmp_path / name).write_text(NESTED)
    with pytest.raises(InputError, match=rf"{source}\.path.* line 1"):
        sources.create(source, {"path": tmp_path}).read()
