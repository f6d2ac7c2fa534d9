"""The AG news items of the DPNR paper, with the persons that they mention as private attributes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, CorpusStats, InputError, Source, SourceParams
from uedp_bench.api.text import DetectionParams, add_entities, open_text
from uedp_bench.corpus import with_lone_rows
from uedp_bench.tasks.sources.ag_news import clean
from uedp_bench.tasks.sources.reading.files import find_file, require_path

LABELS: tuple[str, ...] = ("0", "1", "2", "3")
PERSONS: tuple[str, ...] = ("bush", "kerry", "arafat", "blair", "sharon")
PRESENCE: tuple[str, ...] = ("absent", "present")
BLOCKS: tuple[str, ...] = ("train", "valid", "test")

_ROWS = 11_657


class DPNLPAGParams(DetectionParams, SourceParams):
    """File of the data."""

    path: Path = Field(
        description="folder with ag_data.txt (plain or .gz), or that file: label, text and ids of "
        "persons by tabs; three blocks (train, dev, test) with a line of '=' after each"
    )


class Item(NamedTuple):
    """One news item: its block, its label, its text and the ids of the persons in it."""

    block: int
    label: int
    text: str
    persons: tuple[int, ...]


class DPNLPAG(Source[DPNLPAGParams]):
    """News items of four topics that name at least one of the five most frequent persons.

    A row is an item and a user of its own: there are no authors. Its text has its references
    repaired and single spaces, as in `ag-news`. Topics are numbers, the file does not name them.
    The five private attributes say whether a person is mentioned (`absent`, `present`); ids 0 to 4
    of the file are bush, kerry, arafat, blair and sharon, the name that all items of an id contain.
    """

    name: ClassVar[str] = "dpnlp-ag"
    title: ClassVar[str] = "AG News with persons"
    source: ClassVar[str] = (
        "Lyu, He and Li, Differentially Private Representation for NLP: Formal Guarantee and An "
        "Empirical Study on Privacy and Fairness, Findings of EMNLP 2020, section 4.1"
    )
    Params = DPNLPAGParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test.

        Raises:
            InputError: for a missing or malformed file or an empty block, and see `add_entities`.
        """
        items = self._items()
        present = np.zeros((len(items), len(PERSONS)), dtype=np.int64)
        for row, item in enumerate(items):
            present[row, list(item.persons)] = 1
        corpus = Corpus(
            texts=tuple(item.text for item in items),
            groups={"user": np.arange(len(items), dtype=np.int64)},
            split=np.array([SPLITS.index(BLOCKS[item.block]) for item in items], dtype=np.int64),
            labels=np.array([item.label for item in items], dtype=np.int64),
            label_names=LABELS,
            attributes={name: present[:, at].copy() for at, name in enumerate(PERSONS)},
            attribute_names=dict.fromkeys(PERSONS, PRESENCE),
        )
        return add_entities(with_lone_rows(corpus), self.params)

    def documented(self) -> CorpusStats | None:
        """The published sizes, if the training block has them and no detector adds entities."""
        rows = sum(item.block == 0 for item in self._items())
        if rows != _ROWS or self.params.detector != "none":
            return None
        return CorpusStats(users=_ROWS, rows=_ROWS, sensitive_rows=0, entities=0, public=True)

    def _items(self) -> list[Item]:
        path = require_path(self.params.path, self.name)
        file = path if path.is_file() else find_file(path, ("ag_data.txt",), self.name)
        items = list(read_items(file))
        empty = [name for at, name in enumerate(BLOCKS) if all(i.block != at for i in items)]
        if empty:
            raise InputError(
                f"{self.name}.path: {file} has no item in the block {empty[0]}; blocks are train, "
                "dev and test with a line of '=' after each"
            )
        return items


def read_items(file: Path) -> Iterator[Item]:
    """Items of the file in order; blank lines are skipped.

    Raises:
        InputError: naming file and line, for a line without three fields, an unknown label or
            person, a blank text, or a fourth block.
    """
    block = 0
    with open_text(file, "dpnlp-ag.path", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            bare = line.strip()
            if bare and not bare.strip("="):
                block += 1
            elif bare:
                yield _item(block, line.rstrip("\r\n"), f"dpnlp-ag.path: {file}, line {number}")


def _item(block: int, line: str, where: str) -> Item:
    fields = line.split("\t")
    if block >= len(BLOCKS):
        raise InputError(f"{where}: text after the third block; there are {', '.join(BLOCKS)}")
    if len(fields) != 3:
        raise InputError(f"{where}: {len(fields)} fields by tabs, not label, text, persons")
    label, text, persons = fields
    if label not in LABELS:
        raise InputError(f"{where}: label {label!r} is not one of {', '.join(LABELS)}")
    numbers = {str(at) for at in range(len(PERSONS))}
    unknown = [person for person in persons.split() if person not in numbers]
    if unknown:
        raise InputError(f"{where}: person {unknown[0]!r} is not one of 0 to {len(PERSONS) - 1}")
    if not text.strip():
        raise InputError(f"{where}: the text is blank")
    return Item(block, LABELS.index(label), clean(text), tuple(map(int, persons.split())))
