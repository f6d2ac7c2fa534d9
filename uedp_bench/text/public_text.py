"""Sentences of files of public text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from uedp_bench.errors import InputError
from uedp_bench.io.text_files import open_text
from uedp_bench.text.simple_sentences import simple_sentences

_LINE_BREAKS = re.compile(r"<br\s*/?>")


def read_public(files: tuple[Path, ...], room: int | None = None) -> list[str]:
    """Sentences of all files in order, at most `room`; every file must hold one.

    A file has a sentence a line; of a jsonl file, each line is an object whose `text` is split into
    sentences (`simple_sentences`; `<br />` counts as space).

    Raises:
        InputError: for a file that is missing, unreadable or without a sentence, or a line of a
            jsonl file without a text.
    """
    texts: list[str] = []
    for path in files:
        with open_text(path, "public") as lines:
            jsonl = path.name.removesuffix(".gz").endswith(".jsonl")
            sentences = _of_records(lines, path) if jsonl else _sentences(lines)
            first = next(sentences, None)
            if first is None:
                raise InputError(f"public: {path} holds no sentence")
            left = None if room is None else room - len(texts)
            texts += islice(chain([first], sentences), left)
    return texts


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    """Lines with single spaces; blank ones and WikiText headings (` = = Title = = `) are left out.

    A heading is a line that starts and ends with an equals sign.
    """
    for raw in lines:
        line = " ".join(raw.split())
        if line and not (line[0] == "=" == line[-1]):
            yield line


def _of_records(lines: Iterable[str], path: Path) -> Iterator[str]:
    """Sentences of the `text` of each line's object."""
    for number, line in enumerate(lines, start=1):
        try:
            text = json.loads(line)["text"]
            words = _LINE_BREAKS.sub(" ", text).split()
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"public: {path}, line {number} is not an object with a text: {error!r}"
            ) from None
        yield from simple_sentences(" ".join(words))
