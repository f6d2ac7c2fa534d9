"""Phrases of a text that could be a value of a register; each is compared and marked as a whole.

By patterns, which need no model: dates and runs of capitalised words. Or by the entities of a spaCy
pipeline, as in Hathurusinghe et al. 2021, section 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.text.annotation.dates import find_dates
from uedp_bench.text.annotation.keys import Kind
from uedp_bench.text.entities import detect

NAMED: frozenset[Kind] = frozenset({"person", "organisation", "place"})
"""Kinds that a run of capitalised words may name."""

LABELS: dict[str, frozenset[Kind]] = {
    "DATE": frozenset({"date"}),
    "FAC": frozenset({"organisation", "place"}),
    "GPE": frozenset({"place"}),
    "LOC": frozenset({"place"}),
    "ORG": frozenset({"organisation"}),
    "PER": frozenset({"person"}),
    "PERSON": frozenset({"person"}),
}
"""Kinds by type of spaCy's pipelines; other types are no candidates."""

_WORD = re.compile(
    r"(?:(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr)\.|[^\W\d_]\.(?:-?[^\W\d_]\.)*"
    r"|[^\W\d_]+(?:[-'’](?!s\b)[^\W\d_]+)*)"
)
_JOINS = frozenset({
    "af", "al", "bin", "da", "das", "de", "del", "den", "der", "des", "di", "do", "dos", "du", "el",
    "la", "le", "of", "the", "van", "von", "y", "zu",
})  # fmt: skip
_OF = "of"
# Words that a sentence starts with, and no name does.
_STARTS = frozenset({
    "a", "after", "all", "also", "an", "and", "as", "at", "before", "both", "but", "by", "during",
    "following", "for", "from", "he", "her", "his", "if", "in", "it", "its", "later", "no", "of",
    "on", "one", "our", "she", "since", "some", "that", "the", "their", "then", "there", "these",
    "they", "this", "those", "through", "to", "under", "until", "when", "where", "which", "while",
    "who", "with",
})  # fmt: skip


class Candidate(NamedTuple):
    """A phrase.

    Attributes:
        start, end: place in characters.
        kinds: possible kinds.
    """

    start: int
    end: int
    kinds: frozenset[Kind]


def by_patterns(text: str) -> list[Candidate]:
    """Dates with a year, and runs of capitalised words.

    A run may hold small words such as "van der" and "of the" between its names; what "of"
    separates in it are candidates too. Scripts without capital letters have no runs.
    """
    dates = [Candidate(start, end, frozenset({"date"})) for start, end, _ in find_dates(text)]
    return [*dates, *(Candidate(*span, NAMED) for span in _runs(text))]


def _runs(text: str) -> Iterator[tuple[int, int]]:
    words = list(_WORD.finditer(text))
    run: list[re.Match[str]] = []
    for at, word in enumerate(words):
        if run and text[words[at - 1].end() : word.start()].strip(" ") != "":
            yield from _pieces(run)
            run = []
        if word[0][0].isupper():
            if run or word[0].casefold() not in _STARTS:
                run.append(word)
        elif run and word[0] in _JOINS:
            run.append(word)
        else:
            yield from _pieces(run)
            run = []
    yield from _pieces(run)


def _pieces(run: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """A run, and what "of" separates in it, without small words at their ends."""
    parts = [list(part) for of, part in groupby(run, lambda word: word[0] == _OF) if not of]
    for piece in [run, *parts] if len(parts) > 1 else [run]:
        named = [at for at, word in enumerate(piece) if word[0][0].isupper()]
        if named:
            yield piece[named[0]].start(), piece[named[-1]].end()


def by_pipeline(texts: Sequence[str], pipeline: str) -> list[list[Candidate]]:
    """Entities that a spaCy pipeline finds in each text, of types that `LABELS` knows.

    Raises:
        InputError: for a missing pipeline, or one that recognises no entities.
        MissingExtraError: if spaCy is not installed.
    """
    detection = detect(texts, DetectionParams(detector="spacy", pipeline=pipeline))
    out: list[list[Candidate]] = [[] for _ in texts]
    for row, start, end, kind in detection.mentions.tolist():
        kinds = LABELS.get(detection.types[kind])
        if kinds:
            out[row].append(Candidate(start, end, kinds))
    return out
