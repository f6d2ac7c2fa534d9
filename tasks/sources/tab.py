"""The Text Anonymization Benchmark: court cases with marks on what tells who they are about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import Corpus, Facts, InputError, Layer, Mention, Source, SourceParams, Spans
from uedp_bench.api.text import AnnotationParams, RecordTag, open_text
from uedp_bench.corpus import with_documents
from uedp_bench.errors import plain, shown
from uedp_bench.io.files import shown_path
from uedp_bench.tasks.sources.reading.files import find_file, require_path
from uedp_bench.tasks.sources.reading.splits import split_index

IDENTIFIERS = ("DIRECT", "QUASI", "NO_MASK")
"""Kinds of mentions: they tell who it is by themselves, together, or not at all."""
ENTITIES = IDENTIFIERS[:2]
TYPES: tuple[str, ...] = (
    "PERSON", "CODE", "LOC", "ORG", "DEM", "DATETIME", "QUANTITY", "MISC",
)  # fmt: skip
TAGS: dict[str, RecordTag] = {
    "PERSON": RecordTag(keys=("applicant",), kind="person"),
    "DATETIME": RecordTag(keys=("year",), kind="date"),
    "LOC": RecordTag(keys=("country",), kind="place"),
}
"""Facts of a case in the court's register."""

_FILES = ("tab*.jsonl", "echr*.jsonl", "echr*.json")
_PARAGRAPH = re.compile(r"\S(?:[^\n]*\S)?")  # a line with something on it, without space around it
_WORD = re.compile(r"\w")


class TABParams(SourceParams):
    """File of the data."""

    path: Path = Field(
        description="file of cases (plain or .gz), or a folder with files echr_train.json, "
        "echr_dev.json and echr_test.json or one tab*.jsonl: the benchmark's own JSON (a list of "
        "cases with annotations), or an object {text, entities, metadata} a line"
    )
    annotate: AnnotationParams | None = Field(
        default=AnnotationParams(tags=TAGS),
        description="how the layer 'automatic' is made from what the court's register knows: "
        "applicant, year and country (null: without it)",
    )


class Case(NamedTuple):
    """A case: its split, text, mentions (start, end, type, identifier) and metadata."""

    split: int
    text: str
    mentions: list[tuple[int, int, str, str]]
    facts: Facts


