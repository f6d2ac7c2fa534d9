"""The German-English data of Kim et al. 2021: EMEA, GNOME and JRC, split by documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import SPLITS, Corpus, InputError, IntArray, Source, SourceParams, equals
from uedp_bench.api.text import open_text
from uedp_bench.io.files import shown_path
from uedp_bench.tasks.sources.reading.files import (
    find_file,
    object_with,
    parallel_corpus,
    read_pairs,
)
from uedp_bench.text.comparison import Pair

Domain = Literal["EMEA", "GNOME", "JRC"]

_DOMAINS: tuple[Domain, ...] = ("EMEA", "GNOME", "JRC")
_SPLITS = ("train", "valid", "test")
ALIGNED = "neighbours have the same document for every row: it was inferred from the rows around it"
"""Assumption of guarantees."""

_UNDOCUMENTED: tuple[Domain, ...] = ("JRC",)
_SWITCH = 0.5
"""Cost of a new document, in rows whose pair a document does not have."""


class NMTConfidentialParams(SourceParams):
    """Folder of the data, and the parts that are used."""

    path: Path = Field(
        description="folder with full_sent_datasets/DOMAIN/{train,valid,test}.{de,en} and "
        "original_documents/DOMAIN.jsonl (plain or .gz), as the authors publish them"
    )
    domain: Domain = Field(default="EMEA", description="texts that are private")
    general: tuple[Domain, ...] | Literal["others"] = Field(
        default=(),
        description="other domains whose training pairs become the split 'public': vocabulary, "
        "pre-training and lexicon come from them; 'others' takes all but the private one",
    )
    clean: bool = Field(
        default=True,
        description="leave out pairs of any split whose translation contains the whole text: in "
        "JRC the English side often is the German sentence followed by its translation. "
        "`uedp-bench data describe` counts them",
    )
    max_words: int | None = Field(
        default=None,
        ge=1,
        exclude_if=equals(None),
        description="leave out pairs of any split whose German text has more words than this; all "
        "stay by default",
    )

    @model_validator(mode="after")
    def _others_are_general(self) -> Self:
        if self.domain in self.general:
            raise ValueError(f"general: {self.domain} is the domain whose texts are private")
        return self


class NMTConfidential(Source[NMTConfidentialParams]):
    """Sentences of medicine leaflets, software manuals and law, German to English.

    A user is a document: EMEA has 42, GNOME 369, some of them empty, and JRC has none, so that only
    records can be protected there. The authors do not say which line is of which document.
    Documents stand in the order of the lines, of train, valid and test: a row is of the document in
    an order that never goes back which leaves the fewest rows whose pair their document lacks.
    """

    name: ClassVar[str] = "nmt-confidential"
    title: ClassVar[str] = "EMEA, JRC and software manuals"
    source: ClassVar[str] = (
        "Kim, Bisazza and Turkmen 2021, Using Confidential Data for Domain Adaptation of Neural "
        "Machine Translation, section 4"
    )
    Params = NMTConfidentialParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test, and public where asked for.

        Raises:
            InputError: for a missing or malformed file.
        """
        p, parameter = self.params, f"{self.name}.path"
        by_split = [self._pairs(p.domain, split) for split in _SPLITS]
        users = self._documents(by_split)
        others = tuple(one for one in _DOMAINS if one != p.domain)
        domains = others if p.general == "others" else p.general
        general = [pair for domain in domains for pair in self._pairs(domain, "train")]
        split = [SPLITS.index(s) for s, rows in zip(_SPLITS, by_split, strict=True) for _ in rows]
        public = [SPLITS.index("public")] * len(general)
        pairs = [*(pair for rows in by_split for pair in rows), *general]
        rows = [*zip(pairs, [*split, *public], [*users, *[-1] * len(general)], strict=True)]
        if p.max_words is not None:
            rows = [row for row in rows if len(row[0][0].split()) <= p.max_words]
        corpus = parallel_corpus(
            [pair for pair, _, _ in rows],
            [number for _, number, _ in rows],
            [document for _, _, document in rows],
            parameter,
            clean=p.clean,
        )
        return replace(corpus, quotas=(ALIGNED,)) if p.domain not in _UNDOCUMENTED else corpus

    def _pairs(self, domain: Domain, split: str) -> list[Pair]:
        folder, parameter = self.params.path / "full_sent_datasets" / domain, f"{self.name}.path"
        sides = [find_file(folder, (f"{split}.{end}",), self.name) for end in ("de", "en")]
        return read_pairs(sides[0], sides[1], parameter)

    def _documents(self, by_split: Sequence[Sequence[Pair]]) -> list[int]:
        """The document of each row, -1 where the domain has none."""
        if self.params.domain in _UNDOCUMENTED:
            return [-1] * sum(len(rows) for rows in by_split)
        folder = self.params.path / "original_documents"
        file = find_file(folder, (f"{self.params.domain}.jsonl",), self.name)
        documents = list[set[Pair]]()
        where = f"{self.name}.path: {shown_path(file)}"
        with open_text(file, f"{self.name}.path") as lines:
            for number, line in enumerate(lines, start=1):
                with object_with("the texts 'de' and 'en'", f"{where}, line {number}"):
                    record = json.loads(line)
                    sides = [record[side].split("\n") for side in ("de", "en")]
                clean = [[" ".join(text.split()) for text in side] for side in sides]
                documents.append({*zip(*clean, strict=False)})
        try:
            return documents_of_rows(by_split, documents)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def documents_of_rows(
    by_split: Sequence[Sequence[Pair]], documents: Sequence[set[Pair]]
) -> list[int]:
    """The document of each row, in an order that never goes back; no document is in two splits.

    Args:
        by_split: pairs of each split, in order.
        documents: pairs of each document, in the order in which rows have them.

    Raises:
        InputError: if there are fewer documents than splits with rows.
    """
    of_pair: dict[Pair, list[int]] = {}
    for number, pairs in enumerate(documents):
        for pair in pairs:
            of_pair.setdefault(pair, []).append(number)
    some = [rows for rows in by_split if rows]
    if len(documents) < len(some):
        raise InputError(f"{len(documents)} documents cannot be those of {len(some)} splits")
    count = len(documents)
    # cost[d]: rows so far that their document lacks, if the last row is of document d.
    cost, came = np.zeros(count), list[IntArray]()
    for rows in some:
        for place, pair in enumerate(rows):
            before = np.full(count, np.inf)  # the best of the earlier documents
            earlier = np.minimum.accumulate(cost)[:-1]
            before[1:] = earlier + _SWITCH
            first = np.zeros(count, dtype=np.int64)
            # The last document with the least cost: rows between two are of the later one.
            running = np.where(cost[:-1] <= earlier, np.arange(count - 1), 0)
            first[1:] = np.maximum.accumulate(running)
            stay = np.full(count, np.inf) if place == 0 and came else cost
            came.append(np.where(stay <= before, np.arange(count), first))
            cost = np.minimum(stay, before) + 1.0
            cost[of_pair.get(pair, [])] -= 1.0
    row_of: list[int] = []
    current = int(cost.argmin())
    for step in reversed(came):
        row_of.append(current)
        current = int(step[current])
    return row_of[::-1]
