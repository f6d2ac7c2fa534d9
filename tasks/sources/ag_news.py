"""AG's corpus of news articles: news items with a topic, divided among simulated users."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, InputError, IntArray, Source, SourceParams
from uedp_bench.api.text import (
    DetectionParams,
    SplitParams,
    add_entities,
    cut_missing_splits,
    open_text,
)
from uedp_bench.data.text_files import Dialect, read_records
from uedp_bench.randomness import shared_stream
from uedp_bench.tasks.sources.reading.files import (
    find_file,
    find_optional,
    object_with,
    require_path,
)
from uedp_bench.tasks.sources.reading.splits import TRAIN

LABELS: tuple[str, ...] = ("World", "Sports", "Business", "Sci/Tech")
_TRAIN = ("train.csv", "train.jsonl", "train*.csv", "train*.jsonl")
_TEST = ("test.csv", "test.jsonl", "test*.csv", "test*.jsonl")
# Character references that lost their ampersand: "it #39;s".
_BROKEN_REFERENCE = re.compile(r" ?#(\d{2,5});")

Item = tuple[int, str]
"""Class from 1 to 4, and text."""


class AGNewsParams(DetectionParams, SplitParams, SourceParams):
    """Files of the data, and simulation of users."""

    path: Path = Field(
        description="folder with train.csv and test.csv, or train*.jsonl and test*.jsonl (plain or "
        ".gz), or one such file"
    )
    sentences_mean: float = Field(default=15.0, ge=1, description="mean of a user's rows")
    sentences_std: float = Field(
        default=2.0, ge=0, description="standard deviation of a user's rows"
    )


DEALT = (
    "neighbours differ in whole simulated users: rows were dealt among them by place in the file"
)
"""Assumption of guarantees."""


class AGNews(Source[AGNewsParams]):
    r"""News items of four topics, as csv (class, title, description) or jsonl (label, text).

    A row is one news item, title and description joined by a space: the paper's 112,000
    "sentences" are of that size. Line breaks written as ``\`` and broken character references are
    repaired. There are no authors: the items of each file are shuffled and dealt to users, each of
    whom gets N(15, 2^2) of them, rounded, at least one (Appendix C). The parameter `seed` decides
    this, never a run's seed, so that the corpus is the same in all runs. Labels are the topics.
    """

    name: ClassVar[str] = "ag-news"
    title: ClassVar[str] = "AG News"
    source: ClassVar[str] = (
        "Zhang, Zhao and LeCun, Character-level Convolutional Networks for Text Classification, "
        "NIPS 2015; users as in Lai et al., User-Entity Differential Privacy, Appendix C"
    )
    Params = AGNewsParams

    def read(self) -> Corpus:
        """The corpus; splits without a file are cut off the training users.

        Raises:
            InputError: for a missing, malformed or empty file, and see `add_entities`.
        """
        items: list[Item] = []
        users: list[IntArray] = []
        split: list[IntArray] = []
        taken = 0
        for name, file in self._files().items():
            file_items = _read(file)
            dealt = self._deal(len(file_items), name)
            items += file_items
            users.append(taken + dealt)
            split.append(np.full(len(file_items), SPLITS.index(name), dtype=np.int64))
            taken += int(dealt.max()) + 1
        corpus = Corpus(
            texts=tuple(text for _, text in items),
            groups={"user": np.concatenate(users)},
            split=np.concatenate(split),
            labels=np.array([label - 1 for label, _ in items], dtype=np.int64),
            label_names=LABELS,
            quotas=(DEALT,),
        )
        return add_entities(cut_missing_splits(corpus, self.params, self.name), self.params)

    def _files(self) -> dict[str, Path]:
        path = require_path(self.params.path, self.name)
        if path.is_file():
            return {SPLITS[TRAIN]: path}
        files = {"train": find_file(path, _TRAIN, self.name)}
        test = find_optional(path, _TEST, self.name)
        return files if test is None else {**files, "test": test}

    def _deal(self, rows: int, split: str) -> IntArray:
        """(rows,) simulated user of each row of a file, from 0."""
        rng = np.random.Generator(
            np.random.PCG64(shared_stream(self.params.seed, "ag-news", split))
        )
        # As many users as would do if each had a single row: their rows always reach.
        sizes = rng.normal(self.params.sentences_mean, self.params.sentences_std, size=rows)
        ends = np.cumsum(np.maximum(1, np.rint(sizes)))
        user = np.searchsorted(ends, np.arange(rows), side="right").astype(np.int64)
        return user[rng.permutation(rows)]


def _read(file: Path) -> list[Item]:
    jsonl = file.name.removesuffix(".gz").endswith(("jsonl", "ndjson"))
    items = list(_jsonl_items(file) if jsonl else _csv_items(file))
    if not items:
        raise InputError(f"ag-news.path: {file} is empty: there is not one row")
    return items


def _csv_items(file: Path) -> Iterator[Item]:
    for line, row in read_records(file, "ag-news.path", Dialect(","), has_options=False):
        where = f"ag-news.path: {file}, line {line}"
        if len(row) != 3:
            raise InputError(f"{where}: {len(row)} fields, not class, title, description")
        yield _item(row[0], f"{row[1]} {row[2]}", where)


def _jsonl_items(file: Path) -> Iterator[Item]:
    with open_text(file, "ag-news.path") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"ag-news.path: {file}, line {number}"
            with object_with("label and text", where):
                record = json.loads(line)
                label, text = record["label"], record["text"]
            yield _item(str(label), text, where)


def _item(label: str, text: object, where: str) -> Item:
    if label not in {"1", "2", "3", "4"}:
        raise InputError(f"{where}: class {label!r} is not one of 1 to 4 ({', '.join(LABELS)})")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: the text is null or blank")
    return int(label), clean(text)


def clean(text: str) -> str:
    r"""The text with repaired character references, `\` as a space, and single spaces."""
    whole = html.unescape(_BROKEN_REFERENCE.sub(r"&#\1;", text))
    return " ".join(whole.replace("\\", " ").split())