class TAB(Source[TABParams]):
    """Cases of the European Court of Human Rights, in English; a user is a case, a row a paragraph.

    The layer `gold` has all that people marked, by type; the layer `identifier` has the same by
    whether it tells who the case is about, by itself (DIRECT), with others (QUASI) or not at all
    (NO_MASK); entities are the first two. Of mentions that overlap the first, and of these the
    longest, is kept; one that cuts a word has the whole word, and one that goes over the end of a
    paragraph is left out. Where several people annotated a
    case, the first of them counts. Records have the applicant, the year of the judgment and the
    country.
    """

    name: ClassVar[str] = "tab"
    title: ClassVar[str] = "Text Anonymization Benchmark"
    source: ClassVar[str] = (
        "Pilan et al., The Text Anonymization Benchmark (TAB), Computational Linguistics 48(4), "
        "2022"
    )
    Params = TABParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test, as far as the files have them.

        Raises:
            InputError: for a missing or malformed file.
        """
        cases = [case for file in self._files() for case in read_cases(file, f"{self.name}.path")]
        texts: list[str] = []
        owners: list[tuple[int, int]] = []
        labelled: list[tuple[int, int, int, str, str]] = []
        for user, case in enumerate(cases):
            for paragraph in _PARAGRAPH.finditer(case.text):
                start, end = paragraph.span()
                labelled += [
                    (len(texts), a - start, b - start, kind, of)
                    for a, b, kind, of in case.mentions
                    if start <= a and b <= end
                ]
                texts.append(paragraph[0])
                owners.append((user, case.split))
        users, split = np.array(owners, dtype=np.int64).T.copy()
        by_type: list[Mention] = [(row, a, b, TYPES.index(kind)) for row, a, b, kind, _ in labelled]
        by_mask: list[Mention] = [
            (row, a, b, IDENTIFIERS.index(of)) for row, a, b, _, of in labelled if of in IDENTIFIERS
        ]
        masked = [each for each, (*_, of) in zip(by_type, labelled, strict=True)
                  if of in ENTITIES]  # fmt: skip
        corpus = Corpus(
            texts=tuple(texts),
            groups={"user": users},
            split=split,
            entities=Spans.build(texts, masked),
            entity_types=TYPES,
            layers={
                "gold": Layer.build(texts, by_type, TYPES),
                "identifier": Layer.build(texts, by_mask, IDENTIFIERS),
            },
            records=tuple(case.facts for case in cases),
        )
        return with_documents(corpus)

    def _files(self) -> list[Path]:
        path = require_path(self.params.path, self.name)
        if path.is_file():
            return [path]
        first = find_file(path, _FILES, self.name)
        if "echr" not in first.name:
            return [first]
        return sorted(file for file in path.iterdir() if file.name.startswith("echr_"))


def read_cases(file: Path, parameter: str) -> Iterator[Case]:
    """Cases of a file.

    Raises:
        InputError: naming file and case, for one that lacks a field, or a mention outside its text.
    """
    where = f"{parameter}: {shown_path(file)}"
    with open_text(file, parameter) as text:
        try:
            objects = (
                [json.loads(line) for line in text if line.strip()]
                if file.name.removesuffix(".gz").endswith(".jsonl")
                else json.loads(text.read())
            )
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is no JSON: {plain(str(error), 200)}") from None
    if not isinstance(objects, list) or not objects:
        raise InputError(f"{where} holds no list of cases")
    for number, each in enumerate(objects, start=1):
        yield _case(each, f"{where}, case {number}")


def _case(each: Any, where: str) -> Case:
    try:
        if "annotations" in each:
            spans = each["annotations"][min(each["annotations"])]["entity_mentions"]
            meta, split = each["meta"], each["dataset_type"]
        else:
            spans, meta = each["entities"], each["metadata"]["provenance"]
            split = meta["dataset_type"]
        text = each["text"]
        mentions = [
            (int(m["start_offset"]), int(m["end_offset"]), m["entity_type"], m["identifier_type"])
            for m in spans
        ]
        facts = _facts(meta)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{where} is no case of the benchmark: {plain(repr(error), 200)}"
        ) from None
    for start, end, kind, _ in mentions:
        if not (0 <= start < end <= len(text)) or kind not in TYPES:
            raise InputError(
                f"{where}: the mention ({start}, {end}) of type {shown(kind)} is not inside the "
                f"text of {len(text)} characters, or its type is none of {', '.join(TYPES)}"
            )
    return Case(split_index(split, where), text, _apart(text, mentions), facts)


def _facts(meta: dict[str, Any]) -> Facts:
    codes = meta["countries"]
    every = re.split(r"\W+", codes) if isinstance(codes, str) else codes
    candidates = {
        "applicant": (meta["applicant"],),
        "year": (str(meta["year"]),),
        "country": tuple(_countries()[code] for code in every if code in _countries()),
    }
    return {key: values for key, values in candidates.items() if all(values) and values}


@cache
def _countries() -> dict[str, str]:
    """English names by ISO 3166 code of three letters."""
    from faker.providers.date_time import Provider

    return {country.alpha_3_code: country.name for country in Provider.countries}


def _apart(
    text: str, mentions: Sequence[tuple[int, int, str, str]]
) -> list[tuple[int, int, str, str]]:
    """Mentions of whole words, of which no two overlap."""
    kept: list[tuple[int, int, str, str]] = []
    for start, end, kind, of in sorted(mentions, key=lambda m: (m[0], -m[1])):
        first, last = start, end
        while first and _WORD.match(text[first - 1]) and _WORD.match(text[first]):
            first -= 1
        while last < len(text) and _WORD.match(text[last - 1]) and _WORD.match(text[last]):
            last += 1
        if not kept or kept[-1][1] <= first:
            kept.append((first, last, kind, of))
    return kept
